// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the embedding tables of the standalone server over its sockets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_node.h"
#include "runtime/tensor/gradient.h"
#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/raw_client.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

constexpr gint64 kRows = 1000;
constexpr gint32 kDim = 8;

WriteFields
Spec (const char *name, gint64 rows = kRows, gint32 dim = kDim, gint32 dtype = 1)
{
  return [=] (TpsWriter *out) {
    g_auto (TpsTableSpec) spec = {};
    tps_table_spec_init (&spec, name, rows, dim);
    spec.dtype = static_cast<TpsDType> (dtype);
    spec.initializer.kind = TPS_INITIALIZER_ZEROS;
    spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
    tps_rpc_write_arguments (&tps_create_table_rpc, out, &spec);
  };
}

WriteFields
Drop (const char *name)
{
  return [=] (TpsWriter *out) { tps_rpc_write_arguments (&tps_drop_table_rpc, out, &name); };
}

TpsTensorView
View (const std::vector<gint64> &values)
{
  return { { TPS_DTYPE_INT64, 1, { static_cast<gint64> (values.size ()) } }, values.data () };
}

struct Query
{
  std::string table = "emb";
  std::vector<gint64> indices = { 1, 2, 3 };
  std::vector<gint64> offsets = { 0, 1 };
  gint32 pooling = TPS_POOLING_SUM;
  std::vector<float> weights;
  std::vector<float> gradient = std::vector<float> (2 * kDim, 1);
  gint64 gradient_dim = kDim;

  TpsBagQuery
  Get () const
  {
    TpsBagQuery query = {};
    query.table = table.c_str ();
    query.indices = View (indices);
    query.offsets = View (offsets);
    query.pooling = static_cast<TpsPooling> (pooling);
    if (!weights.empty ())
      query.weights = { { TPS_DTYPE_FLOAT32, 1, { static_cast<gint64> (weights.size ()) } },
                        weights.data () };
    return query;
  }
};

WriteFields
LookupBags (const std::vector<Query> &queries)
{
  return [=] (TpsWriter *out) {
    std::vector<TpsBagQuery> views;
    for (const Query &query : queries)
      views.push_back (query.Get ());
    TpsLookupBagsArguments arguments = { static_cast<guint> (views.size ()), views.data (),
                                         nullptr };
    tps_rpc_write_arguments (&tps_lookup_bags_rpc, out, &arguments);
  };
}

WriteFields
ApplyBags (const std::vector<Query> &queries, const char *client = nullptr, gint64 sequence = 0)
{
  return [=] (TpsWriter *out) {
    std::vector<TpsBagGradient> views;
    for (const Query &query : queries)
      {
        gint64 n_bags = static_cast<gint64> (query.gradient.size ()) / query.gradient_dim;
        views.push_back ({ query.Get (),
                           { { TPS_DTYPE_FLOAT32, 2, { n_bags, query.gradient_dim } },
                             query.gradient.data () } });
      }
    TpsApplyBagGradientsArguments arguments = { static_cast<guint> (views.size ()),
                                                views.data (),
                                                { const_cast<gchar *> (client), sequence },
                                                nullptr };
    tps_rpc_write_arguments (&tps_apply_bag_gradients_rpc, out, &arguments);
  };
}

WriteFields
LookupRows (const char *table, const std::vector<gint64> &indices)
{
  return [=] (TpsWriter *out) {
    g_auto (TpsTensor) tensor = {};
    tps_tensor_init_copy (&tensor, View (indices));
    TpsLookupRowsArguments arguments = { const_cast<gchar *> (table), tensor };
    tps_rpc_write_arguments (&tps_lookup_rows_rpc, out, &arguments);
  };
}

// Writes a push of `value` in every column of each row in `indices`.
WriteFields
ApplyRows (const char *table, const std::vector<gint64> &indices, float value,
           const char *client = nullptr, gint64 sequence = 0, gint64 dim = kDim,
           TpsDType dtype = TPS_DTYPE_FLOAT32)
{
  return [=] (TpsWriter *out) {
    TpsApplyRowGradientsArguments arguments = {};
    gint64 n_rows = static_cast<gint64> (indices.size ());
    arguments.table = const_cast<gchar *> (table);
    arguments.gradient.kind = TPS_GRADIENT_SPARSE;
    arguments.gradient.rows = kRows;
    tps_tensor_init_copy (&arguments.gradient.indices, View (indices));
    tps_tensor_init_2d (&arguments.gradient.values, dtype, n_rows, dim);
    if (dtype == TPS_DTYPE_FLOAT32)
      for (gint64 i = 0; i < n_rows * dim; i++)
        static_cast<float *> (tps_tensor_data (&arguments.gradient.values))[i] = value;
    arguments.push = { const_cast<gchar *> (client), sequence };
    tps_rpc_write_arguments (&tps_apply_row_gradients_rpc, out, &arguments);
    tps_gradient_clear (&arguments.gradient);
  };
}

