/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_tensor.h"

#include <cmath>

#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

std::string
tensor_refusal (const Write &fields)
{
  return refusal ([&] (TpsWriter *out) { put_struct (out, 1, fields); },
                  [] (TpsReader *in, GError **error) {
                    g_auto (TpsTensor) tensor = { {}, nullptr, 0 };
                    TpsFieldPath path = { nullptr, "tensor", 0 };
                    TpsWireType type;
                    gint16 id;

                    tps_reader_field (in, &id, &type);
                    return tps_struct_read (&tps_tensor_struct, in, &path, &tensor, error);
                  });
}

std::string
gradient_refusal (const Write &fields)
{
  return refusal (
      [&] (TpsWriter *out) {
        put_i32 (out, 1, 0);
        put_i64 (out, 2, 0);
        put_i32 (out, 3, 0);
        put_struct (out, 4, fields);
      },
      [] (TpsReader *in, GError **error) {
        g_auto (TpsAverageGradientArguments) arguments = {};

        return tps_rpc_read_arguments (&tps_average_gradient_rpc, in, &arguments, error);
      });
}

void
expect_equal (const TpsTensor &a, const TpsTensor &b)
{
  ASSERT_TRUE (tps_shape_equal (&a.shape, &b.shape));
  if (tps_shape_n_bytes (&a.shape) == 0)
    return;
  EXPECT_EQ (memcmp (tps_tensor_data (&a), tps_tensor_data (&b), tps_shape_n_bytes (&a.shape)), 0);
}

TEST (WireTensor, tensorsComeAsTheyWent)
{
  const std::vector<gint64> shapes[] = { {},          { 0 },       { 3 },
                                         { 2, 0, 5 }, { 30, 100 }, { 1, 1, 1, 1, 1, 1, 1, 2 } };

  for (TpsProtocolKind protocol : { TPS_PROTOCOL_BINARY, TPS_PROTOCOL_COMPACT })
    for (int dtype = TPS_DTYPE_FLOAT32; dtype <= TPS_DTYPE_INT64; dtype++)
      for (const auto &shape : shapes)
        for (bool borrowed : { false, true })
          {
            g_auto (TpsTensor) sent = counting_tensor (static_cast<TpsDType> (dtype), shape);
            g_auto (TpsTensor) got = {};
            g_autoptr (GError) error = nullptr;
            TpsWireType type;
            WireMessage message (
                [&] (TpsWriter *out) {
                  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
                  if (borrowed)
                    tps_tensor_encode_borrowed (out, tps_tensor_view (&sent));
                  else
                    tps_struct_write (&tps_tensor_struct, out, &sent);
                },
                protocol);

            ASSERT_TRUE (tps_struct_read (&tps_tensor_struct, message.result (&type), nullptr, &got,
                                          &error));
            expect_equal (got, sent);
            EXPECT_EQ (reinterpret_cast<guintptr> (tps_tensor_data (&got)) % TPS_BUFFER_ALIGNMENT,
                       0u);
          }
}

TEST (WireTensor, aPartOfABufferIsSentFromThere)
{
  g_auto (TpsTensor) whole = counting_tensor (TPS_DTYPE_FLOAT32, { 4000 });
  g_auto (TpsTensor) got = {};
  TpsTensor part = {};
  TpsWireType type;

  part.shape = { TPS_DTYPE_FLOAT32, 1, { 2000 } };
  part.buffer = whole.buffer;
  part.offset = 4000;
  WireMessage message ([&] (TpsWriter *out) {
    tps_writer_field (out, 0, TPS_WIRE_STRUCT);
    tps_struct_write (&tps_tensor_struct, out, &part);
  });
  ASSERT_TRUE (
      tps_struct_read (&tps_tensor_struct, message.result (&type), nullptr, &got, nullptr));
  expect_equal (got, part);
}

/* The buffer that received the body must become the tensor. */
TEST (WireTensor, aLargeTensorIsNotCopied)
{
  g_auto (TpsTensor) sent = counting_tensor (TPS_DTYPE_FLOAT64, { 1000 });
  g_auto (TpsTensor) got = {};
  TpsWireType type;
  WireMessage message ([&] (TpsWriter *out) {
    tps_writer_field (out, 0, TPS_WIRE_STRUCT);
    tps_struct_write (&tps_tensor_struct, out, &sent);
  });
  TpsReader *in = message.result (&type);

  ASSERT_TRUE (tps_struct_read (&tps_tensor_struct, in, nullptr, &got, nullptr));
  EXPECT_EQ (got.buffer, in->message->bodies[0].buffer);
}

