// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests clients that name slices of others, and clients that change slices after they have lent
// them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/plugin/server/memory/scribbler.h"
#include "tests/plugin/server/memory/shared_client.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

constexpr gint64 kPage = 4096;
constexpr gint64 kMiB = 1 << 20;

// Writes the arguments of average_gradient of trainer 0 with a dense tensor.
WriteFields
Average (gint64 batch, const WriteFields &tensor, gint32 param_loc = 0)
{
  return [=] (TpsWriter *out) {
    put_i32 (out, 1, 0);
    put_i64 (out, 2, batch);
    put_i32 (out, 3, param_loc);
    tps_writer_field (out, 4, TPS_WIRE_STRUCT);
    tps_writer_struct_begin (out);
    tps_writer_field (out, 1, TPS_WIRE_STRUCT);
    tensor (out);
    tps_writer_struct_end (out);
  };
}

class Slices : public testing::Test
{
protected:
  std::string
  Refusal (const WriteFields &tensor)
  {
    Message answer = client_.raw ().Call ("ParameterServer:average_gradient", Average (1, tensor));

    EXPECT_EQ (ErrorCode (answer), 1) << ErrorText (answer);
    return ErrorText (answer);
  }

  std::string
  SliceRefusal (TpsSharedSlice slice)
  {
    return Refusal (SharedTensor (1, { slice.length / 4 }, slice));
  }

  PluginServer server_ { {}, 1 };
  SharedClient client_ { server_.Unix () };
  const Segment &requests_ = client_.Open (TPS_SEGMENT_REQUESTS, 16 * kPage);
};

TEST_F (Slices, AreTakenWhereTheyAreRight)
{
  gint64 id = requests_.id;

  for (TpsSharedSlice slice : std::initializer_list<TpsSharedSlice> {
           { id, 0, 16 * kPage }, { id, 64, 4 }, { id, 16 * kPage - 64, 64 }, { id, 0, 0 } })
    {
      static gint64 batch = 100;
      Message answer = client_.raw ().Call (
          "ParameterServer:average_gradient",
          Average (batch++, SharedTensor (1, { slice.length / 4 }, slice)));

      EXPECT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
    }
}

TEST_F (Slices, BeyondTheirSegmentAreRefused)
{
  gint64 id = requests_.id;
  gint64 end = 16 * kPage;

  for (TpsSharedSlice slice :
       std::initializer_list<TpsSharedSlice> { { id, 0, end + 4 },
                                               { id, 64, end },
                                               { id, end, 4 },
                                               { id, end + 64, 0 },
                                               { id, G_MAXINT64 / 64 * 64, 64 },
                                               { id, G_MAXINT64 / 64 * 64, G_MAXINT64 / 4 * 4 },
                                               { id, -64, 64 },
                                               { id, G_MININT64, 64 },
                                               { id, 64, G_MAXINT64 / 4 * 4 } })
    EXPECT_THAT (SliceRefusal (slice),
                 testing::AllOf (testing::HasSubstr ("gradient.dense.shared has offset"),
                                 testing::HasSubstr ("has 65536 bytes")))
        << slice.offset << " " << slice.length;
  EXPECT_THAT (Refusal (SharedTensor (1, { 16 }, { id, 0, -64 })), testing::HasSubstr ("-64"));
}

TEST_F (Slices, ThatAreNotAlignedAreRefused)
{
  for (gint64 offset : { 1, 4, 8, 32, 63, 65 })
    EXPECT_THAT (SliceRefusal ({ requests_.id, offset, 4 }),
                 testing::HasSubstr ("expected a multiple of 64"));
}

TEST_F (Slices, OfAnotherLengthThanTheTensorsAreRefused)
{
  gint64 id = requests_.id;

  EXPECT_THAT (Refusal (SharedTensor (1, { 16 }, { id, 0, 60 })),
               testing::HasSubstr ("gradient.dense.shared has 60 bytes"));
  EXPECT_THAT (Refusal (SharedTensor (1, { 16 }, { id, 0, 68 })), testing::HasSubstr ("needs 64"));
  EXPECT_THAT (Refusal (SharedTensor (1, { -1 }, { id, 0, 64 })), testing::HasSubstr ("-1"));
  EXPECT_NE (Refusal (SharedTensor (1, { gint64 { 1 } << 62, 4 }, { id, 0, 64 })), "");
}

