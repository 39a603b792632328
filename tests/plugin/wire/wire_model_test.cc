/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the arguments and results of init_model, get_model and update_and_fetch_model. */

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "plugin/wire/wire_parameter_server.h"
#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

using testing::HasSubstr;

/* Returns the FLOAT32 vector 0, 1, …, n - 1. */
TpsTensor
counting (gint64 n)
{
  TpsTensor tensor = {};

  tps_tensor_init_1d (&tensor, TPS_DTYPE_FLOAT32, n);
  for (gint64 i = 0; i < n; i++)
    static_cast<float *> (tps_tensor_data (&tensor))[i] = static_cast<float> (i);
  return tensor;
}

void
expect_counting (const TpsTensor &tensor, gint64 n)
{
  ASSERT_EQ (tps_shape_n_elems (&tensor.shape), n);
  for (gint64 i = 0; i < n; i++)
    ASSERT_EQ (static_cast<float *> (tps_tensor_data (&tensor))[i], static_cast<float> (i));
}

std::string
init_refusal (const Write &write)
{
  return refusal (write, [] (TpsReader *in, GError **error) {
    g_auto (TpsInitModelArguments) arguments = {};

    return tps_rpc_read_arguments (&tps_init_model_rpc, in, &arguments, error);
  });
}

std::string
update_refusal (const Write &write)
{
  return refusal (write, [] (TpsReader *in, GError **error) {
    g_auto (TpsUpdateModelArguments) arguments = {};

    return tps_rpc_read_arguments (&tps_update_and_fetch_model_rpc, in, &arguments, error);
  });
}

void
put_structs (TpsWriter *out, gint16 id, const std::vector<Write> &elems)
{
  tps_writer_field (out, id, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, static_cast<guint32> (elems.size ()));
  for (const Write &write : elems)
    {
      tps_writer_struct_begin (out);
      write (out);
      tps_writer_struct_end (out);
    }
}

Write
named_fields (const std::string &name, const Write &tensor)
{
  return [=] (TpsWriter *out) {
    put_string (out, 1, name);
    put_struct (out, 2, tensor);
  };
}

void
put_sgd (TpsWriter *out)
{
  put_struct (out, 2, [] (TpsWriter *to) {
    put_i32 (to, 1, TPS_OPTIMIZER_SGD);
    put_double (to, 2, 0.1);
  });
}

TEST (WireModel, initModelComesAsItWent)
{
  for (gint64 n : { 0, 3, 5000 })
    {
      g_auto (TpsInitModelArguments) sent = {}, got = {};

      sent.n_parameters = 2;
      sent.parameters = g_new0 (TpsNamedTensor, 2);
      for (guint i = 0; i < 2; i++)
        {
          sent.parameters[i].name = g_strdup_printf ("layer.%u", i);
          sent.parameters[i].tensor = counting (n + i);
        }
      sent.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.5);
      sent.optimizer.momentum = 0.9;
      WireMessage message (
          [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_init_model_rpc, out, &sent); });
      ASSERT_TRUE (
          tps_rpc_read_arguments (&tps_init_model_rpc, message.arguments (), &got, nullptr));
      ASSERT_EQ (got.n_parameters, 2u);
      EXPECT_STREQ (got.parameters[1].name, "layer.1");
      expect_counting (got.parameters[0].tensor, n);
      expect_counting (got.parameters[1].tensor, n + 1);
      EXPECT_EQ (got.optimizer.kind, TPS_OPTIMIZER_SGD);
      EXPECT_EQ (got.optimizer.momentum, 0.9);
      EXPECT_TRUE (std::isnan (got.optimizer.weight_decay));
    }
}

TEST (WireModel, updateComesAsItWentWithAndWithoutPushId)
{
  for (const char *client : { static_cast<const char *> (nullptr), "trainer7" })
    {
      g_auto (TpsUpdateModelArguments) sent = {}, got = {};

      sent.trainer = 7;
      sent.version = 1 << 20;
      sent.gradients.n_tensors = 1;
      sent.gradients.tensors = g_new0 (TpsTensor, 1);
      sent.gradients.tensors[0] = counting (2000);
      sent.push.client = g_strdup (client);
      sent.push.sequence = 12;
      WireMessage message ([&] (TpsWriter *out) {
        tps_rpc_write_arguments (&tps_update_and_fetch_model_rpc, out, &sent);
      });
      ASSERT_TRUE (tps_rpc_read_arguments (&tps_update_and_fetch_model_rpc, message.arguments (),
                                           &got, nullptr));
      EXPECT_EQ (got.trainer, 7);
      EXPECT_EQ (got.version, 1 << 20);
      ASSERT_EQ (got.gradients.n_tensors, 1u);
      expect_counting (got.gradients.tensors[0], 2000);
      EXPECT_STREQ (got.push.client, client);
      EXPECT_EQ (got.push.sequence, client != nullptr ? 12 : 0);
    }
}

