// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Clients that have shut down their sending direction must get their replies. Clients that have
// left must not occupy connection slots.

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <memory>
#include <thread>
#include <vector>

#include "tests/plugin/server/test_service.h"
#include "tests/runtime/base/trace_capture.h"

namespace thriftps_test {
namespace {

constexpr guint kConnections = 8;
constexpr guint kInFlight = 16;
// The server allows at least this number of half-closed connections.
constexpr guint kHalfClosed = 8;

class HalfCloseTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    options.n_io_threads = 2;
    options.n_workers = 1;
    options.max_connections = kConnections;
    options.max_in_flight = kInFlight;
    options.half_closed_ns = G_GINT64_CONSTANT (3600) * 1000000000; // longer than any test
    return options;
  }

  void
  WaitForConnections (guint n)
  {
    while (tps_server_get_n_connections (server_) != n)
      std::this_thread::yield ();
  }

  // Returns a client with the maximum number of pending calls. The server has stopped reading from
  // it.
  std::unique_ptr<RawClient>
  NewBusyClient (const std::string &address)
  {
    guint n_calls = tps_server_get_n_calls (server_) + kInFlight;
    auto client = std::make_unique<RawClient> (address);
    std::string calls;

    for (guint i = 0; i < kInFlight; i++)
      calls += MessageBytes ({}, "Test:hold", (int) i, IntField ((gint32) i));
    EXPECT_TRUE (client->SendBytes (calls));
    while (tps_server_get_n_calls (server_) < n_calls)
      std::this_thread::yield ();
    return client;
  }

  void
  ReleaseAll ()
  {
    while (service_.NHeld () > 0)
      for (guint i = 0; i < kInFlight; i++)
        service_.Release ((gint32) i);
  }
};

class ImpatientTest : public HalfCloseTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = HalfCloseTest::Options ();
    options.half_closed_ns = 200 * 1000000;
    return options;
  }
};

TEST_F (HalfCloseTest, AnswersCallsThatWait)
{
  for (const std::string &address : { tcp_, unix_ })
    {
      RawClient client (address);
      client.Send ("Test:hold", 1, IntField (1));
      client.Send ("Test:hold", 2, IntField (2));
      client.StopSending ();
      service_.WaitForHeld (2);
      EXPECT_EQ (tps_server_get_n_connections (server_), 1u);
      service_.Release (2);
      EXPECT_EQ (client.Receive ()->seqid, 2);
      service_.Release (1);
      EXPECT_EQ (client.Receive ()->seqid, 1);
      EXPECT_TRUE (client.IsClosedByPeer ());
      WaitForConnections (0);
    }
}

TEST_F (HalfCloseTest, AnswersCallsThatRunOrAreQueued)
{
  const Wire wires[] = { { TPS_PROTOCOL_BINARY, true }, { TPS_PROTOCOL_BINARY, false } };
  std::vector<std::unique_ptr<RawClient>> clients;

  for (const Wire &wire : wires)
    {
      clients.push_back (std::make_unique<RawClient> (tcp_, wire));
      for (int i = 0; i < 5; i++)
        clients.back ()->Send ("Test:work", i, IntField (i));
      clients.back ()->StopSending ();
    }
  while (tps_server_get_n_calls (server_) < 10)
    std::this_thread::yield ();
  service_.LetGo ();
  for (const auto &client : clients)
    {
      for (int i = 0; i < 5; i++)
        EXPECT_EQ (IntResult (client->Receive ()), i);
      EXPECT_TRUE (client->IsClosedByPeer ());
    }
  WaitForConnections (0);
}

TEST_F (HalfCloseTest, ReadsQueuedCallsBeyondTheLimitOfInFlightCalls)
{
  constexpr int kCalls = 5 * kInFlight;
  RawClient client (tcp_);
  std::string calls;

  for (int i = 0; i < kCalls; i++)
    calls += MessageBytes ({}, "Test:hold", i, IntField (i));
  ASSERT_TRUE (client.SendBytes (calls));
  client.StopSending ();
  for (int i = 0; i < kCalls; i++)
    {
      service_.Release (i);
      EXPECT_EQ (client.Receive ()->seqid, i);
    }
  EXPECT_TRUE (client.IsClosedByPeer ());
  WaitForConnections (0);
}

TEST_F (HalfCloseTest, ClosesInMidMessage)
{
  RawClient client (tcp_);
  client.Send ("Test:hold", 1, IntField (1));
  client.SendBytes (MessageBytes ({}, "Test:take", 2, BinaryField (100000)).substr (0, 50000));
  client.StopSending ();
  EXPECT_TRUE (client.IsClosedByPeer ());
  service_.Release (1);
}