TEST (WireTensor, dataMayBeMissingWhereThereAreNoElements)
{
  auto no_data = [] (std::vector<gint64> shape) {
    return [shape] (TpsWriter *out) {
      put_i32 (out, 1, TPS_DTYPE_FLOAT32);
      put_i64s (out, 2, shape);
    };
  };

  EXPECT_EQ (tensor_refusal (no_data ({ 4, 0 })), "");
  EXPECT_EQ (tensor_refusal (no_data ({ 2, 2 })),
             "tensor.data is missing, FLOAT32 [2, 2] needs 16 bytes");
  EXPECT_EQ (tensor_refusal (no_data ({})), "tensor.data is missing, FLOAT32 [] needs 4 bytes");
}

TEST (WireTensor, bytesThatDoNotMatchTheShape)
{
  EXPECT_EQ (tensor_refusal (tensor_fields (TPS_DTYPE_FLOAT32, { 2, 2 }, 12)),
             "tensor.data has 12 bytes, FLOAT32 [2, 2] needs 16");
  EXPECT_EQ (tensor_refusal (tensor_fields (TPS_DTYPE_INT64, { 600 }, 4801)),
             "tensor.data has 4801 bytes, INT64 [600] needs 4800");
  EXPECT_EQ (tensor_refusal (tensor_fields (TPS_DTYPE_FLOAT16, { 0 }, 2)),
             "tensor.data has 2 bytes, FLOAT16 [0] needs 0");
}

TEST (WireTensor, shapesThatAreNone)
{
  EXPECT_EQ (tensor_refusal (tensor_fields (TPS_DTYPE_FLOAT32, { 2, -1 }, 0)),
             "tensor: dimension 1 is negative: -1");
  EXPECT_EQ (tensor_refusal (tensor_fields (TPS_DTYPE_FLOAT32, { G_MAXINT64, 2 }, 0)),
             "tensor: the shape overflows");
  EXPECT_EQ (tensor_refusal (tensor_fields (TPS_DTYPE_FLOAT32, { G_MAXINT64, 0, 2 }, 0)),
             "tensor: the shape overflows");
  EXPECT_EQ (tensor_refusal (tensor_fields (TPS_DTYPE_FLOAT32, std::vector<gint64> (9, 1), 4)),
             "tensor.shape has 9 dimensions, at most 8 are allowed");
  EXPECT_EQ (tensor_refusal ([] (TpsWriter *out) {
               put_i32 (out, 1, 1);
               tps_writer_field (out, 2, TPS_WIRE_LIST);
               tps_writer_list_begin (out, TPS_WIRE_I32, 1);
               tps_writer_i32 (out, 1);
             }),
             "tensor.shape is a list of i32, expected a list of i64");
}

TEST (WireTensor, anUnknownDType)
{
  EXPECT_EQ (tensor_refusal (tensor_fields (77, { 1 }, 4)), "tensor: unknown dtype 77");
  EXPECT_EQ (tensor_refusal (tensor_fields (0, { 1 }, 4)), "tensor: unknown dtype 0");
  EXPECT_EQ (tensor_refusal (tensor_fields (-1, { 1 }, 4)), "tensor: unknown dtype -1");
}

TEST (WireTensor, missingFields)
{
  EXPECT_EQ (tensor_refusal ([] (TpsWriter *out) { put_i32 (out, 1, 1); }),
             "tensor.shape is missing");
  EXPECT_EQ (tensor_refusal ([] (TpsWriter *out) { put_i64s (out, 2, {}); }),
             "tensor.dtype is missing");
}

TEST (WireTensor, fieldsOfAnotherType)
{
  EXPECT_EQ (tensor_refusal ([] (TpsWriter *out) { put_i64 (out, 1, 1); }),
             "tensor.dtype is of type i64, expected i32");
  EXPECT_EQ (tensor_refusal ([] (TpsWriter *out) { put_string (out, 2, "2x2"); }),
             "tensor.shape is of type string, expected list");
}

