/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_embedding_table.h"

#include <cmath>

#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

constexpr TpsProtocolKind protocols[] = { TPS_PROTOCOL_BINARY, TPS_PROTOCOL_COMPACT };

TpsTensor
counting_tensor (TpsDType dtype, std::vector<gint64> dims)
{
  TpsTensor tensor = {};
  TpsShape shape;

  EXPECT_TRUE (tps_shape_init (&shape, dtype, static_cast<guint> (dims.size ()), dims.data (),
                               "tensor", nullptr));
  tps_tensor_init (&tensor, &shape);
  for (gsize i = 0; i < tps_shape_n_bytes (&shape); i++)
    static_cast<guint8 *> (tps_tensor_data (&tensor))[i] = static_cast<guint8> (i * 7);
  return tensor;
}

void
expect_equal (const TpsTensorView &a, const TpsTensorView &b)
{
  ASSERT_EQ (a.shape.dtype, b.shape.dtype);
  if (a.shape.dtype == 0)
    return;
  ASSERT_TRUE (tps_shape_equal (&a.shape, &b.shape));
  if (tps_shape_n_bytes (&a.shape) == 0)
    return;
  EXPECT_EQ (memcmp (a.data, b.data, tps_shape_n_bytes (&a.shape)), 0);
}

/* Puts everything but one field of a list of them. */
using Field = std::function<void (TpsWriter *)>;

Write
without (const std::vector<Field> &fields, gsize missing)
{
  return [=] (TpsWriter *out) {
    for (gsize i = 0; i < fields.size (); i++)
      if (i != missing)
        fields[i](out);
  };
}

/* The same with one field replaced. */
Write
instead (const std::vector<Field> &fields, gsize which, const Field &other)
{
  return [=] (TpsWriter *out) {
    for (gsize i = 0; i < fields.size (); i++)
      (i == which ? other : fields[i]) (out);
  };
}

/* A list of one struct. */
Write
list_of (gint16 id, const std::vector<Write> &structs)
{
  return [=] (TpsWriter *out) {
    tps_writer_field (out, id, TPS_WIRE_LIST);
    tps_writer_list_begin (out, TPS_WIRE_STRUCT, static_cast<guint32> (structs.size ()));
    for (const Write &fields : structs)
      {
        tps_writer_struct_begin (out);
        fields (out);
        tps_writer_struct_end (out);
      }
  };
}

Field
tensor (gint16 id, gint32 dtype, std::vector<gint64> shape, gsize n_bytes)
{
  return [=] (TpsWriter *out) { put_struct (out, id, tensor_fields (dtype, shape, n_bytes)); };
}

Field
text (gint16 id, const std::string &value)
{
  return [=] (TpsWriter *out) { put_string (out, id, value); };
}

Field
i32 (gint16 id, gint32 value)
{
  return [=] (TpsWriter *out) { put_i32 (out, id, value); };
}

Field
i64 (gint16 id, gint64 value)
{
  return [=] (TpsWriter *out) { put_i64 (out, id, value); };
}

Field
number (gint16 id, double value)
{
  return [=] (TpsWriter *out) { put_double (out, id, value); };
}

Field
structure (gint16 id, const Write &fields)
{
  return [=] (TpsWriter *out) { put_struct (out, id, fields); };
}

/* ---- TableSpec ------------------------------------------------------------------------------ */

void
expect_equal_specs (const TpsTableSpec &a, const TpsTableSpec &b)
{
  EXPECT_STREQ (a.name, b.name);
  EXPECT_EQ (a.dim, b.dim);
  EXPECT_EQ (a.dtype, b.dtype);
  EXPECT_EQ (a.bytes, b.bytes);
  EXPECT_TRUE (tps_shard_equal (&a.shard, &b.shard));
  EXPECT_EQ (a.initializer.kind, b.initializer.kind);
  EXPECT_EQ (a.initializer.seed, b.initializer.seed);
  EXPECT_EQ (std::isnan (a.initializer.low), std::isnan (b.initializer.low));
  EXPECT_EQ (a.initializer.stdev, b.initializer.stdev);
  EXPECT_EQ (a.optimizer.kind, b.optimizer.kind);
  EXPECT_EQ (a.optimizer.learning_rate, b.optimizer.learning_rate);
  EXPECT_EQ (std::isnan (a.optimizer.beta1), std::isnan (b.optimizer.beta1));
  EXPECT_STREQ (a.place.device, b.place.device);
  EXPECT_EQ (a.place.is_host_memory, b.place.is_host_memory);
}

