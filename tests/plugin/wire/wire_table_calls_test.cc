/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_embedding_table.h"

#include "tests/plugin/wire/wire_fields.h"

namespace thriftps {
namespace {

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
            [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_lookup_bags_rpc, out, &sent); },
            protocol);

        ASSERT_TRUE (
            tps_rpc_read_arguments (&tps_lookup_bags_rpc, message.arguments (), &got, nullptr));
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
            [&] (TpsWriter *out) {
              tps_rpc_write_arguments (&tps_apply_bag_gradients_rpc, out, &sent);
            },
            protocol);
        ASSERT_TRUE (tps_rpc_read_arguments (&tps_apply_bag_gradients_rpc, message.arguments (),
                                             &got, nullptr));
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

/* Small tensors are copied. Tensors of 5,000 elements stay in the buffers that received them. */
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
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_lookup_bags_rpc, out, &sent); });
  TpsReader *in = message.arguments ();

  ASSERT_EQ (in->message->n_bodies, 1u);
  ASSERT_TRUE (tps_rpc_read_arguments (&tps_lookup_bags_rpc, in, &got, nullptr));
  EXPECT_EQ (got.queries[0].indices.data, tps_buffer_get_data (in->message->bodies[0].buffer));
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

    return tps_rpc_read_arguments (&tps_lookup_bags_rpc, in, &got, error);
  });
}

/* Returns the error message for a list of three queries, of which the second has the fields
 * `fields`. */
std::string
query_refusal (const Write &fields)
{
  return lookup_refusal (list_of (1, { whole (query_fields), fields, whole (query_fields) }));
}

TEST (WireLookupBags, missingFieldsAreNamed)
{
  const char *const names[] = { "table", "indices", "offsets", "pooling" };

  EXPECT_EQ (lookup_refusal ([] (TpsWriter *) {}), "queries is missing");
  EXPECT_EQ (query_refusal (whole (query_fields)), "");
  for (gsize i = 0; i < query_fields.size (); i++)
    EXPECT_EQ (query_refusal (without (query_fields, i)),
               "queries[1]." + std::string (names[i]) + " is missing");
}

TEST (WireLookupBags, badFieldsAreNamed)
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
             "queries[1].pooling is 0, which is not a valid Pooling");
  EXPECT_EQ (query_refusal (instead (query_fields, 3, i32 (4, 4))),
             "queries[1].pooling is 4, which is not a valid Pooling");
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
        WireMessage message (
            [&] (TpsWriter *out) { tps_rpc_write_result (&tps_lookup_bags_rpc, out, &sent); },
            protocol);
        TpsReader *in = message.result (&type);

        ASSERT_TRUE (tps_rpc_read_result (&tps_lookup_bags_rpc, in, type, &got, nullptr));
        ASSERT_EQ (got.n_tensors, n_tensors);
        for (guint i = 0; i < n_tensors; i++)
          expect_equal (tps_tensor_view (&got.tensors[i]), tps_tensor_view (&tensors[i]));
        for (TpsTensor &owned : tensors)
          tps_tensor_clear (&owned);
      }
}

TEST (WireLookupBags, resultsNameTheBadOutput)
{
  g_autoptr (GError) error = nullptr;
  g_auto (TpsTensorList) got = {};
  TpsWireType type;
  WireMessage message (
      list_of (0, { tensor_fields (1, { 2 }, 8), [] (TpsWriter *out) { put_i32 (out, 1, 1); } }));
  TpsReader *in = message.result (&type);

  EXPECT_FALSE (tps_rpc_read_result (&tps_lookup_bags_rpc, in, type, &got, &error));
  EXPECT_STREQ (error->message, "outputs[1].shape is missing");
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
      WireMessage call (
          [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_lookup_rows_rpc, out, &sent); },
          protocol);
      WireMessage reply (
          [&] (TpsWriter *out) { tps_rpc_write_result (&tps_lookup_rows_rpc, out, &rows); },
          protocol);

      ASSERT_TRUE (tps_rpc_read_arguments (&tps_lookup_rows_rpc, call.arguments (), &got, nullptr));
      EXPECT_STREQ (got.table, "emb");
      expect_equal (tps_tensor_view (&got.indices), tps_tensor_view (&sent.indices));
      TpsReader *in = reply.result (&type);
      ASSERT_TRUE (tps_rpc_read_result (&tps_lookup_rows_rpc, in, type, &got_rows, nullptr));
      expect_equal (tps_tensor_view (&got_rows), tps_tensor_view (&rows));
      tps_tensor_clear (&sent.indices);
    }
}

TEST (WireLookupRows, badFieldsAreNamed)
{
  const std::vector<Field> fields = { text (1, "emb"), tensor (2, TPS_DTYPE_INT64, { 1 }, 8) };
  auto refuse = [] (const Write &arguments) {
    return refusal (arguments, [] (TpsReader *in, GError **error) {
      g_auto (TpsLookupRowsArguments) got = {};

      return tps_rpc_read_arguments (&tps_lookup_rows_rpc, in, &got, error);
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
            [&] (TpsWriter *out) {
              tps_rpc_write_arguments (&tps_apply_row_gradients_rpc, out, &sent);
            },
            protocol);
        ASSERT_TRUE (tps_rpc_read_arguments (&tps_apply_row_gradients_rpc, message.arguments (),
                                             &got, nullptr));
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

    return tps_rpc_read_arguments (&tps_apply_row_gradients_rpc, in, &got, error);
  });
}

std::string
sparse_refusal (const Write &fields)
{
  return row_push_refusal (instead (row_push_fields, 1, structure (2, fields)));
}

TEST (WireApplyRowGradients, missingFieldsAreNamed)
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

TEST (WireApplyRowGradients, badFieldsAreNamed)
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

    return tps_rpc_read_arguments (&tps_apply_bag_gradients_rpc, in, &got, error);
  });
}

TEST (WireApplyBagGradients, badFieldsAreNamed)
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

                        return tps_rpc_read_arguments (&tps_apply_bag_gradients_rpc, in, &got,
                                                       error);
                      }),
             "gradients is missing");
}

} // namespace
} // namespace thriftps
