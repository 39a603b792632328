// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the order of replies.

#include <algorithm>
#include <random>
#include <thread>

#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

class OrderTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    options.n_io_threads = 2;
    options.n_workers = 4;
    return options;
  }
};

TEST_F (OrderTest, CallsOvertakeEachOtherWhereTheirIdsDiffer)
{
  RawClient client (tcp_);
  client.Send ("Test:hold", 1, IntField (10));
  client.Send ("Test:hold", 2, IntField (20));
  client.Send ("Test:echo", 3, IntField (30));
  EXPECT_EQ (client.Receive ()->seqid, 3);
  service_.Release (20);
  Message second = client.Receive ();
  EXPECT_EQ (second->seqid, 2);
  EXPECT_EQ (IntResult (second), 20);
  service_.Release (10);
  EXPECT_EQ (client.Receive ()->seqid, 1);
}

TEST_F (OrderTest, UnframedCallsWithDifferentIdsAreAnsweredInOrder)
{
  for (TpsProtocolKind protocol : { TPS_PROTOCOL_BINARY, TPS_PROTOCOL_COMPACT })
    {
      RawClient client (tcp_, { protocol, false });
      client.Send ("Test:hold", 1, IntField (10));
      client.Send ("Test:echo", 2, IntField (20));
      service_.WaitForHeld (1);
      service_.Release (10);
      EXPECT_EQ (IntResult (client.Receive ()), 10);
      EXPECT_EQ (IntResult (client.Receive ()), 20);
    }
}

TEST_F (OrderTest, OnewayCallsGetNoReplyAndDelayNoCall)
{
  RawClient client (tcp_, { TPS_PROTOCOL_BINARY, false });
  client.Send ("Test:hold", 0, IntField (10), TPS_MESSAGE_ONEWAY);
  client.Send ("Test:echo", 0, IntField (20));
  EXPECT_EQ (IntResult (client.Receive ()), 20);
  service_.Release (10);
  EXPECT_EQ (IntResult (client.Call ("Test:echo", IntField (30))), 30);
}

// Calls have random ids, some of them equal. Several threads release the calls in random order.
TEST_F (OrderTest, KeepsTheOrderOfEachIdUnderManyThreads)
{
  constexpr int kCalls = 60;
  for (unsigned seed = 0; seed < 30; seed++)
    {
      std::mt19937 random (seed);
      RawClient client (seed % 2 == 0 ? tcp_ : unix_);
      std::vector<int> arguments;
      std::map<int, std::vector<int>> sent, answered;
      for (int i = 0; i < kCalls; i++)
        {
          int seqid = (int) (random () % 8);
          client.Send ("Test:hold", seqid, IntField (i));
          sent[seqid].push_back (i);
          arguments.push_back (i);
        }
      std::shuffle (arguments.begin (), arguments.end (), random);
      std::vector<std::thread> threads;
      for (size_t t = 0; t < 3; t++)
        threads.emplace_back ([&, t] {
          for (size_t i = t; i < arguments.size (); i += 3)
            service_.Release (arguments[i]);
        });
      for (int i = 0; i < kCalls; i++)
        {
          Message answer = client.Receive ();
          ASSERT_NE (answer, nullptr);
          answered[answer->seqid].push_back ((int) IntResult (answer));
        }
      for (auto &thread : threads)
        thread.join ();
      EXPECT_EQ (answered, sent) << "seed " << seed;
    }
}

} // namespace
} // namespace thriftps_test
