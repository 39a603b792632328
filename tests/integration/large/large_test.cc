/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sends a model of 3 GiB to a server with default limits, and fetches it back. Each receiver may
 * use only 64 MiB in addition to the memory of the model. */

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "tests/integration/server/server_process.h"

namespace thriftps_test {
namespace {

constexpr size_t MIB = 1 << 20;
constexpr size_t TENSOR_BYTES = 3072 * MIB;
constexpr size_t NEEDED_BYTES = 10240 * MIB; /* the server's model and its copy, and the client's */
constexpr size_t MAX_BYTES = TENSOR_BYTES + 64 * MIB;

/* Returns the value of a line "FIELD: N kB" of a file in /proc, in bytes. */
size_t
ReadBytes (const std::string &path, const std::string &field)
{
  std::ifstream file (path);
  std::string line;
  size_t n_kib = 0;

  while (std::getline (file, line))
    if (line.rfind (field, 0) == 0)
      sscanf (line.c_str () + field.size (), ": %zu", &n_kib);
  return n_kib * 1024;
}

size_t
ReadPeakBytes (pid_t pid)
{
  return ReadBytes ("/proc/" + std::to_string (pid) + "/status", "VmHWM");
}

class Large : public ::testing::Test
{
protected:
  void
  SetUp () override
  {
    if (ReadBytes ("/proc/meminfo", "MemAvailable") < NEEDED_BYTES)
      GTEST_SKIP () << "needs " << NEEDED_BYTES / MIB << " MiB of memory";
  }
};

/* Runs a client with the arguments `what`. Returns its peak memory; 0 = it failed. */
size_t
RunClient (const std::string &what, const std::string &address)
{
  std::string command = "tests/integration/large/large_client " + what + " " + address + " "
                        + std::to_string (TENSOR_BYTES);
  FILE *out = popen (command.c_str (), "r");
  size_t peak_bytes = 0;
  double seconds = 0;

  EXPECT_EQ (fscanf (out, "peak_bytes %zu seconds %lf", &peak_bytes, &seconds), 2) << what;
  EXPECT_EQ (pclose (out), 0) << what;
  printf ("%s: peak %zu MiB, %.2f s\n", what.c_str (), peak_bytes / MIB, seconds);
  return peak_bytes;
}

size_t
ReadServerPeak (const ServerProcess &server)
{
  size_t peak_bytes = ReadPeakBytes (server.pid ());

  printf ("server: peak %zu MiB\n", peak_bytes / MIB);
  return peak_bytes;
}

// The tensor is sent in chunks. It returns in the reply of a plain call, which the client fetches
// in chunks. The server's model must be a copy of the received tensor, so the server needs memory
// for two.
TEST_F (Large, AModelGoesAndComesBack)
{
  ServerProcess server (
      { "--listen=127.0.0.1:0", "--services=ParameterServer,Node", "--log-level=warning" });
  std::string address = server.ReadAddress ();

  ASSERT_GT (RunClient ("init_model", address), 0u);
  size_t before = ReadServerPeak (server);
  EXPECT_LE (before, TENSOR_BYTES + MAX_BYTES);
  size_t client_peak = RunClient ("get_model", address);
  EXPECT_GT (client_peak, TENSOR_BYTES);
  EXPECT_LE (client_peak, MAX_BYTES) << "the client that receives";
  EXPECT_LE (ReadServerPeak (server), before + 64 * MIB) << "the server that sends";
}

} // namespace
} // namespace thriftps_test
