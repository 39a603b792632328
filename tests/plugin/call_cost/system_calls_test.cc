// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Counts the system calls of the server for small calls, sent one at a time and pipelined.

#include <gtest/gtest.h>

#include <string>

#include "tests/plugin/call_cost/counted.h"
#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

constexpr int kPipelined = 50; // all these requests fit into one receive of the server
constexpr int kWarmUp = 20;

class SystemCallsTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    DoNotCountThisThread ();
    options.n_io_threads = 1;
    options.n_workers = 1;
    return options;
  }

  // Returns the bytes of calls 0 … n - 1, each with its own sequence id.
  static std::string
  Calls (const std::string &name, int n)
  {
    std::string bytes;
    for (int i = 0; i < n; i++)
      bytes += MessageBytes (Wire (), name, i, IntField (i));
    return bytes;
  }

  static void
  ReceiveAll (RawClient *client, int n)
  {
    for (int i = 0; i < n; i++)
      {
        Message answer = client->Receive ();
        ASSERT_NE (answer, nullptr);
        EXPECT_EQ (IntResult (answer), answer->seqid);
      }
  }
};

TEST_F (SystemCallsTest, ACallCostsOneToReceiveOneToSendAndOneToWait)
{
  constexpr int n = 500;
  RawClient client (unix_);
  Counts before = {};
  for (int i = -kWarmUp; i < n; i++)
    {
      if (i == 0)
        before = CountedSoFar ();
      ASSERT_EQ (IntResult (client.Call ("Test:echo", IntField (i), 1)), i);
    }
  Counts cost = CountedSoFar () - before;
  EXPECT_EQ (cost.receives, n);
  EXPECT_EQ (cost.sends, n);
  EXPECT_LT (cost.waits, 2 * n); // timers also wake the loop, more often on slower machines
  EXPECT_EQ (cost.wakes, 0);
}

// The replies to all requests of one recvmsg() are sent with one sendmsg().
TEST_F (SystemCallsTest, PipelinedCallsAreAnsweredTogether)
{
  std::string calls = Calls ("Test:echo", kPipelined);
  ASSERT_LT (calls.size (), 4096u);
  RawClient client (unix_);
  client.SendBytes (calls);
  ReceiveAll (&client, kPipelined);
  Counts before = CountedSoFar ();
  client.SendBytes (calls);
  ReceiveAll (&client, kPipelined);
  Counts cost = CountedSoFar () - before;
  EXPECT_EQ (cost.receives, 1);
  EXPECT_EQ (cost.sends, 1);
  EXPECT_EQ (cost.wakes, 0);
}

// The socket takes a large reply in many pieces. The server must not try to receive the next call
// after each piece.
TEST_F (SystemCallsTest, ALargeAnswerCostsNoMoreToReceiveThanASmallOne)
{
  constexpr int n_bytes = 16 << 20;
  RawClient client (unix_);
  for (int i = 0; i < kWarmUp; i++)
    ASSERT_EQ (IntResult (client.Call ("Test:echo", IntField (i), 1)), i);
  Counts before = CountedSoFar ();
  ASSERT_NE (client.Call ("Test:make", IntField (n_bytes), 1), nullptr);
  Counts cost = CountedSoFar () - before;
  EXPECT_GT (cost.sends, 1);
  EXPECT_LE (cost.receives, 2); // the loop may try once to receive the next call
}

} // namespace
} // namespace thriftps_test