// Reads the success value of a reply with a function of plugin/wire.
template <typename Decode, typename Target>
void
Read (const Message &answer, Decode decode, Target *target)
{
  TpsReader in;
  TpsWireType type;
  gint16 id;
  ASSERT_NE (answer, nullptr);
  ASSERT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
  tps_reader_init (&in, answer.get ());
  ASSERT_TRUE (tps_reader_field (&in, &id, &type));
  ASSERT_TRUE (decode (&in, type, target, nullptr));
}

std::vector<float>
Rows (RawClient &client, const char *table, const std::vector<gint64> &indices)
{
  g_auto (TpsTensor) rows = {};
  Read (client.Call ("EmbeddingTable:lookup_rows", LookupRows (table, indices)),
        ReadResultOf<tps_lookup_rows_rpc>, &rows);
  if (tps_shape_n_elems (&rows.shape) == 0)
    return {};
  const float *data = static_cast<const float *> (tps_tensor_data (&rows));
  return { data, data + tps_shape_n_elems (&rows.shape) };
}

std::vector<gint64>
AllRows ()
{
  std::vector<gint64> all;
  for (gint64 row = 0; row < kRows; row++)
    all.push_back (row);
  return all;
}

class EmbeddingTables : public testing::Test
{
protected:
  explicit EmbeddingTables (std::vector<std::string> flags = { "--listen=127.0.0.1:0",
                                                               "--max-table-mib=16",
                                                               "--push-window=8",
                                                               "--push-clients=2" })
      : server (flags), address (server.ReadAddress ())
  {
  }

  ServerProcess server;
  std::string address;
};

TEST_F (EmbeddingTables, AreMadeLookedUpAndTrained)
{
  for (Wire wire : { Wire { TPS_PROTOCOL_BINARY, true }, Wire { TPS_PROTOCOL_COMPACT, true },
                     Wire { TPS_PROTOCOL_BINARY, false }, Wire { TPS_PROTOCOL_COMPACT, false } })
    {
      RawClient client (address, wire);
      ASSERT_EQ (ErrorCode (client.Call ("EmbeddingTable:create_table", Spec ("emb"))), 0);
      EXPECT_EQ (Rows (client, "emb", { 5, 5 }), std::vector<float> (2 * kDim, 0));
      EXPECT_EQ (ErrorCode (client.Call ("EmbeddingTable:apply_row_gradients",
                                         ApplyRows ("emb", { 5, 6, 5 }, -1))),
                 0);
      EXPECT_EQ (Rows (client, "emb", { 5 }), std::vector<float> (kDim, 2));
      EXPECT_EQ (
          ErrorCode (client.Call ("EmbeddingTable:apply_bag_gradients", ApplyBags ({ Query () }))),
          0);
      EXPECT_EQ (Rows (client, "emb", { 3 }), std::vector<float> (kDim, -1));
      g_auto (TpsTensorList) outputs = {};
      Read (client.Call ("EmbeddingTable:lookup_bags", LookupBags ({ Query (), Query () })),
            ReadResultOf<tps_lookup_bags_rpc>, &outputs);
      ASSERT_EQ (outputs.n_tensors, 2u);
      EXPECT_EQ (static_cast<float *> (tps_tensor_data (&outputs.tensors[1]))[kDim], -2);
      EXPECT_EQ (ErrorCode (client.Call ("EmbeddingTable:drop_table", Drop ("emb"))), 0);
    }
}

TEST_F (EmbeddingTables, AreBoundedAndTellTheirBytes)
{
  RawClient client (address);
  g_auto (TpsNodeInfo) before = {}, after = {};
  Read (client.Call ("Node:describe"), ReadResultOf<tps_describe_rpc>, &before);
  EXPECT_EQ (before.table_bytes, 0);
  EXPECT_EQ (before.max_table_bytes, 16 << 20);

  // The limit is above 16 MiB, but tables need memory in addition to their rows. So 8 MiB fit, and
  // 8 MiB more do not.
  EXPECT_EQ (ErrorCode (client.Call ("EmbeddingTable:create_table", Spec ("a", 1 << 18, 8))), 0);
  Message refused = client.Call ("EmbeddingTable:create_table", Spec ("b", (1 << 18) + 4096, 8));
  EXPECT_EQ (ErrorCode (refused), 7);
  EXPECT_THAT (ErrorText (refused), HasSubstr (std::to_string (16 << 20)));
  Read (client.Call ("Node:describe"), ReadResultOf<tps_describe_rpc>, &after);
  EXPECT_GE (after.table_bytes, 8 << 20);
  EXPECT_LE (after.table_bytes, (8 << 20) * 11 / 10);

  g_auto (TpsTableSpecs) specs = {};
  Read (client.Call ("EmbeddingTable:list_tables"), ReadResultOf<tps_list_tables_rpc>, &specs);
  ASSERT_EQ (specs.n_specs, 1u);
  EXPECT_STREQ (specs.specs[0].name, "a");
  EXPECT_EQ (specs.specs[0].bytes, after.table_bytes);
}