TEST (WireTensor, sharedMemoryIsNotOffered)
{
  EXPECT_EQ (tensor_refusal ([] (TpsWriter *out) {
               put_i32 (out, 1, 1);
               put_i64s (out, 2, { 1 });
               put_struct (out, 4, [] (TpsWriter *) {});
             }),
             "tensor.shared is set, but this message has no shared memory: none is open on its "
             "connection, or it came in chunks");
}

TEST (WireTensor, fieldsOfANewerPeerAreSkipped)
{
  EXPECT_EQ (tensor_refusal ([] (TpsWriter *out) {
               put_struct (out, 99, tensor_fields (1, { 2000 }, 8000));
               tensor_fields (TPS_DTYPE_INT32, { 2000 }, 8000) (out);
               put_string (out, 100, std::string (10000, 'x'));
             }),
             "");
}

/* ---- gradients ------------------------------------------------------------------------------ */

void
round_trip (const TpsGradient &sent, TpsGradient *got, TpsProtocolKind protocol)
{
  g_autoptr (GError) error = nullptr;
  TpsWireType type;
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_average_gradient_rpc, out, &sent); },
      protocol);
  TpsReader *in = message.result (&type);

  ASSERT_TRUE (tps_rpc_read_result (&tps_average_gradient_rpc, in, type, got, &error))
      << error->message;
  EXPECT_EQ (got->kind, sent.kind);
  EXPECT_EQ (got->weight, sent.weight);
}

TEST (WireGradient, gradientsComeAsTheyWent)
{
  for (TpsProtocolKind protocol : { TPS_PROTOCOL_BINARY, TPS_PROTOCOL_COMPACT })
    for (gint64 n : { 0, 5, 3000 })
      {
        g_auto (TpsGradient) dense = {}, sparse = {}, none = {}, got_dense = {}, got_sparse = {},
                             got_none = {};

        dense.kind = TPS_GRADIENT_DENSE;
        dense.weight = 0.5;
        dense.dense = counting_tensor (TPS_DTYPE_FLOAT32, { n, 4 });
        round_trip (dense, &got_dense, protocol);
        expect_equal (got_dense.dense, dense.dense);

        sparse.kind = TPS_GRADIENT_SPARSE;
        sparse.weight = 3;
        sparse.indices = counting_tensor (TPS_DTYPE_INT64, { n });
        sparse.values = counting_tensor (TPS_DTYPE_BFLOAT16, { n, 4 });
        sparse.rows = 1000;
        round_trip (sparse, &got_sparse, protocol);
        expect_equal (got_sparse.indices, sparse.indices);
        expect_equal (got_sparse.values, sparse.values);
        EXPECT_EQ (got_sparse.rows, 1000);

        round_trip (none, &got_none, protocol);
      }
}

TEST (WireGradient, anAbsentWeightIsOne)
{
  g_auto (TpsAverageGradientArguments) got = {};
  WireMessage message ([] (TpsWriter *out) {
    put_i32 (out, 1, 3);
    put_i64 (out, 2, 4);
    put_i32 (out, 3, 5);
    put_struct (out, 4, [] (TpsWriter *inner) {
      put_struct (inner, 1, tensor_fields (TPS_DTYPE_FLOAT32, { 2 }, 8));
    });
  });

  ASSERT_TRUE (
      tps_rpc_read_arguments (&tps_average_gradient_rpc, message.arguments (), &got, nullptr));
  EXPECT_EQ (got.trainer, 3);
  EXPECT_EQ (got.batch, 4);
  EXPECT_EQ (got.param_loc, 5);
  EXPECT_EQ (got.gradient.weight, 1);
}

TEST (WireGradient, argumentsComeAsTheyWent)
{
  g_auto (TpsAverageGradientArguments) sent = {}, got = {};

  sent.trainer = 7;
  sent.batch = G_GINT64_CONSTANT (1) << 40;
  sent.param_loc = 2;
  sent.gradient.kind = TPS_GRADIENT_DENSE;
  sent.gradient.weight = 1;
  sent.gradient.dense = counting_tensor (TPS_DTYPE_FLOAT32, { 5000 });
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_average_gradient_rpc, out, &sent); });
  ASSERT_TRUE (
      tps_rpc_read_arguments (&tps_average_gradient_rpc, message.arguments (), &got, nullptr));
  EXPECT_EQ (got.trainer, sent.trainer);
  EXPECT_EQ (got.batch, sent.batch);
  EXPECT_EQ (got.param_loc, sent.param_loc);
  expect_equal (got.gradient.dense, sent.gradient.dense);
}

