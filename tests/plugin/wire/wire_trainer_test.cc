/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_trainer.h"

#include "plugin/wire/wire_tensor.h"
#include "tests/plugin/wire/wire_message.h"

namespace thriftps {
namespace {

GVariant *
dictionary (const gchar *text)
{
  GVariant *values = g_variant_parse (G_VARIANT_TYPE_VARDICT, text, nullptr, nullptr, nullptr);

  EXPECT_NE (values, nullptr);
  return values;
}

void
add_batch (TpsTrainPlan *plan, gint64 n)
{
  TpsTrainBatch batch = {};

  tps_tensor_init_2d (&batch.input, TPS_DTYPE_INT64, n, 3);
  tps_tensor_init_1d (&batch.target, TPS_DTYPE_INT64, n);
  memset (tps_tensor_data (&batch.input), 1, static_cast<gsize> (n) * 24);
  memset (tps_tensor_data (&batch.target), 2, static_cast<gsize> (n) * 8);
  tps_train_plan_take_batch (plan, &batch);
}

TEST (WireTrainer, aPlanComesAsItWent)
{
  g_autoptr (TpsTrainPlan) sent = tps_train_plan_new ();

  g_free (sent->pass_name);
  sent->pass_name = g_strdup ("pass-1");
  sent->rank = 1;
  sent->world_size = 4;
  g_clear_pointer (&sent->model_config, g_variant_unref);
  sent->model_config = dictionary (
      "{'num_embeddings': <int64 100>, 'scale': <0.5>, 'whole': <2.0>, 'sparse': <true>}");
  g_clear_pointer (&sent->trainer_config, g_variant_unref);
  sent->trainer_config = dictionary ("{'name': <'a \"quoted\" wörd'>}");
  add_batch (sent, 2);
  add_batch (sent, 1000);
  sent->steps_per_epoch = 3;
  sent->epochs = 5;
  sent->seed = -9;
  sent->partition_by_trainer = TRUE;
  sent->first_bucket_mib = 0.5;
  sent->bucket_cap_mib = 12.5;
  sent->piece_bytes = 65536;
  sent->learning_rate = 0.25;
  g_free (sent->compress);
  sent->compress = g_strdup ("topk:0.01");
  g_free (sent->device);
  sent->device = g_strdup ("cuda:1");
  sent->rpc_timeout_ns = G_GINT64_CONSTANT (7000000000);
  tps_train_plan_add_server (sent, 2, "unix:/run/server");

  WireMessage message (
      [&] (TpsWriter *out) { tps_rpc_write_arguments (&tps_train_rpc, out, sent); });
  g_autoptr (GError) error = nullptr;
  g_autoptr (TpsTrainPlan) got = tps_train_plan_new ();

  ASSERT_TRUE (tps_rpc_read_arguments (&tps_train_rpc, message.arguments (), got, &error))
      << error->message;
  EXPECT_STREQ (got->pass_name, "pass-1");
  EXPECT_EQ (got->rank, 1u);
  EXPECT_EQ (got->world_size, 4u);
  EXPECT_STREQ (got->model_class, sent->model_class);
  EXPECT_TRUE (g_variant_equal (got->model_config, sent->model_config))
      << g_variant_print (got->model_config, TRUE);
  EXPECT_TRUE (g_variant_equal (got->trainer_config, sent->trainer_config));
  ASSERT_EQ (got->n_batches, 2u);
  const TpsTrainBatch *batch = &got->batches[1];
  EXPECT_EQ (batch->input.shape.dims[0], 1000);
  EXPECT_EQ (static_cast<guint8 *> (tps_tensor_data (&batch->target))[7999], 2);
  EXPECT_EQ (got->steps_per_epoch, 3u);
  EXPECT_EQ (got->epochs, 5u);
  EXPECT_EQ (got->seed, -9);
  EXPECT_TRUE (got->partition_by_trainer);
  EXPECT_EQ (got->first_bucket_mib, 0.5);
  EXPECT_EQ (got->bucket_cap_mib, 12.5);
  EXPECT_EQ (got->piece_bytes, 65536);
  EXPECT_EQ (got->learning_rate, 0.25);
  EXPECT_EQ (got->rpc_timeout_ns, G_GINT64_CONSTANT (7000000000));
  ASSERT_EQ (got->n_servers, 1u);
  EXPECT_STREQ (got->servers[0].address, "unix:/run/server");
  EXPECT_STREQ (got->ddp_hook, sent->ddp_hook);
  EXPECT_STREQ (got->iteration_step, sent->iteration_step);
  EXPECT_STREQ (got->reduce, sent->reduce);
  EXPECT_STREQ (got->compress, "topk:0.01");
  EXPECT_STREQ (got->device, "cuda:1");
}

/* Returns the error message for a plan with the required fields except `without`, followed by the
 * fields of `more`. */
std::string
plan_refusal (
    gint without, const Write &more = [] (TpsWriter *) {})
{
  auto write = [&] (TpsWriter *out) {
    put_struct (out, 1, [&] (TpsWriter *spec) {
      if (without != 1)
        put_string (spec, 1, "pass");
      if (without != 2)
        put_i32 (spec, 2, 0);
      if (without != 3)
        put_i32 (spec, 3, 1);
      if (without != 4)
        put_string (spec, 4, "{\"model_class\": \"DummyModel\"}");
      if (without != 5)
        {
          tps_writer_field (spec, 5, TPS_WIRE_LIST);
          tps_writer_list_begin (spec, TPS_WIRE_STRUCT, 0);
        }
      if (without != 6)
        put_i32 (spec, 6, 1);
      more (spec);
    });
  };

  return refusal (write, [] (TpsReader *in, GError **error) {
    g_autoptr (TpsTrainPlan) plan = tps_train_plan_new ();

    return tps_rpc_read_arguments (&tps_train_rpc, in, plan, error);
  });
}

TEST (WireTrainer, onlyTheRequiredFieldsAreRequired)
{
  const char *const names[] = { "pass_name",    "rank",    "world_size",
                                "model_config", "batches", "steps_per_epoch" };

  EXPECT_EQ (plan_refusal (0), "");
  for (gint id = 1; id <= 6; id++)
    EXPECT_EQ (plan_refusal (id), std::string ("spec.") + names[id - 1] + " is missing");
}

TEST (WireTrainer, numbersThatDoNotFit)
{
  EXPECT_EQ (plan_refusal (2, [] (TpsWriter *out) { put_i32 (out, 2, -1); }),
             "spec.rank is -1, expected >= 0");
  EXPECT_EQ (plan_refusal (0, [] (TpsWriter *out) { put_i32 (out, 7, -2); }),
             "spec.epochs is -2, expected >= 0");
  EXPECT_EQ (plan_refusal (0, [] (TpsWriter *out) { put_i32 (out, 23, -3); }),
             "spec.rpc_timeout_ms is -3, expected >= 0");
}

TEST (WireTrainer, textsThatAreNone)
{
  EXPECT_EQ (plan_refusal (1, [] (TpsWriter *out) { put_string (out, 1, "a pass"); }),
             "spec.pass_name is not a name: 1 to 255 characters of A-Z a-z 0-9 _ . : / -");
  EXPECT_EQ (plan_refusal (0, [] (TpsWriter *out) { put_string (out, 16, "\xff"); }),
             "spec.ddp_hook is not UTF-8 without NUL");
  EXPECT_EQ (plan_refusal (0, [] (TpsWriter *out) { put_string (out, 10, "[]"); }),
             "spec.trainer_config is not usable: not a JSON object");
  EXPECT_EQ (
      plan_refusal (4, [] (TpsWriter *out) { put_string (out, 4, "{}"); }),
      "spec.model_config is not usable: expected {\"model_class\": \"NAME\", \"configurations\": {...}}");
}

TEST (WireTrainer, batchesAndServersAreNamedByTheirNumber)
{
  auto list = [] (gint16 id, const Write &elem) {
    return [=] (TpsWriter *out) {
      tps_writer_field (out, id, TPS_WIRE_LIST);
      tps_writer_list_begin (out, TPS_WIRE_STRUCT, 1);
      tps_writer_struct_begin (out);
      elem (out);
      tps_writer_struct_end (out);
    };
  };

  EXPECT_EQ (plan_refusal (5, list (5,
                                    [] (TpsWriter *out) {
                                      put_struct (out, 1,
                                                  tensor_fields (TPS_DTYPE_INT64, { 2 }, 8));
                                    })),
             "spec.batches[0].input.data has 8 bytes, INT64 [2] needs 16");
  EXPECT_EQ (plan_refusal (5, list (5, [] (TpsWriter *) {})), "spec.batches[0].input is missing");
  EXPECT_EQ (plan_refusal (0, list (18, [] (TpsWriter *out) { put_i32 (out, 1, 0); })),
             "spec.servers[0].address is missing");
}

TEST (WireTrainer, aSpecThatIsMissing)
{
  EXPECT_EQ (refusal ([] (TpsWriter *) {},
                      [] (TpsReader *in, GError **error) {
                        g_autoptr (TpsTrainPlan) plan = tps_train_plan_new ();

                        return tps_rpc_read_arguments (&tps_train_rpc, in, plan, error);
                      }),
             "spec is missing");
}

/* ---- status --------------------------------------------------------------------------------- */

class Status : public testing::Test
{
protected:
  ~Status () override
  {
    tps_train_status_clear (&sent);
    tps_train_status_clear (&got);
  }