TEST_F (EmbeddingTables, RememberPushesUpToTheLimitsOfTheFlags)
{
  RawClient client (address);
  auto push = [&] (const char *name, gint64 sequence) {
    return ErrorCode (client.Call ("EmbeddingTable:apply_row_gradients",
                                   ApplyRows ("emb", { 1 }, -1, name, sequence)));
  };
  ASSERT_EQ (ErrorCode (client.Call ("EmbeddingTable:create_table", Spec ("emb"))), 0);
  EXPECT_EQ (push ("a", 100), 0);
  EXPECT_EQ (push ("a", 93), 0);
  EXPECT_EQ (push ("a", 92), 4); // older than the window of 8
  EXPECT_EQ (push ("a", 100), 0);
  EXPECT_EQ (Rows (client, "emb", { 1 }), std::vector<float> (kDim, 2));
  EXPECT_EQ (push ("b", 1), 0);
  EXPECT_EQ (push ("c", 1), 0);   // the window of client a shrinks to its floor
  EXPECT_EQ (push ("a", 100), 4); // no push is applied twice
  EXPECT_EQ (push ("a", 101), 0);
  EXPECT_EQ (Rows (client, "emb", { 1 }), std::vector<float> (kDim, 5));
}

// ---- bad input ----------------------------------------------------------------------------------

struct BadCall
{
  const char *method;
  WriteFields arguments;
  int code;
  const char *complaint;
};

Query
Changed (const std::function<void (Query &)> &change)
{
  Query query;
  change (query);
  return query;
}

std::vector<BadCall>
BadQueries ()
{
  std::vector<BadCall> calls;
  auto add = [&] (int code, const char *complaint, const std::function<void (Query &)> &change) {
    Query query = Changed (change);
    calls.push_back ({ "lookup_bags", LookupBags ({ Query (), query }), code, complaint });
    calls.push_back ({ "apply_bag_gradients", ApplyBags ({ Query (), query }), code, complaint });
    calls.push_back (
        { "apply_bag_gradients", ApplyBags ({ Query (), query }, "c", 1), code, complaint });
  };
  add (2, "none", [] (Query &query) { query.table = "none"; });
  add (1, "indices[2]", [] (Query &query) { query.indices[2] = kRows; });
  add (1, "indices[0]", [] (Query &query) { query.indices[0] = -1; });
  add (1, "indices[0]", [] (Query &query) { query.indices[0] = G_MAXINT64; });
  add (1, "offsets[0]", [] (Query &query) { query.offsets[0] = 1; });
  add (1, "offsets[1]", [] (Query &query) { query.offsets[1] = 4; });
  add (1, "offsets[1]", [] (Query &query) { query.offsets[1] = -1; });
  add (1, "pooling", [] (Query &query) { query.pooling = 9; });
  add (1, "weights", [] (Query &query) { query.weights = { 1, 1 }; });
  add (1, "weights", [] (Query &query) {
    query.weights = { 1, 1, 1 };
    query.pooling = TPS_POOLING_MEAN;
  });
  return calls;
}

std::vector<BadCall>
BadRows ()
{
  return {
    { "lookup_rows", LookupRows ("none", { 1 }), 2, "none" },
    { "lookup_rows", LookupRows ("emb", { 1, kRows }), 1, "indices[1]" },
    { "lookup_rows", LookupRows ("emb", { 1, 2, -1 }), 1, "indices[2]" },
    { "lookup_rows", LookupRows ("a b", { 1 }), 1, "table" },
    { "lookup_rows", nullptr, 1, "table is missing" },
    { "apply_row_gradients", ApplyRows ("none", { 1 }, 1), 2, "none" },
    { "apply_row_gradients", ApplyRows ("emb", { 1, kRows }, 1), 1, "indices[1]" },
    { "apply_row_gradients", ApplyRows ("emb", { 1, kRows }, 1, "c", 2), 1, "indices[1]" },
    { "apply_row_gradients", ApplyRows ("emb", { 1 }, 1, nullptr, 0, kDim + 1), 1, "8" },
    { "apply_row_gradients", ApplyRows ("emb", { 1 }, 1, nullptr, 0, kDim, TPS_DTYPE_INT32), 1,
      "INT32" },
    { "apply_row_gradients", ApplyRows ("emb", { 1 }, 1, "a b", 1), 1, "push.client" },
    { "apply_row_gradients", nullptr, 1, "table is missing" },
    { "apply_bag_gradients", nullptr, 1, "gradients is missing" },
    { "apply_bag_gradients",
      ApplyBags ({ Query (), Changed ([] (Query &query) { query.gradient.resize (kDim); }) }), 1,
      "gradients[1]" },
    { "apply_bag_gradients", ApplyBags ({ Query (), Changed ([] (Query &query) {
                                            query.gradient_dim = 4;
                                            query.gradient.resize (8);
                                          }) }),
      1, "gradients[1]" },
  };
}