TpsTableSpec
new_spec (const char *name, TpsShardKind kind)
{
  TpsTableSpec spec;

  tps_table_spec_init (&spec, name, 1001, 16);
  spec.dtype = TPS_DTYPE_BFLOAT16;
  spec.initializer.stdev = 0.25;
  spec.initializer.mean = 1;
  spec.initializer.seed = -7;
  spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_ADAM, 0.125);
  tps_table_place_parse (kind == TPS_SHARD_RANGE ? "cuda:3" : "cuda:12/host", &spec.place);
  if (kind == TPS_SHARD_RANGE)
    tps_shard_init_range (&spec.shard, 1001, 10, 20, nullptr);
  if (kind == TPS_SHARD_HASH)
    tps_shard_init_hash (&spec.shard, 1001, 2, 3, nullptr);
  EXPECT_EQ (spec.shard.kind, kind);
  return spec;
}

constexpr TpsShardKind shard_kinds[] = { TPS_SHARD_WHOLE, TPS_SHARD_RANGE, TPS_SHARD_HASH };

TEST (WireTableSpec, comesAsItWent)
{
  for (TpsProtocolKind protocol : protocols)
    for (TpsShardKind kind : shard_kinds)
      {
        g_auto (TpsTableSpec) sent = new_spec ("emb.0", kind);
        g_auto (TpsTableSpec) got = {};
        WireMessage message (
            [&] (TpsWriter *out) { tps_create_table_arguments_encode (out, &sent); }, protocol);

        ASSERT_TRUE (tps_create_table_arguments_decode (message.arguments (), &got, nullptr));
        expect_equal_specs (got, sent);
      }
}

TEST (WireTableSpec, listsComeAsTheyWent)
{
  for (TpsProtocolKind protocol : protocols)
    for (guint n_specs : { 0u, 3u })
      {
        g_autoptr (GArray) sent = g_array_new (FALSE, TRUE, sizeof (TpsTableSpec));
        g_autoptr (GArray) got = nullptr;
        TpsWireType type;

        g_array_set_clear_func (sent, [] (gpointer spec) {
          tps_table_spec_clear (static_cast<TpsTableSpec *> (spec));
        });
        for (guint i = 0; i < n_specs; i++)
          {
            TpsTableSpec spec = new_spec ("emb", shard_kinds[i]);

            spec.bytes = 1000 * i;
            g_array_append_val (sent, spec);
          }
        WireMessage message ([&] (TpsWriter *out) { tps_list_tables_result_encode (out, sent); },
                             protocol);
        TpsReader *in = message.result (&type);

        ASSERT_TRUE (tps_list_tables_result_decode (in, type, &got, nullptr));
        ASSERT_EQ (got->len, n_specs);
        for (guint i = 0; i < n_specs; i++)
          expect_equal_specs (g_array_index (got, TpsTableSpec, i),
                              g_array_index (sent, TpsTableSpec, i));
      }
}

/* name, rows, dim, dtype: what there must be. */
const std::vector<Field> spec_fields = { text (1, "emb"), i64 (2, 100), i32 (3, 4), i32 (4, 1) };

Write
plus (std::vector<Field> more)
{
  std::vector<Field> fields = spec_fields;

  fields.insert (fields.end (), more.begin (), more.end ());
  return without (fields, fields.size ());
}

bool
decode_spec (const Write &fields, TpsTableSpec *spec)
{
  WireMessage message ([&] (TpsWriter *out) { put_struct (out, 1, fields); });

  return tps_create_table_arguments_decode (message.arguments (), spec, nullptr);
}

