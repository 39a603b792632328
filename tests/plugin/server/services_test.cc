// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the services behind the server as every client sees them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "plugin/server/server.h"
#include "plugin/service/node_service.h"
#include "plugin/service/parameter_server_service.h"
#include "plugin/service/rendezvous_service.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "tests/plugin/server/gradient_call.h"

namespace thriftps_test {
namespace {

constexpr int kTrainers = 4;

WriteFields
KeyField (const std::string &key, const std::string *value = nullptr,
          const gint32 *timeout_ms = nullptr)
{
  return [=] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_string (out, key.c_str ());
    if (value != nullptr)
      {
        tps_writer_field (out, 2, TPS_WIRE_BINARY);
        tps_writer_binary (out, value->data (), value->size ());
      }
    if (timeout_ms != nullptr)
      {
        tps_writer_field (out, 2, TPS_WIRE_I32);
        tps_writer_i32 (out, *timeout_ms);
      }
  };
}

class ServicesTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    TpsServerOptions options = {};
    options.n_workers = 2;
    options.n_io_threads = 2;
    server_ = tps_server_new (&options);
    TpsParameterServerOptions averaging = {};
    averaging.n_trainers = kTrainers;
    averaging.round_timeout_ns = (gint64) 60 * 1000000000;
    averaging.workers = tps_server_get_workers (server_);
    averaging.metrics = node_.metrics = tps_metrics_new (nullptr, nullptr);
    servers_.averaging = tps_parameter_server_new (&averaging, nullptr);
    TpsModelServerOptions updating = {};
    updating.n_trainers = kTrainers;
    updating.workers = tps_server_get_workers (server_);
    servers_.updating = tps_model_server_new (&updating, nullptr);
    rendezvous_ = tps_rendezvous_new (tps_server_get_workers (server_), nullptr);
    node_.name = "node7";
    node_.max_frame_bytes = 123;
    TpsService services[] = { tps_parameter_server_service (&servers_),
                              tps_rendezvous_service (rendezvous_), tps_node_service (&node_) };
    for (auto &service : services)
      tps_server_add_service (server_, &service);
    ASSERT_TRUE (tps_server_listen (server_, "127.0.0.1:0", nullptr));
    ASSERT_TRUE (tps_server_start (server_, nullptr));
    address_ = tps_server_get_addresses (server_)[0];
  }
  void
  TearDown () override
  {
    tps_server_stop (server_);
    tps_rendezvous_free (rendezvous_);
    tps_parameter_server_free (servers_.averaging);
    tps_metrics_unref (node_.metrics);
    tps_model_server_free (servers_.updating);
    g_object_unref (server_);
  }

  TpsServer *server_ = nullptr;
  TpsParameterServers servers_ = {};
  TpsRendezvous *rendezvous_ = nullptr;
  TpsNode node_ = {};
  std::string address_;
};

// While a server recovers its data, it refuses calls that need the data and serves all others.
TEST_F (ServicesTest, AServiceMayBeClosedForAWhile)
{
  static std::atomic<bool> is_open { false };
  TpsServer *server = tps_server_new (nullptr);
  TpsService gated = tps_rendezvous_service (rendezvous_), node = tps_node_service (&node_);
  const std::string value = "v";

  TpsServiceHooks hooks = {};
  hooks.may_serve = [] (gpointer, GError **error) -> gboolean {
    if (!is_open)
      {
        g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "not yet");
        tps_error_set_retry_after_ms (*error, 70);
      }
    return is_open;
  };
  gated.hooks = &hooks;
  tps_server_add_service (server, &gated);
  tps_server_add_service (server, &node);
  ASSERT_TRUE (tps_server_listen (server, "127.0.0.1:0", nullptr));
  ASSERT_TRUE (tps_server_start (server, nullptr));
  RawClient client (tps_server_get_addresses (server)[0]);

  EXPECT_EQ (ErrorCode (client.Call ("Node:describe")), 0);
  Message refused = client.Call ("Rendezvous:put", KeyField ("k", &value));
  EXPECT_EQ (ErrorCode (refused), 8);
  EXPECT_EQ (ErrorText (refused), "not yet");
  is_open = true;
  EXPECT_EQ (ErrorCode (client.Call ("Rendezvous:put", KeyField ("k", &value))), 0);
  tps_server_stop (server);
  g_object_unref (server);
}

TEST (RendezvousTest, NoWaitForAKeyIsLongerThanFiveMinutes)
{
  constexpr gint64 ms = 1000000;

  EXPECT_EQ (tps_rendezvous_deadline_ns (7, 299999), 7 + 299999 * ms);
  for (gint32 timeout_ms : { 300000, 300001, G_MAXINT32 })
    EXPECT_EQ (tps_rendezvous_deadline_ns (7, timeout_ms), 7 + 300000 * ms);
}

// The deadlines are in descending order, so each one needs a new timer.
TEST_F (ServicesTest, EveryWaitEndsByItsOwnDeadline)
{
  RawClient client (address_);
  gint32 timeouts_ms[] = { 60000, 60, 50, 40, 30, 20, 10 };
  for (int i = 0; i < 7; i++)
    client.Send ("Rendezvous:get", i, KeyField ("none", nullptr, &timeouts_ms[i]));
  for (int i = 6; i >= 1; i--)
    {
      Message answer = client.Receive ();
      EXPECT_EQ (ErrorCode (answer), 6);
      EXPECT_GE (answer->seqid, 1);
    }
  while (tps_server_get_n_calls (server_) != 1)
    std::this_thread::yield ();
}

} // namespace
} // namespace thriftps_test
