// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests which services a TpsPlugin creates, and which clients may use them.

#include "plugin/plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "plugin/chunks/chunk_layout.h"
#include "tests/plugin/server/raw_client.h"
#include "tests/runtime/base/trace_capture.h"

namespace thriftps_test {
namespace {

using Plugin = std::unique_ptr<TpsPlugin, void (*) (TpsPlugin *)>;

Plugin
MakePlugin (const char *const *services, std::string *message)
{
  TpsPluginOptions options = {};
  g_autoptr (GError) error = nullptr;
  options.n_workers = 1;
  options.services = services;
  options.n_trainers = 1;
  Plugin plugin (tps_plugin_new (&options, &error), tps_plugin_free);
  *message = error != nullptr ? error->message : "";
  return plugin;
}

std::set<std::string>
NamesOf (const Plugin &plugin)
{
  std::set<std::string> names;
  guint n_services;
  const TpsService *services = tps_plugin_get_services (plugin.get (), &n_services);
  for (guint i = 0; i < n_services; i++)
    names.insert (services[i].name);
  return names;
}

TEST (Plugin, FreesTheObjectOfAnOwnService)
{
  std::string message;
  bool is_freed = false;
  Plugin plugin = MakePlugin (nullptr, &message);
  TpsService service = {};
  service.name = "Own";
  service.object = &is_freed;
  service.destroy = [] (gpointer object) { *static_cast<bool *> (object) = true; };
  tps_plugin_add_service (plugin.get (), &service);
  EXPECT_EQ (NamesOf (plugin).count ("Own"), 1u);
  EXPECT_FALSE (is_freed);
  plugin.reset ();
  EXPECT_TRUE (is_freed);
}

bool
InitModel (const Plugin &plugin, gint64 n_elems, GError **error)
{
  TpsOptimizerSpec optimizer = {};
  TpsNamedTensor parameter = {};
  TpsShape shape;
  tps_shape_init (&shape, TPS_DTYPE_FLOAT32, 1, &n_elems, "weight", nullptr);
  optimizer.kind = TPS_OPTIMIZER_SGD;
  optimizer.learning_rate = 0.1;
  parameter.name = g_strdup ("weight");
  tps_tensor_init_zeroed (&parameter.tensor, &shape);
  return tps_model_server_init_model ((plugin.get ())->parameter_servers.updating, &parameter, 1,
                                      &optimizer, error);
}

// The default pool belongs to the program that embeds the server, and has no limit. So models must
// be charged to the server's budgets.
TEST (Plugin, ModelsOfAnEmbeddedServerAreCharged)
{
  TpsPluginOptions options = {};
  g_autoptr (GError) error = nullptr;
  options.n_workers = 1;
  options.n_trainers = 1;
  options.max_memory_bytes = (gsize) 64 << 20;
  Plugin plugin (tps_plugin_new (&options, nullptr), tps_plugin_free);
  TpsBudget *budget = (plugin.get ())->budgets->passes;
  ASSERT_TRUE (InitModel (plugin, 1 << 20, &error)) << error->message;
  EXPECT_GE (tps_budget_get_held (budget), (gsize) 4 << 20);
  TpsModelServer *server = (plugin.get ())->parameter_servers.updating;
  ASSERT_TRUE (tps_model_server_reset_state (server, nullptr));
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
  EXPECT_FALSE (InitModel (plugin, 17 << 20, &error));
  ASSERT_NE (error, nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
}

// Runs transfer "t" after a chunk that holds the whole call. Calls in chunks must also reach the
// default service.
TEST (Plugin, TheDefaultServiceAlsoServesChunkedCalls)
{
  TraceCapture capture;
  std::string message;
  Plugin plugin = MakePlugin (nullptr, &message);
  TpsServerOptions options = {};
  options.n_io_threads = 1;
  options.default_service = "Rendezvous";
  g_autoptr (TpsServer) server = tps_plugin_new_server (plugin.get (), &options);
  ASSERT_TRUE (tps_server_listen (server, "127.0.0.1:0", nullptr));
  ASSERT_TRUE (tps_server_start (server, nullptr));
  RawClient client (tps_server_get_addresses (server)[0]);
  std::string call = MessageBytes ({ TPS_PROTOCOL_BINARY, false }, "remove", 0,
                                   [] (TpsWriter *out) {
                                     tps_writer_field (out, 1, TPS_WIRE_BINARY);
                                     tps_writer_string (out, "nothing/");
                                   });
  auto name = [] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_string (out, "0123456789abcdef");
  };
  Message answer = client.Call ("Chunks:begin_transfer", [&] (TpsWriter *out) {
    name (out);
    tps_writer_field (out, 2, TPS_WIRE_I64);
    tps_writer_i64 (out, (gint64) call.size ());
    tps_writer_field (out, 3, TPS_WIRE_I32);
    tps_writer_i32 (out, 1);
  });
  ASSERT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
  answer = client.Call ("Chunks:put_chunk", [&] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tps_writer_struct_begin (out);
    name (out);
    tps_writer_field (out, 2, TPS_WIRE_I32);
    tps_writer_i32 (out, 0);
    tps_writer_field (out, 3, TPS_WIRE_I32);
    tps_writer_i32 (out, 1);
    tps_writer_field (out, 4, TPS_WIRE_I32);
    tps_writer_i32 (out, (gint32) tps_crc32c (0, call.data (), call.size ()));
    tps_writer_field (out, 5, TPS_WIRE_BINARY);
    tps_writer_binary (out, call.data (), call.size ());
    tps_writer_struct_end (out);
  });
  ASSERT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
  answer = client.Call ("Chunks:run_transfer", name);
  ASSERT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
  tps_server_stop (server);
  EXPECT_THAT (capture.Lines ("request_failed"), testing::ElementsAre ());
}

} // namespace
} // namespace thriftps_test