TEST_F (HalfCloseTest, ClientsThatLeftWithPendingCallsKeepNoPlace)
{
  for (guint i = 0; i < kConnections; i++)
    {
      RawClient probe (tcp_);
      EXPECT_EQ (IntResult (probe.Call ("Test:echo", IntField (7))), 7);
    }
  WaitForConnections (0);
  for (guint i = 0; i < kConnections; i++)
    NewBusyClient (tcp_).reset ();
  // No call has been answered and no time has passed. New clients are served as soon as the server
  // has noticed the closed connections.
  for (guint i = 0; i < 10; i++)
    {
      Message answer;
      while (answer == nullptr)
        {
          RawClient client (tcp_);
          answer = client.Call ("Test:echo", IntField (7));
        }
      EXPECT_EQ (IntResult (answer), 7);
    }
  EXPECT_EQ (service_.NHeld (), kConnections * kInFlight);
  ReleaseAll ();
  WaitForConnections (0);
}

// The number of half-closed connections is limited. Connections beyond the limit are closed at
// once.
TEST_F (HalfCloseTest, HalfClosedConnectionsAreLimited)
{
  TraceCapture capture;
  for (guint i = 0; i < 4 * kHalfClosed; i++)
    {
      NewBusyClient (tcp_).reset ();
      EXPECT_LE (tps_server_get_n_connections (server_), kHalfClosed + kConnections);
    }
  WaitForConnections (kHalfClosed);
  EXPECT_EQ (service_.NHeld (), 4 * kHalfClosed * kInFlight);
  EXPECT_THAT (capture.WaitFor ("half_closed_refused"), testing::HasSubstr ("max_half_closed=8"));
  ReleaseAll ();
  WaitForConnections (0);
}

TEST_F (HalfCloseTest, ClientsThatResetTheirConnectionGoAtOnce)
{
  TraceCapture capture;
  for (guint i = 0; i < 2 * kConnections; i++)
    {
      auto client = NewBusyClient (tcp_);
      struct linger reset = { 1, 0 };
      ASSERT_EQ (setsockopt (client->fd (), SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
      client.reset ();
      WaitForConnections (0);
    }
  ReleaseAll ();
  EXPECT_THAT (capture.WaitFor ("connection_lost"), testing::HasSubstr ("reason="));
}

TEST_F (HalfCloseTest, AnOrderlyEndIsLogged)
{
  TraceCapture capture;
  {
    RawClient client (tcp_);
    EXPECT_EQ (IntResult (client.Call ("Test:echo", IntField (1))), 1);
  }
  EXPECT_THAT (capture.WaitFor ("connection_ended"), testing::HasSubstr ("peer=127.0.0.1:"));
}

TEST_F (HalfCloseTest, ClientsOfAUnixSocketThatLeftGoAtOnce)
{
  for (guint i = 0; i < 2 * kConnections; i++)
    {
      NewBusyClient (unix_).reset ();
      WaitForConnections (0);
    }
  ReleaseAll ();
}

// If the first reply to a client that has left cannot be delivered, the client's remaining calls
// must be cancelled.
TEST_F (HalfCloseTest, WorkOfAClientThatLeftEndsWithItsFirstAnswer)
{
  guint n_calls = kInFlight;
  auto gone = std::make_unique<RawClient> (tcp_);
  gone->Send ("Test:hold", 100, IntField (100));
  gone->Send ("Test:hold", 101, IntField (101));
  for (guint i = 2; i < n_calls; i++)
    gone->Send ("Test:work", (int) i, IntField ((gint32) i));
  while (tps_server_get_n_calls (server_) < n_calls)
    std::this_thread::yield ();
  service_.WaitForWorking (1);
  gone.reset ();
  service_.Release (100); // makes the peer's kernel answer with a reset
  WaitForConnections (0);
  service_.LetGo ();
  service_.Release (101);
  while (tps_server_get_n_calls (server_) > 0)
    std::this_thread::yield ();
  EXPECT_EQ (service_.Begun ().size (), 1u);
}

TEST_F (ImpatientTest, ClosesAHalfClosedClientWhoseCallsDoNotEnd)
{
  for (const std::string &address : { tcp_, unix_ })
    {
      RawClient client (address), other (address);
      client.Send ("Test:hold", 1, IntField (1));
      client.StopSending ();
      EXPECT_TRUE (client.IsClosedByPeer ());
      EXPECT_EQ (IntResult (other.Call ("Test:echo", IntField (3))), 3);
      service_.Release (1);
    }
}

TEST_F (ImpatientTest, ClosesABusyClientThatLeft)
{
  NewBusyClient (tcp_).reset ();
  WaitForConnections (0);
  ReleaseAll ();
}

TEST_F (ImpatientTest, OpenClientsMayWaitForEver)
{
  RawClient client (tcp_), left (tcp_);
  client.Send ("Test:hold", 1, IntField (1));
  left.Send ("Test:hold", 2, IntField (2));
  left.StopSending ();
  EXPECT_TRUE (left.IsClosedByPeer ()); // the timeout has expired for both connections
  service_.Release (2);
  service_.Release (1);
  EXPECT_EQ (IntResult (client.Receive ()), 1);
}

} // namespace
} // namespace thriftps_test
