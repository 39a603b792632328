// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Counts the allocations of a warmed-up server for a small call.

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>

#include "plugin/service/embedding_table_service.h"
#include "plugin/service/parameter_server_service.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/call_cost/counted.h"
#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

constexpr int kWarmUp = 300; // calls
constexpr int kCounted = 1000;
constexpr int kRows = 64;
constexpr int kDim = 16;

class AllocationsTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    TpsServerOptions options = {};
    DoNotCountThisThread ();
    options.n_io_threads = 1;
    options.n_workers = 1;
    server_ = tps_server_new (&options);
    workers_ = tps_server_get_workers (server_);
    AddParameterServer ();
    AddTables ();
    TpsService test = test_.Get ();
    TpsService parameter_server = tps_parameter_server_service (&servers_);
    TpsService tables = tps_embedding_table_service (tables_);
    for (const TpsService *service : { &test, &parameter_server, &tables })
      tps_server_add_service (server_, service);
    folder_ = g_dir_make_tmp ("tps-cost-XXXXXX", nullptr);
    address_ = std::string ("unix:") + folder_ + "/socket";
    ASSERT_TRUE (tps_server_listen (server_, address_.c_str (), nullptr));
    ASSERT_TRUE (tps_server_start (server_, nullptr));
    test_.LetGo ();
  }

  void
  TearDown () override
  {
    tps_server_stop (server_);
    tps_parameter_server_free (servers_.averaging);
    tps_model_server_free (servers_.updating);
    tps_embedding_tables_free (tables_);
    tps_table_store_free (store_);
    g_object_unref (server_);
    rmdir (folder_);
    g_free (folder_);
  }

  void
  AddParameterServer ()
  {
    TpsParameterServerOptions averaging = {};
    TpsModelServerOptions updating = {};
    averaging.n_trainers = 1;
    averaging.workers = workers_;
    servers_.averaging = tps_parameter_server_new (&averaging, nullptr);
    updating.n_trainers = 1;
    updating.workers = workers_;
    servers_.updating = tps_model_server_new (&updating, nullptr);
  }

  void
  AddTables ()
  {
    TpsTableStoreOptions options = {};
    g_auto (TpsTableSpec) spec = {};
    options.workers = workers_;
    options.pushes.window = 64;
    store_ = tps_table_store_new (&options);
    tables_ = tps_embedding_tables_new (store_);
    tps_table_spec_init (&spec, "words", kRows, kDim);
    spec.initializer.kind = TPS_INITIALIZER_ZEROS;
    spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
    ASSERT_TRUE (tps_table_store_create (store_, &spec, nullptr));
  }

  // Returns the allocations of the server per call. `fields` writes the arguments of call number i.
  double
  PerCall (const std::string &name, const std::function<WriteFields (int)> &fields,
           Wire wire = Wire ())
  {
    RawClient client (address_, wire);
    Counts before = {};
    for (int i = 0; i < kWarmUp + kCounted; i++)
      {
        if (i == kWarmUp)
          before = CountFromHere ();
        Message answer = client.Call (name, fields (i), i);
        EXPECT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
      }
    double n = (double) (CountedSoFar () - before).allocations / kCounted;
    std::printf ("%s: %.3f allocations per call\n", name.c_str (), n);
    return n;
  }

  TestService test_;
  TpsServer *server_ = nullptr;
  TpsWorkerPool *workers_ = nullptr;
  TpsParameterServers servers_ = {};
  TpsTableStore *store_ = nullptr;
  TpsEmbeddingTables *tables_ = nullptr;
  gchar *folder_ = nullptr;
  std::string address_;
};

WriteFields
Echo (int i)
{
  return IntField (i);
}

TEST_F (AllocationsTest, ACallThatAnswersAtOnceCostsNone)
{
  EXPECT_EQ (PerCall ("Test:echo", Echo), 0);
}

TEST_F (AllocationsTest, CompactProtocolCostsNone)
{
  EXPECT_EQ (PerCall ("Test:echo", Echo, { TPS_PROTOCOL_COMPACT, true }), 0);
}

TEST_F (AllocationsTest, UnframedCallsCostNone)
{
  EXPECT_EQ (PerCall ("Test:echo", Echo, { TPS_PROTOCOL_BINARY, false }), 0);
}

TEST_F (AllocationsTest, ACallOnAWorkerCostsNone)
{
  // The client may receive its reply before the worker has released the call. The number of cached
  // calls grows with the largest lag between the two threads.
  EXPECT_LT (PerCall ("Test:work", Echo), 0.05);
}

TEST_F (AllocationsTest, AnAnswerOfSomeKilobytesCostsNone)
{
  // The service makes one allocation: it builds its reply in a std::string.
  EXPECT_EQ (PerCall ("Test:make", [] (int) { return IntField (3000); }), 1);
}

TEST_F (AllocationsTest, AnArgumentWithABufferOfItsOwnCostsNone)
{
  EXPECT_EQ (PerCall ("Test:echo", [] (int) { return BinaryField (100000); }), 0);
}

// The state machine allocates a batch and its tables of rounds and trainers, a round, its
// contribution and their arrays, the pending call, the fold that averages, the spans of the
// metrics, and the timer of the deadline. All except the call, the contribution and the digest
// belong to the round, so the trainers of a round share their cost.
TEST_F (AllocationsTest, AnAverageOfFewElementsCostsTheAllocationsOfItsRound)
{
  TpsAverageGradientArguments arguments = {};
  arguments.gradient.kind = TPS_GRADIENT_DENSE;
  arguments.gradient.weight = 1;
  tps_tensor_init_1d (&arguments.gradient.dense, TPS_DTYPE_FLOAT32, 64);
  memset (tps_tensor_data (&arguments.gradient.dense), 0, 64 * sizeof (float));
  EXPECT_LE (PerCall ("ParameterServer:average_gradient",
                      [&] (int i) -> WriteFields {
                        arguments.batch = i;
                        return [&] (TpsWriter *out) {
                          tps_rpc_write_arguments (&tps_average_gradient_rpc, out, &arguments);
                        };
                      }),
             24);
  tps_gradient_clear (&arguments.gradient);
}

TEST_F (AllocationsTest, ALookupOfFewRowsCostsTheNameOfTheTable)
{
  gint64 indices[] = { 3, 1, 4, 1 };
  TpsLookupRowsArguments arguments = {};
  TpsTensorView view = { { TPS_DTYPE_INT64, 1, { 4 } }, indices };
  arguments.table = const_cast<gchar *> ("words");
  tps_tensor_init_copy (&arguments.indices, view);
  EXPECT_LE (PerCall ("EmbeddingTable:lookup_rows",
                      [&] (int) -> WriteFields {
                        return [&] (TpsWriter *out) {
                          tps_rpc_write_arguments (&tps_lookup_rows_rpc, out, &arguments);
                        };
                      }),
             1);
  tps_tensor_clear (&arguments.indices);
}

} // namespace
} // namespace thriftps_test
