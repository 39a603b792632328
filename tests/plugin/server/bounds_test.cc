// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the limits of a server with clients that exceed them.

#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "plugin/service/node_service.h"
#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

constexpr int kResourceExhausted = 7;

class BoundsTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    options.n_io_threads = 2;
    options.max_frame_bytes = 8 << 20;
    options.max_pending_bytes = 4 << 20;
    options.max_in_flight = 16;
    options.max_connections = 8;
    return options;
  }
};

class PatienceTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    options.patience_ns = 300000000;
    return options;
  }
};

// A server with little memory for replies, and clients that do not read their replies.
class UnreadTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    budgets_ = tps_budgets_new (nullptr);
    tps_budget_unref (budgets_->replies);
    budgets_->replies = tps_budget_new (budgets_->process, "replies", 4 << 20);
    options.n_io_threads = 2;
    parts_.budgets = budgets_;
    return options;
  }
  void
  TearDown () override
  {
    ServerTest::TearDown ();
    EXPECT_EQ (tps_budget_get_held (budgets_->replies), 0u);
    tps_budgets_free (budgets_);
  }
  // Waits until at least `n_bytes` are held, for at most 30 s. Returns true if they are.
  bool
  WaitForHeld (gsize n_bytes)
  {
    gint64 end_us = g_get_monotonic_time () + 30 * G_USEC_PER_SEC;
    while (tps_budget_get_held (budgets_->replies) < n_bytes && g_get_monotonic_time () < end_us)
      std::this_thread::yield ();
    return tps_budget_get_held (budgets_->replies) >= n_bytes;
  }

  TpsBudgets *budgets_ = nullptr;
};

TEST_F (UnreadTest, ErrorsAreCharged)
{
  RawClient client (unix_);
  std::string calls;

  for (int i = 0; i < 2000; i++)
    calls += MessageBytes ({}, "Test:" + std::string (400, 'x'), i, IntField (i));
  std::thread sender ([&] { client.SendBytes (calls); });
  EXPECT_TRUE (WaitForHeld (50000));
  for (int i = 0; i < 2000; i++)
    EXPECT_EQ (client.Receive ()->kind, TPS_MESSAGE_EXCEPTION);
  sender.join ();
}

TEST_F (UnreadTest, ConnectionsThatDoNotReadLeaveRoomForOthers)
{
  std::vector<std::unique_ptr<RawClient>> hogs;

  for (int i = 0; i < 20; i++)
    {
      hogs.push_back (std::make_unique<RawClient> (unix_));
      for (int call = 0; call < 16; call++)
        hogs.back ()->Send ("Test:make", call, IntField (250 << 10));
      RawClient honest (unix_);
      for (int call = 0; call < 4; call++)
        {
          Message answer = honest.Call ("Test:make", IntField (50000), call);
          EXPECT_NE (ErrorCode (answer), 7) << i << ": " << ErrorText (answer);
        }
    }
  EXPECT_TRUE (WaitForHeld (1 << 20));
}

// Otherwise a command that took effect would look as if it had been refused.
TEST_F (UnreadTest, SmallRepliesNeedNoRoom)
{
  RawClient client (unix_);

  ASSERT_TRUE (tps_budget_charge (budgets_->replies, 4 << 20, nullptr));
  EXPECT_EQ (IntResult (client.Call ("Test:echo", IntField (5))), 5);
  tps_budget_release (budgets_->replies, 4 << 20);
}

class MetricsTest : public BoundsTest
{
protected:
  void
  AddServices () override
  {
    node_.metrics = metrics_;
    TpsService service = tps_node_service (&node_);
    tps_server_add_service (server_, &service);
  }
  void
  TearDown () override
  {
    BoundsTest::TearDown ();
    tps_metrics_unref (metrics_);
  }

  TpsMetrics *metrics_ = tps_metrics_new (nullptr, nullptr);
  TpsNode node_ = {};
};

TEST_F (MetricsTest, SummariesAreCharged)
{
  WriteFields with_samples = [] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BOOL);
    tps_writer_bool (out, TRUE);
  };
  for (int series = 0; series < 5; series++)
    for (int i = 0; i < TPS_METRICS_MAX_SAMPLES; i++)
      tps_metrics_record (metrics_, "rounds", ("series" + std::to_string (series)).c_str (), 1);
  RawClient client (tcp_);
  Message refused = client.Call ("Node:get_metrics", with_samples);
  EXPECT_EQ (ErrorCode (refused), kResourceExhausted) << ErrorText (refused);
  tps_metrics_clear (metrics_);
  EXPECT_EQ (ErrorCode (client.Call ("Node:get_metrics", with_samples)), 0);
}

