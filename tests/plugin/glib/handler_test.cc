/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests generated handlers on a plugin: called directly, overridden, and served. Their behaviour
 * over the wire is tested together with that of all hosts in tests/integration/host. */

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "plugin/glib/handler.h"
#include "plugin/glib/wire_values.h"
#include "runtime/base/error.h"
#include "tests/integration/host/peer.h"
#include "tests/plugin/glib/guarded_store.h"

namespace {

class Handler : public testing::Test
{
protected:
  void
  SetUp () override
  {
    TpsPluginOptions options = {};
    g_autoptr (GError) error = nullptr;
    options.n_workers = 2;
    options.n_trainers = 1;
    plugin_ = tps_plugin_new (&options, &error);
    ASSERT_NE (plugin_, nullptr) << error->message;
    store_ = New<TpsWireRendezvousIf> (TPS_TYPE_RENDEZVOUS_HANDLER);
    tables_ = New<TpsWireEmbeddingTableIf> (TPS_TYPE_EMBEDDING_TABLE_HANDLER);
  }

  void
  TearDown () override
  {
    g_clear_object (&failure_);
    g_clear_error (&error_);
    g_object_unref (store_);
    g_object_unref (tables_);
    tps_plugin_free (plugin_);
  }

  template <typename Interface>
  Interface *
  New (GType type)
  {
    g_autoptr (GError) error = nullptr;
    gpointer handler = tps_handler_new (type, plugin_, TPS_HOST_THREADED, &error);
    EXPECT_NE (handler, nullptr) << error->message;
    return static_cast<Interface *> (handler);
  }

  /* Checks that the last call failed with `code`, and returns its message. */
  std::string
  Failure (int code)
  {
    EXPECT_EQ (error_, nullptr); /* a processor cannot handle two errors */
    EXPECT_NE (failure_, nullptr);
    std::string message = failure_ != nullptr ? failure_->message : "";
    if (failure_ != nullptr)
      {
        EXPECT_EQ (static_cast<int> (failure_->code), code) << message;
      }
    g_clear_object (&failure_);
    g_clear_error (&error_);
    return message;
  }

  void
  CreateTable (const char *name)
  {
    auto *spec = static_cast<TpsWireTableSpec *> (
        g_object_new (TPS_WIRE_TYPE_TABLE_SPEC, "name", name, "rows", static_cast<gint64> (8),
                      "dim", 2, "dtype", TPS_WIRE_D_TYPE_FLOAT32, nullptr));
    EXPECT_TRUE (tps_wire_embedding_table_if_create_table (tables_, spec, &failure_, &error_));
    g_object_unref (spec);
  }

