// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the embedding tables of the standalone server over its sockets.

#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
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

constexpr gint64 kRows = 1000;
constexpr gint32 kDim = 8;

WriteFields
Spec (const char *name)
{
  return [=] (TpsWriter *out) {
    g_auto (TpsTableSpec) spec = {};
    tps_table_spec_init (&spec, name, kRows, kDim);
    spec.initializer.kind = TPS_INITIALIZER_ZEROS;
    spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
    tps_rpc_write_arguments (&tps_create_table_rpc, out, &spec);
  };
}

TpsTensorView
View (const std::vector<gint64> &values)
{
  return { { TPS_DTYPE_INT64, 1, { static_cast<gint64> (values.size ()) } }, values.data () };
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
ApplyRows (const char *table, const std::vector<gint64> &indices, float value, const char *client,
           gint64 sequence)
{
  return [=] (TpsWriter *out) {
    TpsApplyRowGradientsArguments arguments = {};
    gint64 n_rows = static_cast<gint64> (indices.size ());
    arguments.table = const_cast<gchar *> (table);
    arguments.gradient.kind = TPS_GRADIENT_SPARSE;
    arguments.gradient.rows = kRows;
    tps_tensor_init_copy (&arguments.gradient.indices, View (indices));
    tps_tensor_init_2d (&arguments.gradient.values, TPS_DTYPE_FLOAT32, n_rows, kDim);
    for (gint64 i = 0; i < n_rows * kDim; i++)
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
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (n_odd, 0);
}

} // namespace
} // namespace thriftps_test