TEST_F (BoundsTest, ReadsNoMoreThanItsCallsInFlight)
{
  RawClient flooding (tcp_);
  std::string flood;
  for (int i = 0; i < 1000; i++)
    flood += MessageBytes ({}, "Test:hold", i, IntField (i));
  ASSERT_TRUE (flooding.SendBytes (flood));
  service_.WaitForHeld (16);
  RawClient other (tcp_);
  for (int i = 0; i < 10; i++)
    EXPECT_EQ (IntResult (other.Call ("Test:echo", IntField (i))), i);
  EXPECT_EQ (service_.NHeld (), 16u);
  EXPECT_EQ (tps_server_get_n_calls (server_), 16u);
  for (int i = 0; i < 1000; i++)
    {
      service_.Release (i);
      EXPECT_EQ (flooding.Receive ()->seqid, i);
      EXPECT_LE (service_.NHeld (), 16u);
    }
}

TEST_F (BoundsTest, RefusesBodiesThatFindNoRoom)
{
  RawClient client (unix_);
  client.Send ("Test:take", 1, BinaryField (3 << 20));
  service_.WaitForHeld (1);
  Message refused = client.Call ("Test:take", BinaryField (3 << 20), 2);
  EXPECT_EQ (ErrorCode (refused), 7);
  EXPECT_EQ (refused->seqid, 2);
  EXPECT_GT (RetryAfterMs (refused), 0);
  service_.Release (0);
  EXPECT_EQ (IntResult (client.Receive ()), 0);
  client.Send ("Test:take", 3, BinaryField (3 << 20));
  service_.Release (0);
  EXPECT_EQ (client.Receive ()->seqid, 3);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (tps_server_get_bodies (server_)), 0u);
}

TEST_F (BoundsTest, CountsAllTensorsOfACall)
{
  RawClient client (tcp_);
  WriteFields two = [] (TpsWriter *out) {
    std::string bytes (3 << 20, 'x');
    for (gint16 id = 1; id <= 2; id++)
      {
        tps_writer_field (out, id, TPS_WIRE_BINARY);
        tps_writer_binary (out, bytes.data (), bytes.size ());
      }
  };
  Message refused = client.Call ("Test:take", two, 1);
  EXPECT_EQ (ErrorCode (refused), 7);
  EXPECT_EQ (RetryAfterMs (refused), -1);
  EXPECT_THAT (ErrorText (refused), testing::HasSubstr ("--max-pending-mib"));
}

// A list of numbers is part of the head and not a body.
WriteFields
NumbersField (guint32 n_elems)
{
  return [n_elems] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_I64, n_elems);
    for (guint32 i = 0; i < n_elems; i++)
      tps_writer_i64 (out, i);
  };
}

TEST_F (BoundsTest, RefusesHeadsThatFindNoRoomAndKeepsTheConnection)
{
  RawClient waiting (tcp_), growing (tcp_), other (tcp_);
  waiting.Send ("Test:take", 1, BinaryField (3 << 20));
  service_.WaitForHeld (1);
  growing.SendBytes (MessageBytes ({}, "Test:take", 1, NumbersField (500000)));
  EXPECT_EQ (ErrorCode (growing.Receive ()), 7);
  EXPECT_EQ (IntResult (growing.Call ("Test:echo", IntField (2))), 2);
  EXPECT_EQ (IntResult (other.Call ("Test:echo", IntField (1))), 1);
  service_.Release (0);
  EXPECT_EQ (IntResult (waiting.Receive ()), 0);
}

TEST_F (BoundsTest, ClosesConnectionsBeyondTheCap)
{
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; i++)
    {
      clients.push_back (std::make_unique<RawClient> (i % 2 == 0 ? tcp_ : unix_));
      ASSERT_EQ (IntResult (clients.back ()->Call ("Test:echo", IntField (i))), i);
    }
  RawClient beyond (tcp_);
  EXPECT_TRUE (beyond.IsClosedByPeer ());
  clients.pop_back ();
  while (tps_server_get_n_connections (server_) == 8)
    std::this_thread::yield ();
  RawClient next (tcp_);
  EXPECT_EQ (IntResult (next.Call ("Test:echo", IntField (9))), 9);
}

TEST_F (PatienceTest, ClosesAClientThatDoesNotReadItsAnswers)
{
  RawClient greedy (tcp_);
  std::string flood;
  for (int i = 0; i < 100; i++)
    flood += MessageBytes ({}, "Test:make", i, IntField (1 << 20));
  greedy.SendUntilStuck (flood, 50);
  while (tps_server_get_n_connections (server_) > 0)
    std::this_thread::yield ();
  RawClient other (tcp_);
  EXPECT_EQ (IntResult (other.Call ("Test:echo", IntField (1))), 1);
}

TEST_F (BoundsTest, AnswersAClientThatReadsLate)
{
  constexpr int kCalls = 160;
  RawClient client (tcp_);
  std::string flood;
  for (int i = 0; i < kCalls; i++)
    flood += MessageBytes ({}, "Test:make", i, IntField (500000));
  ASSERT_TRUE (client.SendBytes (flood));
  for (int i = 0; i < kCalls; i++)
    {
      Message answer = client.Receive ();
      ASSERT_NE (answer, nullptr) << i;
      EXPECT_EQ (BinaryResult (answer).size (), 500000u);
    }
}

} // namespace
} // namespace thriftps_test
