// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <list>

#include "plugin/wire/descriptor.h"
#include "plugin/wire/wire_embedding_table.h"
#include "runtime/server/budgets.h"
#include "tests/integration/memory_limit/memory_group.h"
#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/gradient_call.h"
#include "tests/plugin/server/raw_client.h"

namespace thriftps_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr int kExhausted = 7;
constexpr size_t kMiB = 1 << 20;

class MemoryLimit : public testing::TestWithParam<size_t>
{
protected:
  void
  SetUp () override
  {
    if (!group_.WhyNot ().empty ())
      GTEST_SKIP () << group_.WhyNot ();
    server_ = std::make_unique<ServerProcess> (
        std::vector<std::string> { group_.Procs (), "plugin/trainer/thriftps_trainer",
                                   "--listen=127.0.0.1:0", "--ntrainer=2", "--rpc-timeout=30",
                                   "--log-level=error" },
        "tests/integration/memory_limit/in_group.sh");
    address_ = server_->ReadAddress ();
    ASSERT_NE (address_, "");
  }
  void
  TearDown () override
  {
    if (server_ == nullptr)
      return;
    EXPECT_TRUE (IsAlive ());
    RecordProperty ("peak_mib", static_cast<int> (group_.Peak () / kMiB));
    server_->Signal (SIGTERM);
    EXPECT_EQ (server_->Wait (), 0);
  }
  // A full server counts as alive too, because the memory of closed connections may be charged
  // until their rounds end.
  bool
  IsAlive ()
  {
    int code = ErrorCode (RawClient (address_).Call ("Node:describe"));

    return code == 0 || code == kExhausted;
  }
  bool
  Describes ()
  {
    return ErrorCode (RawClient (address_).Call ("Node:describe")) == 0;
  }

  MemoryGroup group_ { GetParam () * kMiB };
  std::unique_ptr<ServerProcess> server_;
  std::string address_;
};

WriteFields
CreateTable (const std::string &name, gint64 rows, gint32 dim, bool is_filled = false)
{
  return [=] (TpsWriter *out) {
    g_auto (TpsTableSpec) spec = {};
    tps_table_spec_init (&spec, name.c_str (), rows, dim);
    spec.initializer.kind = is_filled ? TPS_INITIALIZER_UNIFORM : TPS_INITIALIZER_ZEROS;
    spec.initializer.high = is_filled ? 1 : 0;
    spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
    tps_rpc_write_arguments (&tps_create_table_rpc, out, &spec);
  };
}

// Writes the arguments of a pass with LinearModel.
WriteFields
Train (gint64 n_features)
{
  return [=] (TpsWriter *out) {
    std::string config = "{\"model_class\": \"LinearModel\", \"configurations\": {\"in_features\": "
                         + std::to_string (n_features)
                         + ", \"out_features\": " + std::to_string (n_features) + "}}";
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tps_writer_struct_begin (out);
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_string (out, "pass");
    tps_writer_field (out, 2, TPS_WIRE_I32);
    tps_writer_i32 (out, 0);
    tps_writer_field (out, 3, TPS_WIRE_I32);
    tps_writer_i32 (out, 1);
    tps_writer_field (out, 4, TPS_WIRE_BINARY);
    tps_writer_string (out, config.c_str ());
    tps_writer_field (out, 5, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_STRUCT, 0);
    tps_writer_field (out, 6, TPS_WIRE_I32);
    tps_writer_i32 (out, 1);
    tps_writer_field (out, 15, TPS_WIRE_BINARY);
    tps_writer_string (out, "BasicHookState");
    tps_writer_field (out, 16, TPS_WIRE_BINARY);
    tps_writer_string (out, "allreduce_hook");
    tps_writer_field (out, 25, TPS_WIRE_BINARY);
    tps_writer_string (out, "mean");
    tps_writer_struct_end (out);
  };
}

TEST_P (MemoryLimit, AModelThatCannotFitIsRefused)
{
  RawClient client (address_);

  for (gint64 n_features : { 1 << 20, 1 << 14 })
    {
      Message answer = client.Call ("Trainer:train", Train (n_features));

      EXPECT_EQ (ErrorCode (answer), kExhausted);
      EXPECT_THAT (ErrorText (answer), HasSubstr ("model LinearModel takes"));
    }
}

