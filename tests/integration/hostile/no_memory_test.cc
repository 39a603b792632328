// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// If the system has no memory although the budgets have room, the server must refuse the request
// that needs memory, and continue.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>
#include <list>
#include <string>

#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/raw_client.h"

namespace thriftps_test {
namespace {

constexpr int kResourceExhausted = 7;
constexpr int kClients = 40; // their calls do not fit into malloc's reserved heaps
constexpr rlim_t kUnlimited = RLIM_INFINITY;

rlim_t
AddressSpaceBytes (pid_t pid)
{
  std::ifstream status ("/proc/" + std::to_string (pid) + "/status");
  std::string word;
  rlim_t kib = 0;
  while (status >> word && word != "VmSize:")
    ;
  status >> kib;
  return kib << 10;
}

void
LimitAddressSpace (pid_t pid, rlim_t n_bytes)
{
  struct rlimit limit = { n_bytes, kUnlimited };
  ASSERT_EQ (prlimit (pid, RLIMIT_AS, &limit, nullptr), 0);
}

// Writes an unknown field with a list of short strings. The server keeps the whole list until it
// has the message.
WriteFields
LongList (guint n_bytes)
{
  return [n_bytes] (TpsWriter *out) {
    const std::string text (1000, 'x');
    guint n = n_bytes / 1000;
    tps_writer_field (out, 99, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_BINARY, n);
    for (guint i = 0; i < n; i++)
      tps_writer_string (out, text.c_str ());
  };
}

TEST (NoMemory, LongRequestsAreRefusedAndTheServerContinues)
{
// Sanitizers reserve more address space than the limit allows.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP ();
#endif
  ServerProcess server ({ "--listen=127.0.0.1:0", "--workers=2", "--log-level=error" });
  std::string address = server.ReadAddress ();
  std::string call = MessageBytes ({}, "Node:describe", 0, LongList (14 << 20));
  RawClient honest (address);
  std::list<RawClient> clients;
  int n_refused = 0;

  ASSERT_EQ (ErrorCode (honest.Call ("Node:describe")), 0);
  LimitAddressSpace (server.pid (), AddressSpaceBytes (server.pid ()) + (3 << 20));
  for (int i = 0; i < kClients; i++)
    {
      clients.emplace_back (address);
      ASSERT_TRUE (clients.back ().SendBytes (call.substr (0, call.size () - 1)));
      ASSERT_EQ (ErrorCode (honest.Call ("Node:describe")), 0);
    }
  for (RawClient &client : clients)
    {
      ASSERT_TRUE (client.SendBytes (call.substr (call.size () - 1)));
      Message reply = client.Receive ();
      EXPECT_THAT (ErrorCode (reply), testing::AnyOf (0, kResourceExhausted)) << ErrorText (reply);
      n_refused += ErrorCode (reply) == kResourceExhausted;
    }
  EXPECT_GT (n_refused, 0);
  LimitAddressSpace (server.pid (), kUnlimited);
  EXPECT_EQ (ErrorCode (honest.Call ("Node:describe", LongList (14 << 20))), 0);
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
}

} // namespace
} // namespace thriftps_test
