// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Neither the calls of other clients nor those of closed connections may delay a client.

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "plugin/service/parameter_server_service.h"
#include "plugin/service/rendezvous_service.h"
#include "tests/plugin/server/gradient_call.h"
#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

constexpr int kGone = 20;
constexpr int kInFlight = 64; // at this number of calls, the server stops reading the connection
constexpr int kDeadlineExceeded = 6;

// A server with one worker, which each call of Test:work blocks.
class FairnessTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    options.n_workers = 1;
    options.n_io_threads = 2;
    return options;
  }

  void
  AddServices () override
  {
    TpsParameterServerOptions averaging = {};
    averaging.n_trainers = 2;
    averaging.round_timeout_ns = 50 * 1000000;
    averaging.workers = tps_server_get_workers (server_);
    servers_.averaging = tps_parameter_server_new (&averaging, nullptr);
    TpsModelServerOptions updating = {};
    updating.n_trainers = 2;
    updating.workers = tps_server_get_workers (server_);
    servers_.updating = tps_model_server_new (&updating, nullptr);
    rendezvous_ = tps_rendezvous_new (tps_server_get_workers (server_), nullptr);
    for (const TpsService &service :
         { tps_parameter_server_service (&servers_), tps_rendezvous_service (rendezvous_) })
      tps_server_add_service (server_, &service);
  }

  void
  TearDown () override
  {
    service_.LetGo ();
    tps_server_stop (server_);
    tps_rendezvous_free (rendezvous_);
    tps_parameter_server_free (servers_.averaging);
    tps_model_server_free (servers_.updating);
    ServerTest::TearDown ();
  }

  // Opens connections, makes calls on them that wait for the worker, and closes the connections.
  void
  LeaveWithPendingCalls (const std::string &address)
  {
    std::vector<std::unique_ptr<RawClient>> gone;
    guint n_calls = tps_server_get_n_calls (server_) + kGone * kInFlight;
    guint n_connections = tps_server_get_n_connections (server_);

    for (int i = 0; i < kGone; i++)
      {
        std::string calls;
        for (int call = 0; call < kInFlight; call++)
          calls += MessageBytes ({}, "Test:work", call, IntField (1000 + call));
        gone.push_back (std::make_unique<RawClient> (address));
        ASSERT_TRUE (gone.back ()->SendBytes (calls));
      }
    while (tps_server_get_n_calls (server_) < n_calls)
      std::this_thread::yield ();
    gone.clear ();
    while (tps_server_get_n_connections (server_) > n_connections)
      std::this_thread::yield ();
  }

  TpsParameterServers servers_ = {};
  TpsRendezvous *rendezvous_ = nullptr;
};

TEST_F (FairnessTest, CallsOfClosedConnectionsThatHaveNotBegunAreCancelled)
{
  RawClient honest (tcp_);
  honest.Send ("Test:work", 1, IntField (1));
  service_.WaitForWorking (1);
  LeaveWithPendingCalls (unix_);
  honest.Send ("Test:work", 2, IntField (2));
  service_.LetGo ();
  EXPECT_EQ (IntResult (honest.Receive ()), 1);
  EXPECT_EQ (IntResult (honest.Receive ()), 2);
  while (tps_server_get_n_calls (server_) > 0)
    std::this_thread::yield ();
  EXPECT_EQ (service_.Begun (), (std::vector<gint32> { 1, 2 }));
}

TEST_F (FairnessTest, AConnectionWithManyCallsDelaysItsOwn)
{
  RawClient greedy (tcp_), modest (tcp_);
  std::string calls;

  for (int call = 0; call < kInFlight; call++)
    calls += MessageBytes ({}, "Test:work", call, IntField (1000 + call));
  ASSERT_TRUE (greedy.SendBytes (calls));
  while (tps_server_get_n_calls (server_) < kInFlight)
    std::this_thread::yield ();
  modest.Send ("Test:work", 1, IntField (1));
  TpsWorkerLoad load = {};
  while (tps_server_get_n_calls (server_) < kInFlight + 1 || load.n_waiting < kInFlight)
    tps_worker_pool_get_load (tps_server_get_workers (server_), &load);
  service_.LetGo ();
  EXPECT_EQ (IntResult (modest.Receive ()), 1);
  std::vector<gint32> begun = service_.Begun ();
  auto turn = std::find (begun.begin (), begun.end (), 1) - begun.begin ();
  EXPECT_LE (turn, 2); // One call runs already, and one more may precede this one.
}

// Both connections belong to one loop. The loop must not process all messages of one receive in a
// single turn.
TEST_F (FairnessTest, CostlyMessagesOfOneConnectionLeaveTurnsToOthers)
{
  RawClient greedy (tcp_), other_loop (tcp_), modest (tcp_);
  std::string calls;

  for (int call = 0; call < 100; call++)
    calls += MessageBytes ({}, "Test:compute", call, IntField (1000 + call));
  ASSERT_LT (calls.size (), 4096u);
  ASSERT_TRUE (greedy.SendBytes (calls));
  service_.WaitForWorking (1); // the loop is now blocked too
  modest.Send ("Test:compute", 1, IntField (1));
  service_.LetGo ();
  EXPECT_EQ (IntResult (modest.Receive ()), 1);
  std::vector<gint32> begun = service_.Begun ();
  EXPECT_LE (std::find (begun.begin (), begun.end (), 1) - begun.begin (), 40);
}

TEST_F (FairnessTest, RoundsEndInTimeThoughAllWorkersAreBusy)
{
  RawClient busy (tcp_), trainer (tcp_);

  busy.Send ("Test:work", 1, IntField (1));
  service_.WaitForWorking (1);
  Message answer = trainer.Call ("ParameterServer:average_gradient", Push (0, 1, 10, 1.0f));
  EXPECT_EQ (ErrorCode (answer), kDeadlineExceeded) << ErrorText (answer);
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

TEST_F (FairnessTest, WaitsForAKeyEndInTimeThoughAllWorkersAreBusy)
{
  RawClient busy (tcp_), waiting (tcp_);

  busy.Send ("Test:work", 1, IntField (1));
  service_.WaitForWorking (1);
  Message answer = waiting.Call ("Rendezvous:get", KeyFields ("key", 20));
  EXPECT_EQ (ErrorCode (answer), kDeadlineExceeded) << ErrorText (answer);
}

} // namespace
} // namespace thriftps_test
