/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests lists whose lengths a peer chooses, in a process without memory. The message must be
 * refused, and nothing may leak. The test is linked with --wrap (see BUILD), so its own function
 * replaces g_try_realloc_n(). */

#include <string.h>

#include "plugin/wire/wire_durability.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_memory.h"
#include "plugin/wire/wire_trainer.h"
#include "tests/plugin/wire/wire_message.h"

extern "C" gpointer __real_g_try_realloc_n (gpointer block, gsize n_elems, gsize elem_size);
extern "C" gpointer __wrap_g_try_realloc_n (gpointer block, gsize n_elems, gsize elem_size);

static gsize max_bytes = G_MAXSIZE; /* limit of the size of a block */
static gsize limited_elem_size = 0; /* limits only arrays with elements of this size; 0 = all */

extern "C" gpointer
__wrap_g_try_realloc_n (gpointer block, gsize n_elems, gsize elem_size)
{
  if (n_elems * elem_size > max_bytes && (limited_elem_size == 0 || elem_size == limited_elem_size))
    return NULL;
  return __real_g_try_realloc_n (block, n_elems, elem_size);
}

namespace thriftps {
namespace {

constexpr guint N_ELEMS = 3000;

/* Writes a list. `elem` writes one element. For a struct it writes only the fields. */
void
put_list (TpsWriter *out, gint16 id, TpsWireType type, const Write &elem)
{
  tps_writer_field (out, id, TPS_WIRE_LIST);
  tps_writer_list_begin (out, type, N_ELEMS);
  for (guint i = 0; i < N_ELEMS; i++)
    if (type == TPS_WIRE_STRUCT)
      {
        tps_writer_struct_begin (out);
        elem (out);
        tps_writer_struct_end (out);
      }
    else
      elem (out);
}

/* Reads the message first without and then with memory. */
void
expect_refusal (const Write &write, const std::function<bool (TpsReader *, GError **)> &read)
{
  g_autoptr (GError) error = nullptr;
  WireMessage message (write);

  max_bytes = 4096;
  EXPECT_FALSE (read (message.arguments (), &error));
  max_bytes = G_MAXSIZE;
  ASSERT_NE (error, nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED)) << error->message;
  EXPECT_NE (strstr (error->message, "no memory"), nullptr) << error->message;
  g_clear_error (&error);
  EXPECT_TRUE (read (message.arguments (), &error)) << error->message;
}

TEST (ListMemory, ofSegmentIds)
{
  expect_refusal (
      [] (TpsWriter *out) {
        put_list (out, 1, TPS_WIRE_I64, [] (TpsWriter *elem) { tps_writer_i64 (elem, 1); });
      },
      [] (TpsReader *in, GError **error) {
        g_auto (TpsSegmentIds) ids = {};
        bool ok = tps_rpc_read_arguments (&tps_close_segments_rpc, in, &ids, error);

        return ok && ids.n_ids == N_ELEMS;
      });
}

/* An id takes one byte in the compact protocol, and more in the list. */
TEST (ListMemory, ofNumbersIsCharged)
{
  g_auto (TpsSegmentIds) ids = {};
  WireMessage message (
      [] (TpsWriter *out) {
        put_list (out, 1, TPS_WIRE_I64, [] (TpsWriter *elem) { tps_writer_i64 (elem, 1); });
      },
      TPS_PROTOCOL_COMPACT);
  TpsReader *in = message.arguments ();
  gsize n_before = in->message->n_bytes_held;

  ASSERT_TRUE (tps_rpc_read_arguments (&tps_close_segments_rpc, in, &ids, nullptr));
  EXPECT_GE (in->message->n_bytes_held - n_before, N_ELEMS * sizeof (gint64));
}

TEST (ListMemory, ofPathsOfSnapshots)
{
  expect_refusal (
      [] (TpsWriter *out) {
        put_list (out, 1, TPS_WIRE_BINARY, [] (TpsWriter *elem) { tps_writer_string (elem, "p"); });
      },
      [] (TpsReader *in, GError **error) {
        g_auto (TpsRestoreArguments) arguments = {};
        bool ok = tps_rpc_read_arguments (&tps_restore_rpc, in, &arguments, error);

        return ok && g_strv_length (arguments.snapshots) == N_ELEMS;
      });
}

/* The list of queries fits into the memory, but the list of their buffers does not. */
TEST (ListMemory, ofBuffersOfQueries)
{
  std::vector<TpsBagQuery> queries (N_ELEMS);
  gint64 ids[1] = { 1 }, offsets[2] = { 0, 1 };

  for (TpsBagQuery &query : queries)
    {
      query.table = "t";
      query.indices = { { TPS_DTYPE_INT64, 1, { 1 } }, ids };
      query.offsets = { { TPS_DTYPE_INT64, 1, { 2 } }, offsets };
      query.pooling = TPS_POOLING_SUM;
    }
  limited_elem_size = sizeof (TpsBuffer *);
  expect_refusal (
      [&] (TpsWriter *out) {
        TpsLookupBagsArguments arguments = { N_ELEMS, queries.data (), NULL };

        tps_rpc_write_arguments (&tps_lookup_bags_rpc, out, &arguments);
      },
      [] (TpsReader *in, GError **error) {
        g_auto (TpsLookupBagsArguments) arguments = {};
        bool ok = tps_rpc_read_arguments (&tps_lookup_bags_rpc, in, &arguments, error);

        return ok && arguments.n_queries == N_ELEMS && arguments.owned->n_buffers == 2 * N_ELEMS;
      });
  limited_elem_size = 0;
}

TEST (ListMemory, ofTablesToRestore)
{
  expect_refusal (
      [] (TpsWriter *out) {
        put_list (out, 1, TPS_WIRE_BINARY, [] (TpsWriter *elem) { tps_writer_string (elem, "p"); });
        put_list (out, 2, TPS_WIRE_STRUCT, [] (TpsWriter *elem) {
          put_string (elem, 1, "emb");
          put_i64 (elem, 2, 10);
          put_i32 (elem, 3, 4);
          put_i32 (elem, 4, TPS_DTYPE_FLOAT32);
        });
      },
      [] (TpsReader *in, GError **error) {
        g_auto (TpsRestoreArguments) arguments = {};
        bool ok = tps_rpc_read_arguments (&tps_restore_rpc, in, &arguments, error);

        return ok && arguments.tables.n_specs == N_ELEMS;
      });
}

/* Writes the required fields of a plan. `more` writes the list under test. */
void
expect_refusal_of_plan (const Write &more)
{
  expect_refusal (
      [&] (TpsWriter *out) {
        put_struct (out, 1, [&] (TpsWriter *spec) {
          put_string (spec, 1, "pass");
          put_i32 (spec, 2, 0);
          put_i32 (spec, 3, 1);
          put_string (spec, 4, R"({"model_class": "DummyModel", "configurations": {}})");
          put_i32 (spec, 6, 1);
          more (spec);
        });
      },
      [] (TpsReader *in, GError **error) {
        g_autoptr (TpsTrainPlan) plan = tps_train_plan_new ();

        return static_cast<bool> (tps_rpc_read_arguments (&tps_train_rpc, in, plan, error));
      });
}

TEST (ListMemory, ofBatches)
{
  expect_refusal_of_plan ([] (TpsWriter *out) {
    put_list (out, 5, TPS_WIRE_STRUCT, [] (TpsWriter *elem) {
      put_struct (elem, 1, tensor_fields (TPS_DTYPE_INT64, { 0, 1 }, 0));
      put_struct (elem, 2, tensor_fields (TPS_DTYPE_INT64, { 0 }, 0));
    });
  });
}

TEST (ListMemory, ofServers)
{
  expect_refusal_of_plan ([] (TpsWriter *out) {
    tps_writer_field (out, 5, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_STRUCT, 0);
    put_list (out, 18, TPS_WIRE_STRUCT, [] (TpsWriter *elem) {
      put_i32 (elem, 1, 0);
      put_string (elem, 2, "a:1");
    });
  });
}

TEST (ListMemory, ofSpecificationsToSend)
{
  g_auto (TpsTableSpecs) specs = {};
  g_auto (TpsTableSpec) spec = {};
  g_autoptr (GError) error = nullptr;

  tps_table_spec_init (&spec, "emb", 10, 4);
  max_bytes = 4096;
  while (tps_table_specs_add (&specs, &spec, &error))
    ASSERT_LT (specs.n_specs, N_ELEMS);
  max_bytes = G_MAXSIZE;
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_GT (specs.n_specs, 0u);
  EXPECT_STREQ (specs.specs[specs.n_specs - 1].name, "emb");
}

} // namespace
} // namespace thriftps