TEST_F (Slices, OfSegmentsThatAreNotThereForThemAreRefused)
{
  SharedClient other (server_.Unix ());
  gint64 foreign = other.Open (TPS_SEGMENT_REQUESTS, kPage).id;
  gint64 answers = client_.Open (TPS_SEGMENT_ANSWERS, kPage).id;
  gint64 closed = client_.Open (TPS_SEGMENT_REQUESTS, kPage).id;

  client_.Close (closed);
  for (gint64 id : { foreign, closed, gint64 { 0 }, gint64 { -1 }, gint64 { G_MAXINT64 },
                     gint64 { G_MININT64 } })
    EXPECT_THAT (SliceRefusal ({ id, 0, 64 }), testing::HasSubstr ("not open on this connection"));
  EXPECT_THAT (SliceRefusal ({ answers, 0, 64 }), testing::HasSubstr ("is for replies"));
}

TEST_F (Slices, BesidesInlineBytesAreRefused)
{
  std::string bytes (64, 'x');

  EXPECT_THAT (Refusal (SharedTensor (1, { 16 }, { requests_.id, 0, 64 }, &bytes)),
               testing::HasSubstr ("both data and shared"));
}

TEST_F (Slices, AreRefusedWhereNothingIsOpen)
{
  for (const std::string &address : { server_.Unix (), server_.Tcp () })
    {
      RawClient client (address);
      Message answer = client.Call ("ParameterServer:average_gradient",
                                    Average (1, SharedTensor (1, { 16 }, { requests_.id, 0, 64 })));

      EXPECT_EQ (ErrorCode (answer), 1);
      EXPECT_THAT (ErrorText (answer), testing::HasSubstr ("has no shared memory"));
    }
}

// Many tensors may name one slice, and the server must charge each copy.
TEST (SliceCopies, CountAgainstTheLimitOfPendingBytes)
{
  TpsServerOptions options = {};
  options.max_pending_bytes = 8 * kMiB;
  PluginServer server (options);
  SharedClient client (server.Unix ());
  const Segment &segment = client.Open (TPS_SEGMENT_REQUESTS, 4 * kMiB);
  Message answer = client.raw ().Call ("EmbeddingTable:lookup_bags", [&] (TpsWriter *out) {
    WriteFields tensor = SharedTensor (6, { 4 * kMiB / 8 }, { segment.id, 0, 4 * kMiB });

    tps_writer_field (out, 1, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_STRUCT, 1);
    tps_writer_struct_begin (out);
    put_string (out, 1, "emb");
    tps_writer_field (out, 2, TPS_WIRE_STRUCT);
    tensor (out);
    tps_writer_field (out, 3, TPS_WIRE_STRUCT);
    tensor (out);
    put_i32 (out, 4, 1);
    tps_writer_struct_end (out);
  });

  EXPECT_EQ (ErrorCode (answer), 7);
  EXPECT_THAT (ErrorText (answer), testing::HasSubstr ("no room for a copy of 4194304 bytes"));
  EXPECT_EQ (server.BytesOut (), gsize { 4 * kMiB });
}

// The averages of a batch are kept for repeats. A gradient in a slice has no memory of its own that
// its average could reuse, so each average needs new memory.
TEST (SliceAverages, CountAgainstALimitUntilTheNextBatch)
{
  constexpr int kFits = 8;
  TpsServerOptions options = {};
  options.max_pending_bytes = kFits * 4 * kMiB + 64 * 1024; // some memory for the rounds themselves
  PluginServer server (options, 1);
  SharedClient client (server.Unix ());
  const Segment &segment = client.Open (TPS_SEGMENT_REQUESTS, 4 * kMiB);
  WriteFields tensor = SharedTensor (1, { kMiB }, { segment.id, 0, 4 * kMiB });
  auto average = [&] (gint64 batch, gint32 param_loc) {
    return client.raw ().Call ("ParameterServer:average_gradient",
                               Average (batch, tensor, param_loc));
  };

  for (gint64 batch = 1; batch < 4; batch++)
    {
      for (gint32 param_loc = 0; param_loc < kFits; param_loc++)
        {
          Message answer = average (batch, param_loc);
          ASSERT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
        }
      Message answer = average (batch, kFits);
      EXPECT_EQ (ErrorCode (answer), 7);
      EXPECT_THAT (
          ErrorText (answer),
          testing::HasSubstr ("no memory for a sum of 4194304 bytes: the budget of averages: "
                              "no room for 4194304 bytes, "));
    }
  EXPECT_EQ (server.BytesOut (), gsize { 4 * kMiB }); // calls have released their copies
}

