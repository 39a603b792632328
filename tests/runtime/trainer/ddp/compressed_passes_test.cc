/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whole passes with compressed gradients: equal bits with all hooks, and the loss of accuracy. */

#include <cmath>
#include <map>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/pass/pass.h"
#include "tests/oracle/vectors.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fleet.h"

namespace {

using testing::HasSubstr;

const char *const COMPRESSIONS[] = { "none", "fp16", "bf16", "topk:0.2" };

class CompressedPasses : public testing::TestWithParam<guint>
{
};

TEST_P (CompressedPasses, AllBlocksAreTheWholeGradient)
{
  Fleet fleet (GetParam ());

  for (const char *hook : { "rpc_hook", "allreduce_hook" })
    {
      Task task;

      task.hook = hook;
      task.pass_name = std::string (hook) + "none";
      std::string whole = fleet.digest_of_run (task);
      task.compress = "topk:1";
      task.pass_name = std::string (hook) + "topk";
      EXPECT_EQ (fleet.digest_of_run (task), whole) << hook;
    }
}

INSTANTIATE_TEST_SUITE_P (Counts, CompressedPasses, testing::Values (1u, 2u, 3u));

/* Trainers with different options */

TEST (Compress, GroupsRefuseTrainersThatCompressInAnotherWay)
{
  for (const char *other : { "none", "bf16", "topk:0.1", "topk:0.2" })
    {
      Fleet fleet (2);
      Task task;

      task.hook = "allreduce_hook";
      task.compress = "topk:0.25";
      EXPECT_EQ (fleet.start (task, 0), "");
      task.compress = other;
      EXPECT_EQ (fleet.start (task, 1), "");
      for (guint r = 0; r < 2; r++)
        EXPECT_THAT (fleet.wait (r), HasSubstr ("another compression than trainer")) << other;
    }
}

TEST (Compress, ServersRefuseTrainersThatCompressInAnotherWay)
{
  Fleet fleet (2, 1, 10 * SECOND_NS);
  Task task;

  task.timeout_ns = 10 * SECOND_NS;
  task.compress = "fp16";
  EXPECT_EQ (fleet.start (task, 0), "");
  task.compress = "topk:0.1";
  EXPECT_EQ (fleet.start (task, 1), "");
  EXPECT_THAT (fleet.wait (0) + fleet.wait (1), HasSubstr ("INVALID_ARGUMENT"));
}

TEST (Compress, AnUnknownOneIsRefusedBeforeThePass)
{
  Fleet fleet (1);
  Task task;

  task.compress = "zip";
  EXPECT_EQ (
      fleet.start (task, 0),
      "INVALID_ARGUMENT: compress: unknown compression \"zip\"; known: none, fp16, bf16, topk");
}

/* Accuracy. The model has a known optimum: each of its rows of 16 values is pulled towards a
 * target. The first rows have large useless gradients whose sign changes in every step. */

constexpr gint64 ROWS = 64, NOISY_ROWS = 4, WIDTH = 16;
constexpr float NOISE = 2;

struct PullModel
{
  TpsModel model;
  TpsParameter weight;
  gint64 step;
  float output[2];
};

float
target_of (gint64 i)
{
  return std::sin (static_cast<float> (i)) > 0 ? 1.0f : -1.0f;
}

TpsModel *
pull_create (GVariant *, TpsDevice *device, GError **error)
{
  PullModel *self = g_new0 (PullModel, 1);

  self->weight.name = g_strdup ("weight");
  self->weight.shape = { TPS_DTYPE_FLOAT32, 2, { ROWS, WIDTH } };
  self->model.n_parameters = 1;
  self->model.parameters = &self->weight;
  EXPECT_TRUE (
      tps_model_init (&self->model, tps_model_class_find ("PullModel", nullptr), device, error));
  return &self->model;
}

void
pull_free (TpsModel *model)
{
  PullModel *self = reinterpret_cast<PullModel *> (model);

  tps_model_clear (model);
  g_free (self->weight.name);
  g_free (self);
}

void
pull_init (TpsModel *model, gint64)
{
  std::fill_n (model->parameters[0].value, ROWS * WIDTH, 0.0f);
}

gboolean
pull_check_batch (TpsModel *, const TpsTrainBatch *, GError **)
{
  return TRUE;
}

/* Ignores the input. */
gboolean
pull_forward (TpsModel *model, TpsTensorView, TpsTensorView *output, GError **)
{
  PullModel *self = reinterpret_cast<PullModel *> (model);

  self->step++;
  *output = { { TPS_DTYPE_FLOAT32, 2, { 1, 2 } }, self->output };
  return TRUE;
}

void
pull_backward (TpsModel *model, const gfloat *, TpsGradientReady ready, gpointer user_data)
{
  PullModel *self = reinterpret_cast<PullModel *> (model);

  for (gint64 i = 0; i < ROWS * WIDTH; i++)
    self->weight.gradient[i] = i < NOISY_ROWS * WIDTH ? (self->step % 2 == 0 ? NOISE : -NOISE)
                                                      : self->weight.value[i] - target_of (i);
  ready (user_data, 0);
}

/* Half of the mean square of the remaining distance, in the last step of trainer 0. */
double last_loss;

gboolean
measuring_step (TpsPass *pass, guint epoch, guint index, const TpsTrainBatch *batch, GError **error)
{
  const float *value = pass->model->parameters[0].value;
  double sum = 0;

  if (!tps_iteration_step_find ("basic_iteration_step", nullptr)
           ->run (pass, epoch, index, batch, error))
    return FALSE;
  for (gint64 i = NOISY_ROWS * WIDTH; i < ROWS * WIDTH; i++)
    sum += std::pow (static_cast<double> (value[i] - target_of (i)), 2);
  if (pass->plan->rank == 0)
    last_loss = sum / 2 / static_cast<double> ((ROWS - NOISY_ROWS) * WIDTH);
  return TRUE;
}

/* A variant of "topk" that drops the values that it has not sent. */
struct Forgetful
{
  TpsCompressor base;
  TpsCompression top_k;
  TpsBucketCall start; /* the previous state of the bucket */
  TpsCompressor *inner;
};

TpsCompressor *forgetful_begin (TpsBucketCall *call, gdouble ratio);

gboolean
forgetful_parse (const gchar *argument, gdouble *parameter, GError **error)
{
  *parameter = g_ascii_strtod (argument, nullptr);
  return TRUE;
}

void
forgetful_encode (TpsCompressor *base, TpsBucketCall *call)
{
  Forgetful *self = reinterpret_cast<Forgetful *> (base);
  TpsBucketCall as_it_was = self->start;

  self->inner->klass->free (self->inner);
  self->inner = tps_compression_begin (&self->top_k, &as_it_was);
  self->inner->klass->encode (self->inner, call);
}

void
forgetful_decode (TpsCompressor *base, const TpsBucketCall *call, TpsGradient *reduced)
{
  Forgetful *self = reinterpret_cast<Forgetful *> (base);

  self->inner->klass->decode (self->inner, call, reduced);
}

void
forgetful_free (TpsCompressor *base)
{
  Forgetful *self = reinterpret_cast<Forgetful *> (base);

  self->inner->klass->free (self->inner);
  g_free (self);
}

const TpsCompressionClass forgetful = { "forgetful",      forgetful_parse,  forgetful_begin,
                                        forgetful_encode, forgetful_decode, forgetful_free };

TpsCompressor *
forgetful_begin (TpsBucketCall *call, gdouble ratio)
{
  Forgetful *self = g_new0 (Forgetful, 1);

  self->base.klass = &forgetful;
  EXPECT_TRUE (tps_compression_parse ("topk:1", &self->top_k, nullptr));
  self->top_k.parameter = ratio;
  self->start = *call;
  self->inner = tps_compression_begin (&self->top_k, call);
  return &self->base;
}

double
loss_with (Fleet *fleet, const char *hook, const char *compress)
{
  static const TpsModelClass model = { "PullModel",      pull_create,  pull_free,    pull_init,
                                       pull_check_batch, pull_forward, pull_backward };
  static const TpsIterationStep step = { "measuring_step", measuring_step };
  Task task;

  tps_model_class_register (&model);
  tps_iteration_step_register (&step);
  tps_compression_register (&forgetful);
  task.hook = hook;
  task.pass_name = std::string (hook) + compress;
  task.iteration_step = "measuring_step";
  task.compress = compress;
  task.n_batches = fleet->n_trainers ();
  task.epochs = 300;
  fleet->reset_servers ();
  for (guint r = 0; r < fleet->n_trainers (); r++)
    {
      TpsTrainPlan *plan = fleet->make_plan (task, r);
      GError *error = nullptr;

      Fleet::set (&plan->model_class, "PullModel");
      plan->learning_rate = 0.03;
      EXPECT_TRUE (tps_trainer_train (fleet->trainer (r), plan, &error)) << error->message;
    }
  for (guint r = 0; r < fleet->n_trainers (); r++)
    EXPECT_EQ (fleet->wait (r), "SUCCEEDED");
  return last_loss;
}

TEST (Accuracy, IsNearTheUncompressedOneWithErrorFeedbackOnly)
{
  constexpr double START = 0.5;
  Fleet fleet (2);

  for (const char *hook : { "rpc_hook", "allreduce_hook" })
    {
      EXPECT_LT (loss_with (&fleet, hook, "none"), START * 1e-5);
      EXPECT_LT (loss_with (&fleet, hook, "fp16"), START * 1e-5);
      EXPECT_LT (loss_with (&fleet, hook, "bf16"), START * 1e-5);
      /* topk sends four of 64 rows per step, and four rows have noise. */
      EXPECT_LT (loss_with (&fleet, hook, "topk:0.0625"), START * 0.01) << hook;
      EXPECT_GT (loss_with (&fleet, hook, "forgetful:0.0625"), START * 0.99) << hook;
    }
}

/* There are 32 ids. For each trainer, each id has its own class among 16. */
TEST (Accuracy, OfARealModelIsNearTheUncompressedOne)
{
  std::map<std::string, double> losses;

  for (const char *compress : COMPRESSIONS)
    {
      Fleet fleet (2);
      Task task;

      task.compress = compress;
      for (guint r = 0; r < 2; r++)
        {
          TpsTrainPlan *plan = fleet.make_plan (task, r);
          TpsTrainBatch batch = make_batch (
              16, 1, [r] (gint64 i) { return 2 * i + r; }, [] (gint64 i) { return i; });

          g_variant_unref (plan->model_config);
          plan->model_config = model_config (true, 40, 16, 1);
          plan->epochs = 400;
          plan->steps_per_epoch = 1;
          tps_train_plan_clear_batches (plan);
          tps_train_plan_take_batch (plan, &batch);
          EXPECT_TRUE (tps_trainer_train (fleet.trainer (r), plan, nullptr));
        }
      for (guint r = 0; r < 2; r++)
        {
          g_auto (TpsTrainStatus) status = {};

          EXPECT_EQ (fleet.wait (r), "SUCCEEDED");
          tps_trainer_get_status (fleet.trainer (r), &status);
          losses[compress] += status.loss / 2;
        }
    }
  const double start = std::log (16.0), learnt = start - losses["none"];
  EXPECT_GT (learnt, 0.3);
  EXPECT_NEAR (losses["fp16"], losses["none"], learnt * 0.01);
  EXPECT_NEAR (losses["bf16"], losses["none"], learnt * 0.02);
  EXPECT_NEAR (losses["topk:0.2"], losses["none"], learnt * 0.1);
  for (const auto &[name, loss] : losses)
    RecordProperty (name, std::to_string (loss));
}

/* PyTorch's hooks round, divide by the number of trainers, add in half precision and widen. With
 * two trainers, all these steps are exact except the rounding and the addition. The same holds for
 * this project's steps, so the bits must be equal. */
TEST (Compress, OfTwoTrainersHasTheBitsOfPyTorchsHooks)
{
  const oracle::Vectors &oracle = oracle::vectors ();

  for (const char *name : { "fp16", "bf16" })
    {
      const std::string at = std::string ("compress_hooks/") + name;
      const std::vector<float> &expected = oracle.floats (at);
      std::vector<std::vector<float>> got (2);
      std::vector<TpsProcessGroup *> groups = join_gloo_groups (2);

      run_ranks (2, [&] (guint r) {
        const std::vector<float> &gradient = oracle.floats ("compress_hooks/gradient"
                                                            + std::to_string (r));
        FakeModel model ({ { "weight", { static_cast<gint64> (gradient.size ()) }, false } });
        TpsHookContext context = {};
        TpsDdpOptions options = {};
        GError *error = nullptr;

        model.gradient_of = [&] (guint, gint64 i) { return gradient[static_cast<size_t> (i)]; };
        context.state = tps_hook_state_class_find ("BasicHookState", nullptr)->create ();
        context.metrics = tps_metrics_new (nullptr, nullptr);
        context.group = groups[r];
        context.timeout_ns = 20 * SECOND_NS;
        options.hook = tps_hook_find ("allreduce_hook", nullptr);
        options.context = &context;
        EXPECT_TRUE (tps_compression_parse (name, &options.compression, nullptr));
        TpsDdp *ddp = tps_ddp_new (model.get (), &options, nullptr);
        EXPECT_TRUE (tps_ddp_backward (ddp, nullptr, &error)) << error->message;
        const float *data = static_cast<const float *> (
            tps_tensor_data (&tps_ddp_get_reduced (ddp, 0)->dense));
        got[r].assign (data, data + gradient.size ());
        groups[r]->ops->free (groups[r]);
        tps_ddp_free (ddp);
        tps_metrics_unref (context.metrics);
        context.state->klass->free (context.state);
      });
      EXPECT_EQ (got[0], expected) << name;
      EXPECT_EQ (got[1], expected) << name;
    }
}

} /* namespace */