  TpsPlugin *plugin_ = nullptr;
  TpsWireRendezvousIf *store_ = nullptr;
  TpsWireEmbeddingTableIf *tables_ = nullptr;
  TpsWireServiceError *failure_ = nullptr;
  GError *error_ = nullptr;
};

TEST_F (Handler, ListsAndStructsComeBack)
{
  GPtrArray *specs = nullptr;
  TpsWireTensor *rows = nullptr;
  const gint64 ids[] = { 3, 5, 3 };
  g_auto (TpsTensor) indices = {};
  tps_tensor_init_copy (&indices, { { TPS_DTYPE_INT64, 1, { 3 } }, ids });
  auto *wire_ids = static_cast<TpsWireTensor *> (
      tps_struct_to_wire (&tps_tensor_struct, &indices, TPS_WIRE_TYPE_TENSOR, &error_));
  TpsTensorView seen;

  CreateTable ("a");
  CreateTable ("b");
  for (int i = 0; i < 2; i++) // appends to the same list
    ASSERT_TRUE (tps_wire_embedding_table_if_list_tables (tables_, &specs, &failure_, &error_));
  ASSERT_EQ (specs->len, 2u);
  EXPECT_STREQ (static_cast<TpsWireTableSpec *> (g_ptr_array_index (specs, 1))->name, "b");
  for (int i = 0; i < 2; i++)
    ASSERT_TRUE (tps_wire_embedding_table_if_lookup_rows (tables_, &rows, "a", wire_ids, &failure_,
                                                          &error_));
  ASSERT_TRUE (tps_tensor_view_from_wire (rows, "rows", &seen, &error_)) << error_->message;
  ASSERT_EQ (tps_shape_n_elems (&seen.shape), 6);
  EXPECT_EQ (memcmp (seen.data, static_cast<const float *> (seen.data) + 4, 2 * sizeof (float)), 0);
  g_ptr_array_unref (specs);
  g_object_unref (rows);
  g_object_unref (wire_ids);
}

TEST_F (Handler, ServiceThatThePluginLacksIsRefused)
{
  EXPECT_EQ (tps_handler_new (TPS_TYPE_TRAINER_HANDLER, plugin_, TPS_HOST_THREADED, &error_),
             nullptr);
  ASSERT_NE (error_, nullptr);
  EXPECT_NE (std::string (error_->message).find ("Trainer"), std::string::npos);
}

TEST_F (Handler, ObjectWithoutAPluginFailsItsCalls)
{
  auto *handler = static_cast<TpsWireRendezvousIf *> (
      g_object_new (TPS_TYPE_RENDEZVOUS_HANDLER, nullptr));

  EXPECT_FALSE (tps_wire_rendezvous_if_put (handler, "key", nullptr, &failure_, &error_));
  EXPECT_NE (Failure (TPS_WIRE_ERROR_CODE_INTERNAL).find ("has no plugin"), std::string::npos);
  g_object_unref (handler);
}

/* Serves the subclass behind its generated processor in a TpsServer. */
TEST_F (Handler, SubclassOverridesAndWrapsMethods)
{
  auto *guarded = New<TpsWireRendezvousIf> (guarded_store_get_type ());
  ThriftProcessor *processor = tps_handler_new_processor (guarded);
  TpsServer *server = tps_server_new (nullptr);
  guint before = guarded_store_count_puts ();

  EXPECT_TRUE (G_TYPE_CHECK_INSTANCE_TYPE (processor, TPS_WIRE_TYPE_RENDEZVOUS_PROCESSOR));
  tps_server_add_processor (server, "Rendezvous", processor);
  g_object_unref (processor);
  g_object_unref (guarded);
  ASSERT_TRUE (tps_server_listen (server, "127.0.0.1:0", &error_)) << error_->message;
  ASSERT_TRUE (tps_server_start (server, &error_)) << error_->message;
  {
    wire::Peer peer (strrchr (tps_server_get_addresses (server)[0], ':') + 1,
                     wire::Protocol::Binary, true);
    wire::Answer answer = peer.call (
        "Rendezvous:put", wire::structure ({ { 1, wire::text ("k") }, { 2, wire::text ("v") } }));
    ASSERT_TRUE (answer.message) << answer.why;
    EXPECT_EQ (answer.message->body.fields.size (), 0u);
    answer = peer.call ("Rendezvous:remove", wire::structure ({ { 1, wire::text ("k") } }));
    ASSERT_TRUE (answer.message) << answer.why;
    ASSERT_NE (answer.message->body.find (1), nullptr);
    EXPECT_EQ (answer.message->body.find (1)->find (2)->text, "prefix k: keys stay here");
    answer = peer.call ("Rendezvous:get",
                        wire::structure ({ { 1, wire::text ("k") }, { 2, wire::i32 (0) } }));
    ASSERT_TRUE (answer.message) << answer.why;
    ASSERT_NE (answer.message->body.find (0), nullptr);
    EXPECT_EQ (answer.message->body.find (0)->text, "v");
  }
  EXPECT_EQ (guarded_store_count_puts (), before + 1);
  g_object_unref (server);
}

} // namespace