/* ---- changes after the release -------------------------------------------------------------- */

bool
IsAll (const TpsTensor &tensor, float value)
{
  const float *values = static_cast<const float *> (tps_tensor_data (&tensor));

  for (gint64 i = 0; i < tps_shape_n_elems (&tensor.shape); i++)
    if (values[i] != value)
      return false;
  return true;
}

// The server may use the first gradient as the sum, and it keeps the average for repeats. Both must
// be copies.
TEST (GivenBack, AveragesDoNotChangeWithTheSegment)
{
  PluginServer server ({}, 1);
  SharedClient client (server.Unix ());
  const Segment &segment = client.Open (TPS_SEGMENT_REQUESTS, kMiB);
  TpsAverageGradientArguments arguments = {};

  arguments.gradient.kind = TPS_GRADIENT_DENSE;
  arguments.gradient.weight = 1;
  arguments.gradient.dense = MakeVector (100000, 3);
  for (int i = 0; i < 3; i++)
    {
      g_auto (TpsGradient) average = {};

      client.Send ("ParameterServer:average_gradient", WriteArgumentsOf<tps_average_gradient_rpc>,
                   &arguments, &segment);
      ASSERT_TRUE (client.Receive (ReadResultOf<tps_average_gradient_rpc>, &average))
          << client.LastError ();
      memset (segment.data, 0x7f, segment.size);
      EXPECT_TRUE (IsAll (average.dense, 3));
    }
  EXPECT_EQ (client.n_placed, 3);
  tps_average_gradient_arguments_clear (&arguments);
}

/* ---- changes during use --------------------------------------------------------------------- */

class Changing : public testing::Test
{
protected:
  Changing ()
  {
    g_auto (TpsTableSpec) spec = {};

    tps_table_spec_init (&spec, "emb", 1000, 16);
    client_.Send ("EmbeddingTable:create_table", WriteArgumentsOf<tps_create_table_rpc>, &spec,
                  nullptr);
    EXPECT_EQ (ErrorCode (client_.raw ().Receive ()), 0);
  }

  // Any reply is accepted, because a client that changes its values harms only itself.
  void
  Call (const std::string &name, const WriteFields &fields)
  {
    Message answer = client_.raw ().Call (name, fields);

    ASSERT_NE (answer, nullptr);
    if (ErrorCode (answer) != 0)
      {
        ASSERT_EQ (ErrorCode (answer), 1) << ErrorText (answer);
        n_refused_++;
      }
    n_calls_++;
  }

  // A tensor in the segment, at `offset`.
  WriteFields
  Tensor (gint32 dtype, const std::vector<gint64> &shape, gint64 offset) const
  {
    gint64 n_bytes = dtype == 6 ? 8 : 4;

    for (gint64 dim : shape)
      n_bytes *= dim;
    return SharedTensor (dtype, shape, { segment_.id, offset, n_bytes });
  }

  static void
  Put (TpsWriter *out, gint16 id, const WriteFields &value)
  {
    tps_writer_field (out, id, TPS_WIRE_STRUCT);
    value (out);
  }

  WriteFields
  Query (gint64 n_ids, gint64 n_bags) const
  {
    return [=] (TpsWriter *out) {
      tps_writer_struct_begin (out);
      put_string (out, 1, "emb");
      Put (out, 2, Tensor (6, { n_ids }, 0));
      Put (out, 3, Tensor (6, { n_bags }, 64 * 1024));
      put_i32 (out, 4, 1);
      Put (out, 5, Tensor (1, { n_ids }, 128 * 1024));
      tps_writer_struct_end (out);
    };
  }

