// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the logs and counters of a server. Failures and changes of state are logged, and successes
// are counted.

#include <gmock/gmock.h>

#include <memory>
#include <thread>

#include "runtime/base/metrics.h"
#include "tests/plugin/server/test_service.h"
#include "tests/runtime/base/readings.h"
#include "tests/runtime/base/trace_capture.h"

namespace thriftps_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class TraceTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    options.n_io_threads = 2;
    options.max_frame_bytes = 1 << 20;
    options.max_pending_bytes = 4 << 20;
    options.max_connections = 1;
    parts_.metrics = metrics_;
    options.n_workers = 1;
    return options;
  }
  ~TraceTest () override
  {
    tps_metrics_unref (metrics_);
  }

  gint64
  Count (const char *name, const char *value = nullptr)
  {
    return ReadNumber (tps_metrics_get_counters (metrics_), name, value);
  }

  TraceCapture capture_;
  TpsMetrics *metrics_ = tps_metrics_new (nullptr, nullptr);
};

// The server has not failed, and no client waits for the reply.
TEST_F (TraceTest, CancelledCallsAreCountedAndNoLines)
{
  {
    RawClient client (unix_);
    client.Send ("Test:work", 1, IntField (1));
    service_.WaitForWorking (1);
    for (int i = 2; i < 5; i++)
      client.Send ("Test:work", i, IntField (i));
    while (tps_server_get_n_calls (server_) < 4)
      std::this_thread::yield ();
  }
  while (tps_server_get_n_connections (server_) > 0)
    std::this_thread::yield ();
  service_.LetGo ();
  while (tps_server_get_n_calls (server_) > 0)
    std::this_thread::yield ();
  EXPECT_EQ (Count ("requests_cancelled_total"), 3);
  EXPECT_EQ (Count ("requests_failed_total", "UNAVAILABLE"), -1);
  EXPECT_THAT (capture_.Lines ("request_failed"), ElementsAre ());
}

TEST_F (TraceTest, ConnectionsAreRefusedClosedAndEnded)
{
  auto client = std::make_unique<RawClient> (unix_);
  client->Call ("Test:echo", IntField (1));
  RawClient refused (tcp_);
  EXPECT_EQ (refused.Receive (), nullptr);
  EXPECT_THAT (capture_.WaitFor ("connection_refused"),
               StartsWith ("warning connection_refused peer=127.0.0.1:"));
  EXPECT_EQ (Count ("connections"), 1);
  client->SendBytes (std::string ("\x7f\xff\xff\xff", 4));
  EXPECT_TRUE (client->IsClosedByPeer ());
  EXPECT_THAT (capture_.WaitFor ("connection_closed"),
               StartsWith ("warning connection_closed peer=\"unix peer\" reason="));
  tps_server_stop (server_);
  EXPECT_EQ (Count ("connections"), 0);
  EXPECT_EQ (Count ("connections_accepted_total"), 1);
  EXPECT_EQ (Count ("connections_refused_total"), 1);
}

} // namespace
} // namespace thriftps_test