TEST (WireGradient, bothDenseAndSparse)
{
  Write dense = tensor_fields (TPS_DTYPE_FLOAT32, { 1, 1 }, 4);
  auto both = [&] (TpsWriter *out) {
    put_struct (out, 1, dense);
    put_struct (out, 2, [&] (TpsWriter *sparse) {
      put_struct (sparse, 1, tensor_fields (TPS_DTYPE_INT64, { 1 }, 8));
      put_struct (sparse, 2, dense);
      put_i64s (sparse, 3, { 10, 1 });
    });
  };

  EXPECT_EQ (gradient_refusal (both), "gradient is both dense and sparse, expected one of them");
}

TEST (WireGradient, errorsNameTheWholePath)
{
  EXPECT_EQ (gradient_refusal ([] (TpsWriter *out) {
               put_struct (out, 1, tensor_fields (TPS_DTYPE_FLOAT32, { 2, 2 }, 12));
             }),
             "gradient.dense.data has 12 bytes, FLOAT32 [2, 2] needs 16");
  EXPECT_EQ (gradient_refusal ([] (TpsWriter *out) { put_struct (out, 2, [] (TpsWriter *) {}); }),
             "gradient.sparse.indices is missing");
  EXPECT_EQ (gradient_refusal ([] (TpsWriter *out) { put_i32 (out, 3, 1); }),
             "gradient.weight is of type i32, expected double");
}

TEST (WireGradient, sparseShapesThatDoNotFit)
{
  auto sparse = [] (std::vector<gint64> values, std::vector<gint64> shape) {
    return gradient_refusal ([=] (TpsWriter *out) {
      put_struct (out, 2, [=] (TpsWriter *inner) {
        gint64 n_bytes = 4;

        for (gint64 dim : values)
          n_bytes *= dim;
        put_struct (inner, 1, tensor_fields (TPS_DTYPE_INT64, { 2 }, 16));
        put_struct (inner, 2,
                    tensor_fields (TPS_DTYPE_FLOAT32, values, static_cast<gsize> (n_bytes)));
        put_i64s (inner, 3, shape);
      });
    });
  };

  EXPECT_EQ (sparse ({ 2, 4 }, { 10, 4 }), "");
  EXPECT_EQ (sparse ({ 2, 3 }, { 10, 4 }),
             "gradient.sparse has values FLOAT32 [2, 3], shape [10, 4] needs [nnz, 4]");
  EXPECT_EQ (sparse ({ 8 }, { 10, 4 }),
             "gradient.sparse has values FLOAT32 [8], shape [10, 4] needs [nnz, 4]");
  EXPECT_EQ (sparse ({ 2, 4 }, { 10 }),
             "gradient.sparse.shape is not of the form [rows, dim], both >= 0");
  EXPECT_EQ (sparse ({ 2, 4 }, { -1, 4 }),
             "gradient.sparse.shape is not of the form [rows, dim], both >= 0");
}

TEST (WireGradient, missingArguments)
{
  auto decode = [] (TpsReader *in, GError **error) {
    g_auto (TpsAverageGradientArguments) arguments = {};

    return tps_rpc_read_arguments (&tps_average_gradient_rpc, in, &arguments, error);
  };
  auto some = [] (guint n) {
    return [n] (TpsWriter *out) {
      if (n > 0)
        put_i32 (out, 1, 0);
      if (n > 1)
        put_i64 (out, 2, 0);
      if (n > 2)
        put_i32 (out, 3, 0);
    };
  };

  EXPECT_EQ (refusal (some (0), decode), "trainer is missing");
  EXPECT_EQ (refusal (some (1), decode), "batch is missing");
  EXPECT_EQ (refusal (some (2), decode), "param_loc is missing");
  EXPECT_EQ (refusal (some (3), decode), "gradient is missing");
  EXPECT_EQ (refusal ([] (TpsWriter *out) { put_i64 (out, 1, 0); }, decode),
             "trainer is of type i64, expected i32");
}