  WriteFields
  Sparse (gint64 n_ids, gint64 rows) const
  {
    return [=] (TpsWriter *out) {
      tps_writer_struct_begin (out);
      Put (out, 1, Tensor (6, { n_ids }, 0));
      Put (out, 2, Tensor (1, { n_ids, 16 }, 64 * 1024));
      tps_writer_field (out, 3, TPS_WIRE_LIST);
      tps_writer_list_begin (out, TPS_WIRE_I64, 2);
      tps_writer_i64 (out, rows);
      tps_writer_i64 (out, 16);
      tps_writer_struct_end (out);
    };
  }

  void
  CallAll (gint64 n)
  {
    // Every fourth call has a single id, so some calls pass the checks.
    gint64 n_ids = n % 4 == 0 ? 1 : 1 + n % 2000;
    gint64 n_bags = n % 4 == 0 ? 1 : 1 + n % 100;

    Call ("EmbeddingTable:lookup_rows", [&] (TpsWriter *out) {
      put_string (out, 1, "emb");
      Put (out, 2, Tensor (6, { n_ids }, 0));
    });
    Call ("EmbeddingTable:lookup_bags", [&] (TpsWriter *out) {
      tps_writer_field (out, 1, TPS_WIRE_LIST);
      tps_writer_list_begin (out, TPS_WIRE_STRUCT, 1);
      Query (n_ids, n_bags) (out);
    });
    Call ("EmbeddingTable:apply_row_gradients", [&] (TpsWriter *out) {
      put_string (out, 1, "emb");
      Put (out, 2, Sparse (n_ids, 1000));
    });
    Call ("EmbeddingTable:apply_bag_gradients", [&] (TpsWriter *out) {
      tps_writer_field (out, 1, TPS_WIRE_LIST);
      tps_writer_list_begin (out, TPS_WIRE_STRUCT, 1);
      tps_writer_struct_begin (out);
      Put (out, 1, Query (n_ids, n_bags));
      Put (out, 2, Tensor (1, { n_bags, 16 }, 192 * 1024));
      tps_writer_struct_end (out);
    });
    Call ("ParameterServer:average_gradient", Average (2 * n, Tensor (1, { 32768 }, 0)));
    Call ("ParameterServer:average_gradient", [&] (TpsWriter *out) {
      put_i32 (out, 1, 0);
      put_i64 (out, 2, 2 * n + 1);
      put_i32 (out, 3, 0);
      tps_writer_field (out, 4, TPS_WIRE_STRUCT);
      tps_writer_struct_begin (out);
      Put (out, 2, Sparse (n_ids, 1000));
      tps_writer_struct_end (out);
    });
  }

  PluginServer server_ { {}, 1 };
  SharedClient client_ { server_.Unix () };
  const Segment &segment_ = client_.Open (TPS_SEGMENT_REQUESTS, kMiB);
  int n_calls_ = 0;
  int n_refused_ = 0;
};

TEST_F (Changing, MemoryHarmsOnlyItsOwner)
{
  TpsLookupRowsArguments arguments = {};
  g_auto (TpsTensor) rows = {};
  char table[] = "emb";

  {
    Scribbler scribbler (segment_.data, segment_.size);

    for (gint64 n = 0; n < 300 && !HasFatalFailure (); n++)
      CallAll (n);
  }
  EXPECT_GT (n_refused_, 0);
  EXPECT_GT (n_calls_, n_refused_);
  arguments.table = table;
  tps_tensor_init_1d (&arguments.indices, TPS_DTYPE_INT64, 1000);
  for (gint64 i = 0; i < 1000; i++)
    static_cast<gint64 *> (tps_tensor_data (&arguments.indices))[i] = i;
  client_.Send ("EmbeddingTable:lookup_rows", WriteArgumentsOf<tps_lookup_rows_rpc>, &arguments,
                nullptr);
  ASSERT_TRUE (client_.Receive (ReadResultOf<tps_lookup_rows_rpc>, &rows)) << client_.LastError ();
  EXPECT_EQ (rows.shape.dims[0], 1000);
  tps_tensor_clear (&arguments.indices);
}

} // namespace
} // namespace thriftps_test