TEST (WireTableSpec, whatIsAbsentIsFilledIn)
{
  g_auto (TpsTableSpec) spec = {};

  ASSERT_TRUE (decode_spec (plus ({}), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_WHOLE);
  EXPECT_EQ (spec.shard.n_rows, 100);
  EXPECT_EQ (spec.initializer.kind, TPS_INITIALIZER_NORMAL);
  EXPECT_EQ (spec.initializer.seed, 0);
  EXPECT_TRUE (std::isnan (spec.initializer.mean));
  EXPECT_EQ (spec.optimizer.kind, TPS_OPTIMIZER_SGD);
  EXPECT_EQ (spec.optimizer.learning_rate, 0.01);
  EXPECT_TRUE (std::isnan (spec.optimizer.momentum));
  EXPECT_EQ (spec.bytes, 0);
  EXPECT_STREQ (spec.place.device, "");
  EXPECT_FALSE (spec.place.is_host_memory);
}

TEST (WireTableSpec, shardsAreToldByTheirFields)
{
  g_auto (TpsTableSpec) spec = {};

  ASSERT_TRUE (decode_spec (plus ({ i64 (7, 10) }), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_RANGE);
  EXPECT_EQ (spec.shard.n_rows, 90);
  ASSERT_TRUE (decode_spec (plus ({ i64 (7, 0), i64 (11, 30) }), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_RANGE);
  EXPECT_EQ (spec.shard.n_rows, 30);
  ASSERT_TRUE (decode_spec (plus ({ i32 (9, 0), i32 (10, 3) }), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_HASH);
  EXPECT_EQ (spec.shard.n_rows, 34);
  ASSERT_TRUE (decode_spec (plus ({ i32 (9, 0), i32 (10, 3), i64 (11, 34) }), &spec));
  ASSERT_TRUE (decode_spec (plus ({ i64 (11, 100) }), &spec));
  EXPECT_EQ (spec.shard.kind, TPS_SHARD_WHOLE);
}

std::string
spec_refusal (const Write &fields)
{
  return refusal ([&] (TpsWriter *out) { put_struct (out, 1, fields); },
                  [] (TpsReader *in, GError **error) {
                    g_auto (TpsTableSpec) spec = {};

                    return tps_create_table_arguments_decode (in, &spec, error);
                  });
}

TEST (WireTableSpec, whatIsMissingIsNamed)
{
  const char *const names[] = { "name", "rows", "dim", "dtype" };

  for (gsize i = 0; i < spec_fields.size (); i++)
    EXPECT_EQ (spec_refusal (without (spec_fields, i)),
               "spec." + std::string (names[i]) + " is missing");
  EXPECT_EQ (spec_refusal (plus ({ structure (5, [] (TpsWriter *) {}) })),
             "spec.initializer.kind is missing");
  EXPECT_EQ (spec_refusal (plus ({ structure (6, i32 (1, 1)) })),
             "spec.optimizer.learning_rate is missing");
  EXPECT_EQ (spec_refusal (plus ({ i32 (9, 0) })), "spec.shard_count is missing");
  EXPECT_EQ (spec_refusal (plus ({ i32 (10, 2) })), "spec.shard_index is missing");
}

TEST (WireTableSpec, whatIsWrongIsNamed)
{
  EXPECT_EQ (spec_refusal (instead (spec_fields, 0, text (1, "a b"))),
             "spec.name is not a name: 1 to 255 characters of A-Z a-z 0-9 _ . : / -");
  EXPECT_EQ (spec_refusal (instead (spec_fields, 1, i64 (2, 0))), "spec.rows is 0, expected > 0");
  EXPECT_EQ (spec_refusal (instead (spec_fields, 1, i64 (2, G_MININT64))),
             "spec.rows is -9223372036854775808, expected > 0");
  EXPECT_EQ (spec_refusal (instead (spec_fields, 1, i32 (2, 5))),
             "spec.rows is of type i32, expected i64");
  EXPECT_EQ (spec_refusal (plus ({ text (12, std::string (31, 'c')) })), "");
  EXPECT_EQ (spec_refusal (plus ({ text (12, std::string (32, 'c')) })),
             "spec.device is longer than any device's name, 31 characters");
  EXPECT_EQ (spec_refusal (plus ({ text (12, "cuda 0") })),
             "spec.device is not a name: 1 to 255 characters of A-Z a-z 0-9 _ . : / -");
  EXPECT_EQ (spec_refusal (instead (spec_fields, 3, i32 (4, 7))),
             "spec.dtype is 7, which is no DType");
  EXPECT_EQ (spec_refusal (plus ({ structure (5, i32 (1, 4)) })),
             "spec.initializer.kind is 4, which is no InitializerKind");
  EXPECT_EQ (spec_refusal (plus ({ structure (5,
                                              [] (TpsWriter *out) {
                                                put_i32 (out, 1, 2);
                                                put_double (out, 3, INFINITY);
                                              }) })),
             "spec.initializer.high is inf, expected a finite number");
  EXPECT_EQ (spec_refusal (plus ({ structure (6,
                                              [] (TpsWriter *out) {
                                                put_i32 (out, 1, 1);
                                                put_double (out, 2, NAN);
                                              }) })),
             "spec.optimizer.learning_rate is nan, expected a finite number");
  EXPECT_EQ (spec_refusal (plus ({ number (7, 1) })),
             "spec.first_row is of type double, expected i64");
}

TEST (WireTableSpec, shardsThatCannotBeAreRefused)
{
  EXPECT_EQ (spec_refusal (plus ({ i64 (7, -1) })), "spec.first_row: -1 is not in [0, 100]");
  EXPECT_EQ (spec_refusal (plus ({ i64 (7, 90), i64 (11, 11) })),
             "spec.shard_rows: 11 from row 90 on are not in [0, 100)");
  EXPECT_EQ (spec_refusal (plus ({ i64 (7, 90), i64 (11, -1) })),
             "spec.shard_rows is -1, expected >= 0");
  EXPECT_EQ (spec_refusal (plus ({ i64 (7, 0), i32 (9, 0), i32 (10, 2) })),
             "spec has first_row and shard_count, expected one of them");
  EXPECT_EQ (spec_refusal (plus ({ i32 (9, 2), i32 (10, 2) })),
             "spec.shard_index: 2 is not in [0, 2)");
  EXPECT_EQ (spec_refusal (plus ({ i32 (9, 0), i32 (10, 0) })),
             "spec.shard_count: 0, at least 1 is expected");
  EXPECT_EQ (spec_refusal (plus ({ i32 (9, 0), i32 (10, 3), i64 (11, 33) })),
             "spec.shard_rows is 33, but without first_row there are 34");
  EXPECT_EQ (spec_refusal (plus ({ i64 (11, 50) })),
             "spec.shard_rows is 50, but without first_row there are 100");
}

TEST (WireTableSpec, listsSayWhichTableIsWrong)
{
  g_autoptr (GError) error = nullptr;
  GArray *got = nullptr;
  TpsWireType type;
  WireMessage message (list_of (0, { plus ({}), without (spec_fields, 2) }));
  TpsReader *in = message.result (&type);

  EXPECT_FALSE (tps_list_tables_result_decode (in, type, &got, &error));
  EXPECT_STREQ (error->message, "tables[1].dim is missing");
  EXPECT_EQ (got, nullptr);
}

TEST (WireTableSpec, namesOfDroppedTablesComeAsTheyWent)
{
  g_autofree gchar *got = nullptr;
  WireMessage message ([] (TpsWriter *out) { tps_drop_table_arguments_encode (out, "emb"); });

  ASSERT_TRUE (tps_drop_table_arguments_decode (message.arguments (), &got, nullptr));
  EXPECT_STREQ (got, "emb");
  EXPECT_EQ (refusal ([] (TpsWriter *) {},
                      [] (TpsReader *in, GError **error) {
                        g_autofree gchar *table = nullptr;

                        return tps_drop_table_arguments_decode (in, &table, error);
                      }),
             "table is missing");
}

/* ---- lookup_bags ---------------------------------------------------------------------------- */

class Bags : public testing::TestWithParam<gint64>
{
protected:
  Bags ()
      : indices (counting_tensor (TPS_DTYPE_INT64, { GetParam () })),
        offsets (counting_tensor (TPS_DTYPE_INT64, { 3 })),
        weights (counting_tensor (TPS_DTYPE_FLOAT32, { GetParam () })),
        gradient (counting_tensor (TPS_DTYPE_FLOAT32, { 3, GetParam () }))
  {
  }

  ~Bags () override
  {
    for (TpsTensor *owned : { &indices, &offsets, &weights, &gradient })
      tps_tensor_clear (owned);
  }

  TpsBagQuery
  query (const char *table, TpsPooling pooling)
  {
    return { table, tps_tensor_view (&indices), tps_tensor_view (&offsets), pooling,
             pooling == TPS_POOLING_SUM ? tps_tensor_view (&weights) : TpsTensorView {} };
  }

  static void
  expect_equal_queries (const TpsBagQuery &a, const TpsBagQuery &b)
  {
    EXPECT_STREQ (a.table, b.table);
    EXPECT_EQ (a.pooling, b.pooling);
    expect_equal (a.indices, b.indices);
    expect_equal (a.offsets, b.offsets);
    expect_equal (a.weights, b.weights);
  }

  TpsTensor indices, offsets, weights, gradient;
};

TEST_P (Bags, queriesComeAsTheyWent)
{
  for (TpsProtocolKind protocol : protocols)
    for (guint n_queries : { 0u, 1u, 3u })
      {
        TpsBagQuery queries[] = { query ("a", TPS_POOLING_SUM), query ("b.1", TPS_POOLING_MEAN),
                                  query ("a", TPS_POOLING_MAX) };
        TpsLookupBagsArguments sent = { n_queries, queries, nullptr };
        g_auto (TpsLookupBagsArguments) got = {};
        WireMessage message (
            [&] (TpsWriter *out) { tps_lookup_bags_arguments_encode (out, &sent); }, protocol);

        ASSERT_TRUE (tps_lookup_bags_arguments_decode (message.arguments (), &got, nullptr));
        ASSERT_EQ (got.n_queries, n_queries);
        for (guint i = 0; i < n_queries; i++)
          expect_equal_queries (got.queries[i], queries[i]);
      }
}

TEST_P (Bags, gradientsComeAsTheyWent)
{
  for (TpsProtocolKind protocol : protocols)
    for (bool has_push : { false, true })
      {
        gchar client[] = "trainer.3";
        TpsBagGradient gradients[] = {
          { query ("a", TPS_POOLING_SUM), tps_tensor_view (&gradient) },
          { query ("b", TPS_POOLING_MAX), tps_tensor_view (&gradient) },
        };
        TpsApplyBagGradientsArguments sent = { 2, gradients, {}, nullptr };
        g_auto (TpsApplyBagGradientsArguments) got = {};

        if (has_push)
          sent.push = { client, 77 };
        WireMessage message (
            [&] (TpsWriter *out) { tps_apply_bag_gradients_arguments_encode (out, &sent); },
            protocol);
        ASSERT_TRUE (
            tps_apply_bag_gradients_arguments_decode (message.arguments (), &got, nullptr));
        ASSERT_EQ (got.n_gradients, 2u);
        for (guint i = 0; i < 2; i++)
          {
            expect_equal_queries (got.gradients[i].query, gradients[i].query);
            expect_equal (got.gradients[i].gradient, gradients[i].gradient);
          }
        EXPECT_STREQ (got.push.client, sent.push.client);
        EXPECT_EQ (got.push.sequence, sent.push.sequence);
      }
}

/* Small tensors are copied, those of 5,000 elements stay in the buffers that they were received into. */
INSTANTIATE_TEST_SUITE_P (Sizes, Bags, testing::Values (0, 1, 20, 5000));

TEST (WireLookupBags, largeTensorsAreNotCopied)
{
  g_auto (TpsTensor) large = counting_tensor (TPS_DTYPE_INT64, { 100000 });
  g_auto (TpsTensor) small = counting_tensor (TPS_DTYPE_INT64, { 1 });
  g_auto (TpsLookupBagsArguments) got = {};
  TpsBagQuery query = {
    "a", tps_tensor_view (&large), tps_tensor_view (&small), TPS_POOLING_MEAN, {}
  };
  TpsLookupBagsArguments sent = { 1, &query, nullptr };
  WireMessage message ([&] (TpsWriter *out) { tps_lookup_bags_arguments_encode (out, &sent); });
  TpsReader *in = message.arguments ();

  ASSERT_EQ (in->message->bodies->len, 1u);
  ASSERT_TRUE (tps_lookup_bags_arguments_decode (in, &got, nullptr));
  EXPECT_EQ (got.queries[0].indices.data,
             tps_buffer_get_data (g_array_index (in->message->bodies, TpsBody, 0).buffer));
}

/* table, indices, offsets, pooling */
const std::vector<Field> query_fields = { text (1, "emb"), tensor (2, TPS_DTYPE_INT64, { 3 }, 24),
                                          tensor (3, TPS_DTYPE_INT64, { 2 }, 16),
                                          i32 (4, TPS_POOLING_SUM) };

Write
whole (const std::vector<Field> &fields)
{
  return without (fields, fields.size ());
}

std::string
lookup_refusal (const Write &arguments)
{
  return refusal (arguments, [] (TpsReader *in, GError **error) {
    g_auto (TpsLookupBagsArguments) got = {};

    return tps_lookup_bags_arguments_decode (in, &got, error);
  });
}

/* The second of three queries is the bad one. */
std::string
query_refusal (const Write &fields)
{
  return lookup_refusal (list_of (1, { whole (query_fields), fields, whole (query_fields) }));
}

TEST (WireLookupBags, whatIsMissingIsNamed)
{
  const char *const names[] = { "table", "indices", "offsets", "pooling" };

  EXPECT_EQ (lookup_refusal ([] (TpsWriter *) {}), "queries is missing");
  EXPECT_EQ (query_refusal (whole (query_fields)), "");
  for (gsize i = 0; i < query_fields.size (); i++)
    EXPECT_EQ (query_refusal (without (query_fields, i)),
               "queries[1]." + std::string (names[i]) + " is missing");
}

TEST (WireLookupBags, whatIsWrongIsNamed)
{
  EXPECT_EQ (query_refusal (instead (query_fields, 0, text (1, ""))),
             "queries[1].table is not a name: 1 to 255 characters of A-Z a-z 0-9 _ . : / -");
  EXPECT_EQ (query_refusal (instead (query_fields, 1, tensor (2, TPS_DTYPE_INT32, { 3 }, 12))),
             "queries[1].indices is INT32 [3], expected INT64 [nnz]");
  EXPECT_EQ (query_refusal (instead (query_fields, 1, tensor (2, TPS_DTYPE_INT64, { 3, 1 }, 24))),
             "queries[1].indices is INT64 [3, 1], expected INT64 [nnz]");
  EXPECT_EQ (query_refusal (instead (query_fields, 1, tensor (2, TPS_DTYPE_INT64, { -3 }, 24))),
             "queries[1].indices: dimension 0 is negative: -3");
  EXPECT_EQ (query_refusal (instead (query_fields, 1, tensor (2, TPS_DTYPE_INT64, { 3 }, 23))),
             "queries[1].indices.data has 23 bytes, INT64 [3] needs 24");
  EXPECT_EQ (query_refusal (instead (query_fields, 2, tensor (3, TPS_DTYPE_FLOAT64, { 2 }, 16))),
             "queries[1].offsets is FLOAT64 [2], expected INT64 [bags]");
  EXPECT_EQ (query_refusal (instead (query_fields, 3, i32 (4, 0))),
             "queries[1].pooling is 0, which is no Pooling");
  EXPECT_EQ (query_refusal (instead (query_fields, 3, i32 (4, 4))),
             "queries[1].pooling is 4, which is no Pooling");
  EXPECT_EQ (query_refusal ([] (TpsWriter *out) {
               whole (query_fields) (out);
               put_struct (out, 5, tensor_fields (TPS_DTYPE_FLOAT64, { 3 }, 24));
             }),
             "queries[1].weights is FLOAT64 [3], expected FLOAT32 [nnz]");
  EXPECT_EQ (lookup_refusal (text (1, "q")), "queries is of type string, expected list");
  EXPECT_EQ (lookup_refusal ([] (TpsWriter *out) { put_i64s (out, 1, { 1 }); }),
             "queries is a list of i64, expected a list of struct");
}

TEST (WireLookupBags, resultsComeAsTheyWent)
{
  for (TpsProtocolKind protocol : protocols)
    for (guint n_tensors : { 0u, 2u })
      {
        TpsTensor tensors[] = { counting_tensor (TPS_DTYPE_FLOAT32, { 2, 3 }),
                                counting_tensor (TPS_DTYPE_FLOAT32, { 100, 64 }) };
        TpsTensorList sent = { n_tensors, tensors };
        g_auto (TpsTensorList) got = {};
        TpsWireType type;
        WireMessage message ([&] (TpsWriter *out) { tps_lookup_bags_result_encode (out, &sent); },
                             protocol);
        TpsReader *in = message.result (&type);

        ASSERT_TRUE (tps_lookup_bags_result_decode (in, type, &got, nullptr));
        ASSERT_EQ (got.n_tensors, n_tensors);
        for (guint i = 0; i < n_tensors; i++)
          expect_equal (tps_tensor_view (&got.tensors[i]), tps_tensor_view (&tensors[i]));
        for (TpsTensor &owned : tensors)
          tps_tensor_clear (&owned);
      }
}

TEST (WireLookupBags, resultsSayWhichOutputIsWrong)
{
  g_autoptr (GError) error = nullptr;
  TpsTensorList got = {};
  TpsWireType type;
  WireMessage message (
      list_of (0, { tensor_fields (1, { 2 }, 8), [] (TpsWriter *out) { put_i32 (out, 1, 1); } }));
  TpsReader *in = message.result (&type);

  EXPECT_FALSE (tps_lookup_bags_result_decode (in, type, &got, &error));
  EXPECT_STREQ (error->message, "outputs[1].shape is missing");
  EXPECT_EQ (got.tensors, nullptr);
}

/* ---- lookup_rows ---------------------------------------------------------------------------- */

TEST (WireLookupRows, comesAsItWent)
{
  for (TpsProtocolKind protocol : protocols)
    {
      gchar table[] = "emb";
      g_auto (TpsTensor) rows = counting_tensor (TPS_DTYPE_FLOAT16, { 5, 8 });
      g_auto (TpsTensor) got_rows = {};
      g_auto (TpsLookupRowsArguments) got = {};
      TpsLookupRowsArguments sent = { table, counting_tensor (TPS_DTYPE_INT64, { 5 }) };
      TpsWireType type;
      WireMessage call ([&] (TpsWriter *out) { tps_lookup_rows_arguments_encode (out, &sent); },
                        protocol);
      WireMessage reply ([&] (TpsWriter *out) { tps_lookup_rows_result_encode (out, &rows); },
                         protocol);

      ASSERT_TRUE (tps_lookup_rows_arguments_decode (call.arguments (), &got, nullptr));
      EXPECT_STREQ (got.table, "emb");
      expect_equal (tps_tensor_view (&got.indices), tps_tensor_view (&sent.indices));
      TpsReader *in = reply.result (&type);
      ASSERT_TRUE (tps_lookup_rows_result_decode (in, type, &got_rows, nullptr));
      expect_equal (tps_tensor_view (&got_rows), tps_tensor_view (&rows));
      tps_tensor_clear (&sent.indices);
    }
}

TEST (WireLookupRows, whatIsWrongIsNamed)
{
  const std::vector<Field> fields = { text (1, "emb"), tensor (2, TPS_DTYPE_INT64, { 1 }, 8) };
  auto refuse = [] (const Write &arguments) {
    return refusal (arguments, [] (TpsReader *in, GError **error) {
      g_auto (TpsLookupRowsArguments) got = {};

      return tps_lookup_rows_arguments_decode (in, &got, error);
    });
  };

  EXPECT_EQ (refuse (without (fields, 0)), "table is missing");
  EXPECT_EQ (refuse (without (fields, 1)), "indices is missing");
  EXPECT_EQ (refuse (instead (fields, 1, tensor (2, TPS_DTYPE_FLOAT32, { 2 }, 8))),
             "indices is FLOAT32 [2], expected INT64 [nnz]");
  EXPECT_EQ (refuse (instead (fields, 1, tensor (2, TPS_DTYPE_INT64, {}, 8))),
             "indices is INT64 [], expected INT64 [nnz]");
}

/* ---- apply_row_gradients -------------------------------------------------------------------- */

TEST (WireApplyRowGradients, comesAsItWent)
{
  for (TpsProtocolKind protocol : protocols)
    for (gint64 n_rows : { 0, 3, 3000 })
      {
        gchar table[] = "emb";
        gchar client[] = "c";
        TpsApplyRowGradientsArguments sent = {};
        g_auto (TpsApplyRowGradientsArguments) got = {};

        sent.table = table;
        sent.gradient.kind = TPS_GRADIENT_SPARSE;
        sent.gradient.rows = 9000;
        sent.gradient.indices = counting_tensor (TPS_DTYPE_INT64, { n_rows });
        sent.gradient.values = counting_tensor (TPS_DTYPE_BFLOAT16, { n_rows, 4 });
        sent.push = { client, -1 };
        WireMessage message (
            [&] (TpsWriter *out) { tps_apply_row_gradients_arguments_encode (out, &sent); },
            protocol);
        ASSERT_TRUE (
            tps_apply_row_gradients_arguments_decode (message.arguments (), &got, nullptr));
        EXPECT_STREQ (got.table, "emb");
        EXPECT_EQ (got.gradient.kind, TPS_GRADIENT_SPARSE);
        EXPECT_EQ (got.gradient.weight, 1);
        EXPECT_EQ (got.gradient.rows, 9000);
        expect_equal (tps_tensor_view (&got.gradient.indices),
                      tps_tensor_view (&sent.gradient.indices));
        expect_equal (tps_tensor_view (&got.gradient.values),
                      tps_tensor_view (&sent.gradient.values));
        EXPECT_STREQ (got.push.client, "c");
        EXPECT_EQ (got.push.sequence, -1);
        tps_gradient_clear (&sent.gradient);
      }
}

/* indices, values, shape */
const std::vector<Field> sparse_fields = { tensor (1, TPS_DTYPE_INT64, { 2 }, 16),
                                           tensor (2, TPS_DTYPE_FLOAT32, { 2, 4 }, 32),
                                           [] (TpsWriter *out) {
                                             put_i64s (out, 3, { 100, 4 });
                                           } };

const std::vector<Field> row_push_fields = { text (1, "emb"), structure (2, whole (sparse_fields)),
                                             structure (3, [] (TpsWriter *out) {
                                               put_string (out, 1, "c");
                                               put_i64 (out, 2, 1);
                                             }) };

std::string
row_push_refusal (const Write &arguments)
{
  return refusal (arguments, [] (TpsReader *in, GError **error) {
    g_auto (TpsApplyRowGradientsArguments) got = {};

    return tps_apply_row_gradients_arguments_decode (in, &got, error);
  });
}

std::string
sparse_refusal (const Write &fields)
{
  return row_push_refusal (instead (row_push_fields, 1, structure (2, fields)));
}

TEST (WireApplyRowGradients, whatIsMissingIsNamed)
{
  EXPECT_EQ (row_push_refusal (whole (row_push_fields)), "");
  EXPECT_EQ (row_push_refusal (without (row_push_fields, 0)), "table is missing");
  EXPECT_EQ (row_push_refusal (without (row_push_fields, 1)), "gradient is missing");
  EXPECT_EQ (row_push_refusal (without (row_push_fields, 2)), "");
  EXPECT_EQ (row_push_refusal (instead (row_push_fields, 2, structure (3, text (1, "c")))),
             "push.sequence is missing");
  EXPECT_EQ (row_push_refusal (instead (row_push_fields, 2, structure (3, i64 (2, 1)))),
             "push.client is missing");
  EXPECT_EQ (sparse_refusal (without (sparse_fields, 0)), "gradient.indices is missing");
  EXPECT_EQ (sparse_refusal (without (sparse_fields, 1)), "gradient.values is missing");
  EXPECT_EQ (sparse_refusal (without (sparse_fields, 2)), "gradient.shape is missing");
}

TEST (WireApplyRowGradients, whatIsWrongIsNamed)
{
  EXPECT_EQ (sparse_refusal (instead (sparse_fields, 0, tensor (1, TPS_DTYPE_INT32, { 2 }, 8))),
             "gradient.indices is INT32 [2], expected INT64 [nnz]");
  EXPECT_EQ (sparse_refusal (instead (sparse_fields, 0, tensor (1, TPS_DTYPE_INT64, { 1, 2 }, 16))),
             "gradient.indices is INT64 [1, 2], expected INT64 [nnz]");
  EXPECT_EQ (
      sparse_refusal (instead (sparse_fields, 1, tensor (2, TPS_DTYPE_FLOAT32, { 2, 5 }, 40))),
      "gradient has values FLOAT32 [2, 5], shape [100, 4] needs [nnz, 4]");
  EXPECT_EQ (sparse_refusal (
                 instead (sparse_fields, 2, [] (TpsWriter *out) { put_i64s (out, 3, { 100 }); })),
             "gradient.shape is not of the form [rows, dim], both >= 0");
}

/* ---- apply_bag_gradients -------------------------------------------------------------------- */

/* query, gradient */
const std::vector<Field> bag_gradient_fields = { structure (1, whole (query_fields)),
                                                 tensor (2, TPS_DTYPE_FLOAT32, { 2, 4 }, 32) };

std::string
bag_push_refusal (const Write &fields)
{
  return refusal (list_of (1, { fields }), [] (TpsReader *in, GError **error) {
    g_auto (TpsApplyBagGradientsArguments) got = {};

    return tps_apply_bag_gradients_arguments_decode (in, &got, error);
  });
}

TEST (WireApplyBagGradients, whatIsWrongIsNamed)
{
  EXPECT_EQ (bag_push_refusal (whole (bag_gradient_fields)), "");
  EXPECT_EQ (bag_push_refusal (without (bag_gradient_fields, 0)), "gradients[0].query is missing");
  EXPECT_EQ (bag_push_refusal (without (bag_gradient_fields, 1)),
             "gradients[0].gradient is missing");
  EXPECT_EQ (
      bag_push_refusal (instead (bag_gradient_fields, 0, structure (1, without (query_fields, 2)))),
      "gradients[0].query.offsets is missing");
  EXPECT_EQ (
      bag_push_refusal (instead (bag_gradient_fields, 1, tensor (2, TPS_DTYPE_FLOAT32, { 8 }, 32))),
      "gradients[0].gradient is FLOAT32 [8], expected FLOAT32 [bags, dim]");
  EXPECT_EQ (bag_push_refusal (
                 instead (bag_gradient_fields, 1, tensor (2, TPS_DTYPE_FLOAT16, { 2, 4 }, 16))),
             "gradients[0].gradient is FLOAT16 [2, 4], expected FLOAT32 [bags, dim]");
  EXPECT_EQ (refusal ([] (TpsWriter *) {},
                      [] (TpsReader *in, GError **error) {
                        g_auto (TpsApplyBagGradientsArguments) got = {};

                        return tps_apply_bag_gradients_arguments_decode (in, &got, error);
                      }),
             "gradients is missing");
}

} // namespace
} // namespace thriftps