std::vector<BadCall>
BadSpecs ()
{
  return {
    { "create_table", Spec ("new", 0), 1, "spec.rows" },
    { "create_table", Spec ("new", -5), 1, "spec.rows" },
    { "create_table", Spec ("new", 1, 0), 1, "spec.dim" },
    { "create_table", Spec ("new", G_MAXINT64, G_MAXINT32), 1, "spec.rows" },
    { "create_table", Spec ("new", 1 << 30, 1 << 10), 7, "16777216" },
    { "create_table", Spec ("new", 1, 1, TPS_DTYPE_INT64), 1, "INT64" },
    { "create_table", Spec ("new", 1, 1, 99), 1, "spec.dtype" },
    { "create_table", Spec ("", 1, 1), 1, "spec.name" },
    { "create_table", Spec ("emb", kRows + 1), 3, "rows" },
    { "create_table", Spec ("emb", kRows, kDim + 1), 3, "dim" },
    { "create_table", nullptr, 1, "spec is missing" },
    { "drop_table", Drop ("none"), 2, "none" },
    { "drop_table", nullptr, 1, "table is missing" },
  };
}

TEST_F (EmbeddingTables, RefuseBadCallsWithTheReasonAndChangeNothing)
{
  RawClient client (address);
  std::vector<float> before;
  ASSERT_EQ (ErrorCode (client.Call ("EmbeddingTable:create_table", Spec ("emb"))), 0);
  ASSERT_EQ (ErrorCode (client.Call ("EmbeddingTable:apply_row_gradients",
                                     ApplyRows ("emb", AllRows (), 3))),
             0);
  before = Rows (client, "emb", AllRows ());
  for (const std::vector<BadCall> &calls : { BadQueries (), BadRows (), BadSpecs () })
    for (const BadCall &bad : calls)
      {
        Message answer = client.Call (std::string ("EmbeddingTable:") + bad.method, bad.arguments);
        EXPECT_EQ (ErrorCode (answer), bad.code) << bad.method << ": " << bad.complaint;
        EXPECT_THAT (ErrorText (answer), HasSubstr (bad.complaint)) << bad.method;
        EXPECT_EQ (Rows (client, "emb", AllRows ()), before) << bad.method << bad.complaint;
      }
  g_auto (TpsTableSpecs) specs = {};
  Read (client.Call ("EmbeddingTable:list_tables"), ReadResultOf<tps_list_tables_rpc>, &specs);
  EXPECT_EQ (specs.n_specs, 1u);
}

/* ---- end of the server ----------------------------------------------------------------------- */

TEST_F (EmbeddingTables, EndOnSigtermWithEveryCallAnsweredOrClosed)
{
  std::vector<std::thread> threads;
  std::atomic<int> n_ready { 0 }, n_odd { 0 };
  {
    RawClient client (address);
    ASSERT_EQ (ErrorCode (client.Call ("EmbeddingTable:create_table", Spec ("emb"))), 0);
  }
  for (int t = 0; t < 4; t++)
    threads.emplace_back ([&, t] {
      RawClient client (address);
      std::string name = "client" + std::to_string (t);
      std::vector<gint64> indices (t % 2 == 0 ? 4 : 20000, 7);
      for (gint64 sequence = 0;; sequence++)
        {
          if (!client.Send ("EmbeddingTable:apply_row_gradients", 1,
                            ApplyRows ("emb", indices, 1, name.c_str (), sequence)))
            return;
          Message answer = client.Receive ();
          if (answer == nullptr)
            return;
          int code = ErrorCode (answer);
          if (code != 0 && code != 8
              && code != 7) // 7: the flags leave room for the push ids of two clients
            {
              n_odd++;
              ADD_FAILURE () << code << ": " << ErrorText (answer);
            }
          if (sequence == 0)
            n_ready++;
        }
    });
  while (n_ready < 4)
    std::this_thread::yield ();
  auto before = std::chrono::steady_clock::now ();
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  EXPECT_LT (std::chrono::steady_clock::now () - before, std::chrono::seconds (20));
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (n_odd, 0);
}

} // namespace
} // namespace thriftps_test
