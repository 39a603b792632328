// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Clients send large requests and leave in every possible way. Meanwhile, well-behaved clients must
// be served in time, and the work for the clients that left must end. The deadlines are generous: a
// server with the defects that these tests look for takes minutes or hangs.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/gradient_call.h"

namespace thriftps_test {
namespace {

using std::chrono::steady_clock;

constexpr int kLeaving = 20;
constexpr int kInFlight = 64;
constexpr int kDeadlineExceeded = 6;
constexpr int kLingerSeconds = 300;
const auto kSoon = std::chrono::seconds (60); // much less than a lingering close

WriteFields
BoolField (bool value)
{
  return [value] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BOOL);
    tps_writer_bool (out, value);
  };
}

WriteFields
KeyFields (const std::string &key, gint32 timeout_ms)
{
  return [=] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_string (out, key.c_str ());
    tps_writer_field (out, 2, TPS_WIRE_I32);
    tps_writer_i32 (out, timeout_ms);
  };
}

std::string
ManyCalls (const std::string &name, const WriteFields &fields, int n = kInFlight)
{
  std::string calls;
  for (int i = 0; i < n; i++)
    calls += MessageBytes ({}, name, i, fields);
  return calls;
}

long
ResidentKib (pid_t pid)
{
  std::ifstream status ("/proc/" + std::to_string (pid) + "/status");
  std::string word;
  long kib = 0;
  while (status >> word && word != "VmRSS:")
    ;
  status >> kib;
  return kib;
}

class LeavingClientsTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    unix_ = "unix:" + TemporaryFolder () + "/socket";
    server_ = std::make_unique<ServerProcess> (std::vector<std::string> {
        "--listen=127.0.0.1:0", "--listen", unix_, "--ntrainer=2", "--rpc-timeout=1", "--workers=2",
        "--max-connections=64", "--log-level=error" });
    tcp_ = server_->ReadAddress ();
    ASSERT_EQ (server_->ReadAddress (), unix_);
  }

  void
  TearDown () override
  {
    server_->Signal (SIGTERM);
    EXPECT_EQ (server_->Wait (), 0);
  }

  // Returns a client that is served. During a storm all connection slots may be taken for a moment,
  // so the function tries repeatedly.
  static std::unique_ptr<RawClient>
  NewClient (const std::string &address)
  {
    for (;;)
      {
        auto client = std::make_unique<RawClient> (address);
        if (client->Call ("Node:describe") != nullptr)
          return client;
      }
  }

  // Runs a round of two trainers, a round that lacks a trainer, and some small calls. A round lasts
  // only one second, which may be too short on a busy machine, so the function tries repeatedly.
  void
  ExpectServed ()
  {
    auto start = steady_clock::now ();
    auto first = NewClient (tcp_), second = NewClient (unix_);
    RawClient &one = *first, &two = *second;
    Message average, same;
    do
      {
        batch_ += 2000; // beyond the batches of the storm
        // Both messages are built before the round begins.
        std::string first_push = ManyCalls ("ParameterServer:average_gradient",
                                            Push (0, batch_, 1000000, 2.0f), 1);
        std::string second_push = ManyCalls ("ParameterServer:average_gradient",
                                             Push (1, batch_, 1000000, 4.0f), 1);
        ASSERT_TRUE (one.SendBytes (first_push));
        ASSERT_TRUE (two.SendBytes (second_push));
        average = two.Receive ();
        same = one.Receive ();
      }
    while (ErrorCode (average) == kDeadlineExceeded && steady_clock::now () - start < kSoon);
    ASSERT_EQ (ErrorCode (average), 0) << ErrorText (average);
    EXPECT_EQ (Average (average)[999999], 3.0f);
    EXPECT_EQ (Average (same)[0], 3.0f);
    Message late = two.Call ("ParameterServer:average_gradient", Push (1, batch_ + 1, 1000, 4.0f));
    EXPECT_EQ (ErrorCode (late), kDeadlineExceeded) << ErrorText (late);
    EXPECT_EQ (ErrorCode (one.Call ("Node:get_metrics", BoolField (true))), 0);
    EXPECT_LT (steady_clock::now () - start, kSoon);
  }

  std::unique_ptr<ServerProcess> server_;
  std::string tcp_;
  std::string unix_;
  gint64 batch_ = 0;
};

TEST_F (LeavingClientsTest, CallsOfMetricsDelayNoRound)
{
  RawClient trainers[] = { RawClient (unix_), RawClient (unix_) };
  for (int i = 0; i < 500; i++)
    {
      batch_++;
      trainers[0].Send ("ParameterServer:average_gradient", 1, Push (0, batch_, 1, 2.0f));
      trainers[1].Call ("ParameterServer:average_gradient", Push (1, batch_, 1, 4.0f));
      trainers[0].Receive ();
    }
  for (int round = 0; round < 3; round++)
    {
      for (int i = 0; i < kLeaving; i++)
        RawClient (i % 2 == 0 ? tcp_ : unix_)
            .SendBytes (ManyCalls ("Node:get_metrics", BoolField (true)));
      ExpectServed ();
    }
}