  void
  round_trip ()
  {
    TpsWireType type;
    WireMessage message (
        [&] (TpsWriter *out) { tps_rpc_write_result (&tps_train_status_rpc, out, &sent); });
    TpsReader *in = message.result (&type);

    ASSERT_TRUE (tps_rpc_read_result (&tps_train_status_rpc, in, type, &got, nullptr));
    EXPECT_EQ (got.state, sent.state);
  }

  TpsTrainStatus sent = {};
  TpsTrainStatus got = {};
};

TEST_F (Status, ofARunningPassComesAsItWent)
{
  sent.state = TPS_TRAIN_RUNNING;
  sent.pass_name = g_strdup ("pass");
  sent.steps_done = 3;
  sent.steps_total = 10;
  sent.heartbeat = 77;
  sent.has_loss = TRUE;
  sent.loss = 0.125;
  sent.samples = 684;
  sent.epoch_samples = 68;
  round_trip ();
  EXPECT_STREQ (got.pass_name, "pass");
  EXPECT_EQ (got.steps_done, 3);
  EXPECT_EQ (got.steps_total, 10);
  EXPECT_EQ (got.heartbeat, 77);
  EXPECT_TRUE (got.has_loss);
  EXPECT_EQ (got.loss, 0.125);
  EXPECT_EQ (got.samples, 684);
  EXPECT_EQ (got.epoch_samples, 68);
  EXPECT_FALSE (got.has_digest);
  EXPECT_EQ (got.error, nullptr);
}

TEST_F (Status, ofAFailedPassComesAsItWent)
{
  sent.state = TPS_TRAIN_FAILED;
  sent.error = g_error_new_literal (TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
                                    "trainer 3 did not come");
  round_trip ();
  EXPECT_TRUE (g_error_matches (got.error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED));
  EXPECT_STREQ (got.error->message, "trainer 3 did not come");
}

TEST_F (Status, ofASuccessfulPassHasTheDigest)
{
  sent.state = TPS_TRAIN_SUCCEEDED;
  sent.has_digest = TRUE;
  memcpy (sent.parameters_digest, "0123456789abcdef", 16);
  round_trip ();
  EXPECT_TRUE (got.has_digest);
  EXPECT_EQ (memcmp (got.parameters_digest, "0123456789abcdef", 16), 0);
}

TEST_F (Status, thatIsNoneIsRefused)
{
  auto decode = [this] (const Write &fields) {
    g_autoptr (GError) error = nullptr;
    TpsWireType type;
    WireMessage message ([&] (TpsWriter *out) { put_struct (out, 0, fields); });
    TpsReader *in = message.result (&type);

    EXPECT_FALSE (tps_rpc_read_result (&tps_train_status_rpc, in, type, &got, &error));
    return std::string (error->message);
  };

  EXPECT_EQ (decode ([] (TpsWriter *out) { put_i32 (out, 1, 6); }),
             "status.state is 6, which is not a valid TrainState");
  EXPECT_EQ (decode ([] (TpsWriter *out) { put_string (out, 9, "short"); }),
             "status.parameters_digest has 5 bytes, expected 16");
  EXPECT_EQ (decode ([] (TpsWriter *out) {
               put_i32 (out, 1, 1);
               put_string (out, 2, "pass");
             }),
             "status.steps_done is missing");
}

} // namespace
} // namespace thriftps