TEST_P (MemoryLimit, ManyTinyQueriesAreChargedAsTheyAreDecoded)
{
  constexpr guint kQueries = 50000;
  gint64 zero = 0;
  TpsTensorView one = { { TPS_DTYPE_INT64, 1, { 1 } }, &zero };
  std::vector<TpsBagQuery> queries (kQueries);
  std::list<RawClient> clients;

  for (TpsBagQuery &query : queries)
    query = { "t", one, one, TPS_POOLING_SUM, {} };
  ASSERT_EQ (ErrorCode (RawClient (address_).Call ("EmbeddingTable:create_table",
                                                   CreateTable ("t", 10, 16))),
             0);
  std::string call = MessageBytes ({}, "EmbeddingTable:lookup_bags", 1, [&] (TpsWriter *out) {
    TpsLookupBagsArguments arguments = { kQueries, queries.data (), nullptr };
    tps_rpc_write_arguments (&tps_lookup_bags_rpc, out, &arguments);
  });
  for (int i = 0; i < 20; i++)
    EXPECT_TRUE (clients.emplace_back (address_).SendBytes (call));
  for (RawClient &client : clients)
    EXPECT_THAT (ErrorCode (client.Receive ()), AnyOf (0, kExhausted));
}

TEST_P (MemoryLimit, SmallGradientsThatWaitAreBounded)
{
  const int n_gradients = 48000, n_each = 60; // from fewer connections than the server allows
  std::string floats (3900, '\0');
  std::list<RawClient> clients;
  pollfd answered = {};

  for (int i = 0; i < n_gradients; i += n_each)
    {
      std::string calls;

      for (int k = 0; k < n_each; k++)
        calls += MessageBytes ({}, "ParameterServer:average_gradient", k,
                               PushBytes (0, 0, TPS_DTYPE_FLOAT32, 975, floats, i + k));
      ASSERT_TRUE (clients.emplace_back (address_).SendBytes (calls));
    }
  if (GetParam () < 500)
    {
      // Together they exceed the limit of all calls, so the last ones are refused.
      EXPECT_EQ (ErrorCode (clients.back ().Receive ()), kExhausted);
    }
  // The server must still reply, even if only with the error that it is full.
  EXPECT_THAT (ErrorCode (RawClient (address_).Call ("Node:describe")), AnyOf (0, kExhausted));
  answered.fd = clients.front ().fd ();
  EXPECT_EQ (poll (&answered, 1, 0), 0) << "the first gradients wait for the other trainer";
  clients.clear ();
}

TEST_P (MemoryLimit, UnreadRepliesAreCharged)
{
  std::string name (200, 'n');
  std::list<RawClient> clients;
  RawClient maker (address_);
  std::string calls;

  for (int i = 0; i < 2000; i++)
    ASSERT_EQ (ErrorCode (maker.Call ("EmbeddingTable:create_table",
                                      CreateTable (name + std::to_string (i), 1, 1))),
               0);
  for (int i = 0; i < 60; i++)
    calls += MessageBytes ({}, "EmbeddingTable:list_tables", i);
  for (int i = 0; i < 40; i++)
    EXPECT_TRUE (clients.emplace_back (address_).SendBytes (calls));
  for (int i = 0; i < 20; i++)
    EXPECT_TRUE (Describes ());
}

// The tables take 97 % of their limit, and the average needs 80 MiB.
TEST_P (MemoryLimit, AFullTableLeavesNoRoomForALargeAverage)
{
  constexpr gint64 kElems = 20 << 20;
  gsize process = tps_budgets_get_default_process_bytes (GetParam () * kMiB);
  gint64 n_table = static_cast<gint64> (static_cast<double> (process) / 0.9 * 0.8 * 0.97);
  std::string floats (4 * kElems, '\0');
  RawClient one (address_), other (address_);

  ASSERT_EQ (ErrorCode (one.Call ("EmbeddingTable:create_table",
                                  CreateTable ("t", n_table / 256, 64, true))),
             0);
  EXPECT_TRUE (one.Send ("ParameterServer:average_gradient", 1,
                         PushBytes (0, 0, TPS_DTYPE_FLOAT32, kElems, floats)));
  EXPECT_TRUE (other.Send ("ParameterServer:average_gradient", 1,
                           PushBytes (1, 0, TPS_DTYPE_FLOAT32, kElems, floats)));
  EXPECT_TRUE (Describes ());
  EXPECT_THAT (ErrorCode (other.Receive ()), AnyOf (0, kExhausted, 6));
}

INSTANTIATE_TEST_SUITE_P (InMiB, MemoryLimit, testing::Values (400, 1000));

} // namespace
} // namespace thriftps_test