TEST_F (LeavingClientsTest, WaitsForKeysKeepNoPlace)
{
  for (int round = 0; round < 5; round++)
    {
      for (int i = 0; i < 2 * kLeaving; i++)
        {
          RawClient leaving (i % 2 == 0 ? tcp_ : unix_);
          leaving.SendBytes (
              ManyCalls ("Rendezvous:get", KeyFields ("never", G_MAXINT32), 2 * kInFlight));
          if (i % 3 == 0)
            leaving.StopSending ();
        }
      ExpectServed ();
    }
}

// Returns a TCP socket whose close() blocks until its peer has read all bytes, which it never does.
int
NewLingeringSocket (std::vector<int> *listeners)
{
  struct sockaddr_in address = {};
  socklen_t n_bytes = sizeof address;
  struct linger linger = { 1, kLingerSeconds };
  char bytes[65536] = {};
  int listener = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  EXPECT_EQ (bind (listener, (struct sockaddr *) &address, sizeof address), 0);
  EXPECT_EQ (listen (listener, 1), 0);
  EXPECT_EQ (getsockname (listener, (struct sockaddr *) &address, &n_bytes), 0);
  EXPECT_EQ (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
  while (send (fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
    ;
  EXPECT_EQ (setsockopt (fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
  listeners->push_back (listener);
  return fd;
}

// Returns true if the descriptor was sent. The kernel may refuse it.
bool
SendDescriptor (int to, const std::string &bytes, int fd)
{
  alignas (struct cmsghdr) char room[CMSG_SPACE (sizeof fd)] = {};
  struct iovec piece = { const_cast<char *> (bytes.data ()), bytes.size () };
  struct msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  struct cmsghdr *control = CMSG_FIRSTHDR (&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN (sizeof fd);
  memcpy (CMSG_DATA (control), &fd, sizeof fd);
  bool sent = sendmsg (to, &message, MSG_NOSIGNAL) >= 0;
  EXPECT_TRUE (sent || errno == EPERM || errno == EPIPE || errno == ECONNRESET) << strerror (errno);
  return sent;
}

TEST_F (LeavingClientsTest, LingeringDescriptorsBlockNoThread)
{
  std::vector<int> listeners;
  for (int i = 0; i < 16; i++) // twice the I/O threads
    {
      RawClient leaving (unix_);
      int fd = NewLingeringSocket (&listeners);
      struct linger off = {};
      if (!SendDescriptor (leaving.fd (), MessageBytes ({}, "Node:describe", 1), fd))
        setsockopt (fd, SOL_SOCKET, SO_LINGER, &off, sizeof off); // close() must not block here
      close (fd);
    }
  ExpectServed ();
  for (int listener : listeners)
    close (listener);
}

// A storm of all attacks, in the same order in every run.
TEST_F (LeavingClientsTest, AStormOfThemLeavesNothingBehind)
{
  std::mt19937 dice (20261122);
  auto storm = [&] (int n) {
    for (int i = 0; i < n; i++)
      {
        RawClient leaving (dice () % 2 == 0 ? tcp_ : unix_);
        const std::string calls[] = {
          ManyCalls ("Rendezvous:get",
                     KeyFields ("key" + std::to_string (dice () % 5), G_MAXINT32)),
          ManyCalls ("Node:get_metrics", BoolField (dice () % 2 == 0)),
          ManyCalls ("ParameterServer:average_gradient", Push (0, batch_ + 1000 + i, 100, 1.0f), 1),
          ManyCalls ("ParameterServer:average_gradient", Push (1, batch_ + 1000 + i, 50000, 1.0f),
                     2),
        };
        std::string bytes = calls[dice () % 4];
        if (dice () % 4 == 0)
          bytes.resize (dice () % bytes.size ());
        leaving.SendBytes (bytes);
        struct linger reset = { 1, 0 };
        switch (dice () % 4)
          {
          case 0:
            leaving.StopSending ();
            break;
          case 1:
            setsockopt (leaving.fd (), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            break;
          case 2:
            shutdown (leaving.fd (), SHUT_RDWR);
            break;
          default:
            break;
          }
      }
  };
  storm (200);
  ExpectServed ();
  [[maybe_unused]] long before_kib = ResidentKib (server_->pid ());
  for (int round = 0; round < 4; round++)
    {
      storm (200);
      ExpectServed ();
    }
// Sanitizers keep freed memory, so they are excluded.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT (ResidentKib (server_->pid ()), before_kib + (64 << 10));
#endif
}

} // namespace
} // namespace thriftps_test
