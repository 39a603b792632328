// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the end of a server, and starts that are refused.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <future>
#include <thread>

#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

using StopTest = ServerTest;

TEST_F (StopTest, WaitingCallsGetUnavailableAndConnectionsAreClosed)
{
  RawClient waiting (tcp_), idle (unix_), late (tcp_);
  waiting.Send ("Test:hold", 1, IntField (1));
  service_.WaitForHeld (1);
  EXPECT_EQ (IntResult (late.Call ("Test:echo", IntField (1))), 1);
  EXPECT_TRUE (tps_server_stop (server_));
  EXPECT_EQ (ErrorCode (waiting.Receive ()), 8);
  EXPECT_EQ (waiting.Receive (), nullptr);
  EXPECT_EQ (idle.Receive (), nullptr);
  EXPECT_EQ (late.Receive (), nullptr);
  EXPECT_EQ (tps_server_get_n_connections (server_), 0u);
  EXPECT_TRUE (tps_server_stop (server_));
}

TEST_F (StopTest, RunningCallsAreAnsweredAndNewOnesRefusedMeanwhile)
{
  RawClient running (tcp_), other (tcp_);
  running.Send ("Test:work", 1, IntField (5));
  service_.WaitForWorking (1);
  EXPECT_EQ (IntResult (other.Call ("Test:echo", IntField (1))), 1);
  auto stopped = std::async (std::launch::async, [this] { return tps_server_stop (server_); });
  Message refused;
  while (ErrorCode (refused = other.Call ("Test:echo", IntField (2))) == 0)
    ;
  EXPECT_EQ (ErrorCode (refused), 8);
  service_.LetGo ();
  EXPECT_EQ (IntResult (running.Receive ()), 5);
  EXPECT_TRUE (stopped.get ());
}

TEST_F (StopTest, AnswersThatAreUnderWayArrive)
{
  RawClient client (tcp_);
  client.Send ("Test:make", 1, IntField (20 << 20));
  while (tps_server_get_n_connections (server_) == 0)
    std::this_thread::yield ();
  auto received = std::async (std::launch::async,
                              [&] { return BinaryResult (client.Receive ()).size (); });
  Message answer = RawClient (tcp_).Call ("Test:echo", IntField (1));
  tps_server_stop (server_);
  size_t n_bytes = received.get ();
  EXPECT_TRUE (n_bytes == 20u << 20 || n_bytes == 0) << n_bytes;
}

TEST_F (StopTest, UnixSocketsLeaveTheFileSystem)
{
  struct stat status;
  EXPECT_EQ (stat (path_.c_str (), &status), 0);
  tps_server_stop (server_);
  EXPECT_NE (stat (path_.c_str (), &status), 0);
  EXPECT_THROW (RawClient client (unix_), std::runtime_error);
  EXPECT_THROW (RawClient client (tcp_), std::runtime_error);
}

TEST_F (StopTest, AnswersGivenAfterTheEndAreDropped)
{
  auto client = std::make_unique<RawClient> (unix_);
  client->Send ("Test:work", 1, IntField (5));
  service_.WaitForWorking (1);
  client.reset ();
  auto stopped = std::async (std::launch::async, [this] { return tps_server_stop (server_); });
  while (tps_server_get_n_connections (server_) > 0)
    std::this_thread::yield ();
  service_.LetGo ();
  stopped.get ();
}

TEST (Stop, AServerThatNeverStartedCanBeStopped)
{
  g_autoptr (TpsServer) server = tps_server_new (nullptr);
  ASSERT_TRUE (tps_server_listen (server, "127.0.0.1:0", nullptr));
  EXPECT_TRUE (tps_server_stop (server));
  EXPECT_FALSE (tps_server_start (server, nullptr));
}

TEST (Stop, ServesAsAThriftServer)
{
  TestService test_service;
  TpsService service = test_service.Get ();
  g_autoptr (TpsServer) server = tps_server_new (nullptr);
  ThriftServer *base = THRIFT_SERVER (server);
  tps_server_add_service (server, &service);
  ASSERT_TRUE (tps_server_listen (server, "127.0.0.1:0", nullptr));
  auto served = std::async (std::launch::async,
                            [base] { return thrift_server_serve (base, nullptr); });
  EXPECT_EQ (
      IntResult (RawClient (tps_server_get_addresses (server)[0]).Call ("echo", IntField (4))), 4);
  thrift_server_stop (base);
  EXPECT_TRUE (served.get ());
}

// ---- starts that are refused --------------------------------------------------------------------

TEST (Start, RefusesAServiceTwiceAndADefaultThatIsNotThere)
{
  TestService first;
  TpsService service = first.Get ("A");
  for (const char *fault : { "twice", "default" })
    {
      TpsServerOptions options = {};
      options.default_service = g_str_equal (fault, "default") ? "B" : nullptr;
      g_autoptr (TpsServer) server = tps_server_new (&options);
      g_autoptr (GError) error = nullptr;
      tps_server_add_service (server, &service);
      if (g_str_equal (fault, "twice"))
        tps_server_add_service (server, &service);
      EXPECT_FALSE (tps_server_start (server, &error));
      ASSERT_NE (error, nullptr);
      EXPECT_THAT (error->message, testing::HasSubstr (fault));
    }
}

} // namespace
} // namespace thriftps_test