TEST (WireModel, theVersionMayBeAbsent)
{
  g_auto (TpsUpdateModelArguments) got = {};
  WireMessage message ([] (TpsWriter *out) {
    put_i32 (out, 1, 0);
    put_structs (out, 2, {});
  });

  ASSERT_TRUE (tps_rpc_read_arguments (&tps_update_and_fetch_model_rpc, message.arguments (), &got,
                                       nullptr));
  EXPECT_EQ (got.version, 0);
  EXPECT_EQ (got.gradients.n_tensors, 0u);
  EXPECT_EQ (got.push.client, nullptr);
}

TEST (WireModel, aModelComesAsItWent)
{
  g_autoptr (TpsModelVersion) sent = tps_model_version_new (9, 2);
  g_autoptr (TpsModelVersion) got = nullptr;
  TpsWireType type;

  for (guint i = 0; i < 2; i++)
    {
      sent->parameters[i].name = g_strdup (i == 0 ? "weight" : "bias");
      sent->parameters[i].tensor = counting (i == 0 ? 3000 : 30);
    }
  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_result (&tps_get_model_rpc, out, &sent); });
  TpsReader *in = message.result (&type);
  ASSERT_TRUE (tps_rpc_read_result (&tps_get_model_rpc, in, type, &got, nullptr));
  EXPECT_EQ (got->version, 9);
  ASSERT_EQ (got->n_parameters, 2u);
  EXPECT_STREQ (got->parameters[1].name, "bias");
  expect_counting (got->parameters[0].tensor, 3000);
}

TEST (WireModel, aModelGoesOutFromWhereItLies)
{
  g_autoptr (TpsModelVersion) model = tps_model_version_new (1, 1);
  g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  const struct iovec *pieces;
  bool lies_there = false;
  guint n_pieces;
  gsize n_bytes;

  model->parameters[0].name = g_strdup ("w");
  model->parameters[0].tensor = counting (100000);
  tps_writer_message_begin (out, "m", TPS_MESSAGE_REPLY, 1);
  tps_writer_struct_begin (out);
  tps_rpc_write_result (&tps_get_model_rpc, out, &model);
  tps_writer_struct_end (out);
  ASSERT_TRUE (tps_writer_message_end (out, nullptr));
  pieces = tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  for (guint i = 0; i < n_pieces; i++)
    lies_there |= pieces[i].iov_base == tps_tensor_data (&model->parameters[0].tensor);
  EXPECT_TRUE (lies_there);
}

TEST (WireModel, badFieldsOfInitModelAreNamed)
{
  Write fine = named_fields ("w", tensor_fields (1, { 1 }, 4));

  EXPECT_THAT (init_refusal (put_sgd), HasSubstr ("parameters is missing"));
  EXPECT_THAT (init_refusal ([&] (TpsWriter *out) { put_structs (out, 1, { fine }); }),
               HasSubstr ("optimizer is missing"));
  EXPECT_THAT (init_refusal ([&] (TpsWriter *out) {
                 put_structs (out, 1, { fine, named_fields ("a b", tensor_fields (1, { 1 }, 4)) });
                 put_sgd (out);
               }),
               HasSubstr ("parameters[1].name is not a name"));
  EXPECT_THAT (init_refusal ([&] (TpsWriter *out) {
                 put_structs (out, 1, { named_fields ("w", tensor_fields (1, { 2 }, 4)) });
                 put_sgd (out);
               }),
               HasSubstr ("parameters[0].tensor.data has 4 bytes"));
  EXPECT_THAT (init_refusal ([&] (TpsWriter *out) {
                 put_structs (out, 1, { fine });
                 put_struct (out, 2, [] (TpsWriter *to) {
                   put_i32 (to, 1, 99);
                   put_double (to, 2, 0.1);
                 });
               }),
               HasSubstr ("optimizer.kind is 99"));
  EXPECT_THAT (init_refusal ([&] (TpsWriter *out) { put_i64s (out, 1, { 1 }); }),
               HasSubstr ("parameters is a list of i64, expected a list of struct"));
}

TEST (WireModel, badFieldsOfAnUpdateAreNamed)
{
  EXPECT_THAT (update_refusal ([] (TpsWriter *out) { put_structs (out, 2, {}); }),
               HasSubstr ("trainer is missing"));
  EXPECT_THAT (update_refusal ([] (TpsWriter *out) { put_i32 (out, 1, 0); }),
               HasSubstr ("gradients is missing"));
  EXPECT_THAT (
      update_refusal ([] (TpsWriter *out) {
        put_i32 (out, 1, 0);
        put_structs (out, 2, { tensor_fields (1, { 1 }, 4), tensor_fields (77, { 1 }, 4) });
      }),
      HasSubstr ("gradients[1]"));
  EXPECT_THAT (update_refusal ([] (TpsWriter *out) {
                 put_i32 (out, 1, 0);
                 put_structs (out, 2, {});
                 put_struct (out, 3, [] (TpsWriter *to) { put_string (to, 1, "c"); });
               }),
               HasSubstr ("push.sequence is missing"));
  EXPECT_THAT (update_refusal ([] (TpsWriter *out) {
                 put_i32 (out, 1, 0);
                 put_structs (out, 2, {});
                 put_i32 (out, 4, 1);
               }),
               HasSubstr ("version is of type i32, expected i64"));
}

} // namespace
} // namespace thriftps