TEST (WireGradient, aResultThatIsNone)
{
  g_auto (TpsGradient) gradient = {};
  g_autoptr (GError) missing = nullptr;
  g_autoptr (GError) other = nullptr;
  WireMessage message ([] (TpsWriter *) {});
  TpsWireType type;
  TpsReader *in = message.result (&type);

  EXPECT_FALSE (tps_rpc_read_result (&tps_average_gradient_rpc, in, type, &gradient, &missing));
  EXPECT_STREQ (missing->message, "average is missing");
  EXPECT_FALSE (
      tps_rpc_read_result (&tps_average_gradient_rpc, in, TPS_WIRE_LIST, &gradient, &other));
  EXPECT_STREQ (other->message, "average is of type list, expected struct");
}

/* ---- push ids, optimizers, names ------------------------------------------------------------ */

TEST (WireTensor, pushIdsComeAsTheyWent)
{
  g_auto (TpsPushId) got = {};
  TpsPushId sent = { const_cast<gchar *> ("trainer/3"), -5 };
  TpsWireType type;
  WireMessage message ([&] (TpsWriter *out) {
    tps_writer_field (out, 0, TPS_WIRE_STRUCT);
    tps_struct_write (&tps_push_id_struct, out, &sent);
  });

  ASSERT_TRUE (
      tps_struct_read (&tps_push_id_struct, message.result (&type), nullptr, &got, nullptr));
  EXPECT_STREQ (got.client, "trainer/3");
  EXPECT_EQ (got.sequence, -5);
}

TEST (WireTensor, optimizersComeAsTheyWent)
{
  TpsOptimizerSpec sent = { TPS_OPTIMIZER_ADAM, 0.1, NAN, 0.01, NAN, 0.9, 0.999, NAN, NAN, NAN };
  TpsOptimizerSpec got = {};
  TpsWireType type;
  WireMessage message ([&] (TpsWriter *out) {
    tps_writer_field (out, 0, TPS_WIRE_STRUCT);
    tps_struct_write (&tps_optimizer_struct, out, &sent);
  });

  ASSERT_TRUE (
      tps_struct_read (&tps_optimizer_struct, message.result (&type), nullptr, &got, nullptr));
  EXPECT_EQ (got.kind, TPS_OPTIMIZER_ADAM);
  EXPECT_EQ (got.learning_rate, 0.1);
  EXPECT_EQ (got.beta2, 0.999);
  EXPECT_TRUE (std::isnan (got.momentum) && std::isnan (got.l1) && std::isnan (got.beta));
}

TEST (WireTensor, optimizersThatAreNone)
{
  auto optimizer = [] (gint32 kind, gdouble learning_rate) {
    return refusal (
        [=] (TpsWriter *out) {
          put_struct (out, 1, [=] (TpsWriter *inner) {
            put_i32 (inner, 1, kind);
            if (learning_rate > 0)
              put_double (inner, 2, learning_rate);
          });
        },
        [] (TpsReader *in, GError **error) {
          TpsFieldPath path = { nullptr, "optimizer", 0 };
          TpsOptimizerSpec spec = {};
          TpsWireType type;
          gint16 id;

          tps_reader_field (in, &id, &type);
          return tps_struct_read (&tps_optimizer_struct, in, &path, &spec, error);
        });
  };

  EXPECT_EQ (optimizer (1, 0.5), "");
  EXPECT_EQ (optimizer (99, 0.5), "optimizer.kind is 99, which is not a valid OptimizerKind");
  EXPECT_EQ (optimizer (1, -1), "optimizer.learning_rate is missing");
  EXPECT_EQ (optimizer (1, INFINITY), "optimizer.learning_rate is inf, expected a finite number");
}

TEST (Names, areLettersDigitsAndAFewSigns)
{
  EXPECT_TRUE (tps_name_is_valid ("aZ09_.:/-", 9));
  EXPECT_TRUE (tps_name_is_valid (std::string (255, 'x').c_str (), 255));
  EXPECT_FALSE (tps_name_is_valid (std::string (256, 'x').c_str (), 256));
  EXPECT_FALSE (tps_name_is_valid ("", 0));
  EXPECT_FALSE (tps_name_is_valid (nullptr, 0));
  EXPECT_FALSE (tps_name_is_valid ("a\0b", 3));
  EXPECT_FALSE (tps_name_is_valid ("a b", 3));
  EXPECT_FALSE (tps_name_is_valid ("\xc3\xa9", 2));
  EXPECT_FALSE (tps_name_is_valid ("a\n", 2));
}

} // namespace
} // namespace thriftps
