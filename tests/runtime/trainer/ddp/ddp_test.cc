/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ddp/ddp.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fakes.h"

namespace {

using testing::ElementsAre;

/* A trainer with a fake model and a fake exchange. */
class Trainee
{
public:
  explicit Trainee (const std::vector<FakeModel::Parameter> &parameters, double first_mib = 0,
                    double cap_mib = 0, const char *compress = "none",
                    const char *hook = "rpc_hook")
      : model (parameters)
  {
    TpsDdpOptions options = {};
    GError *error = nullptr;

    context.state = tps_hook_state_class_find ("BasicHookState", nullptr)->create ();
    context.metrics = tps_metrics_new (nullptr, nullptr);
    context.exchange = exchange.get ();
    context.routes = routes_;
    context.timeout_ns = G_GINT64_CONSTANT (60000000000);
    options.first_bucket_mib = first_mib;
    options.bucket_cap_mib = cap_mib;
    options.hook = tps_hook_find (hook, nullptr);
    EXPECT_TRUE (tps_compression_parse (compress, &options.compression, nullptr));
    options.context = &context;
    ddp = tps_ddp_new (model.get (), &options, &error);
    EXPECT_EQ (error, nullptr);
    context.state->klass->next_batch (context.state);
  }

  ~Trainee ()
  {
    tps_ddp_free (ddp);
    tps_metrics_unref (context.metrics);
    context.state->klass->free (context.state);
  }

  /* Returns "", or the code and text of the error. */
  std::string
  backward ()
  {
    GError *error = nullptr;

    tps_ddp_backward (ddp, nullptr, &error);
    return text_of (error);
  }

  std::string
  join_step ()
  {
    GError *error = nullptr;

    tps_ddp_join_step (ddp, &error);
    return text_of (error);
  }

  FakeModel model;
  FakeExchange exchange { 3 };
  TpsHookContext context = {};
  TpsDdp *ddp;

private:
  static std::string
  text_of (GError *error)
  {
    std::string text = error == nullptr ? ""
                                        : std::string (tps_error_code_name (error->code)) + ": "
                                              + error->message;

    g_clear_error (&error);
    return text;
  }

  TpsPiece pieces_[3] = { { 2, 0, 0, 0 }, { 0, 1, 0, 0 }, { 1, 2, 0, 0 } };
  TpsRoute routes_[3] = { { &pieces_[0], 1 }, { &pieces_[1], 1 }, { &pieces_[2], 1 } };
};

const std::vector<FakeModel::Parameter> THREE = { { "embedding", { 5, 2 }, true },
                                                  { "weight", { 3, 2 }, false },
                                                  { "bias", { 3 }, false } };

void
answer_own (FakeExchange *exchange, size_t index)
{
  exchange->answer_with_own_gradient (index);
}

TEST (Ddp, CallsTheHookOfABucketBeforeTheGradientsBehindItAreComputed)
{
  Trainee t (THREE);
  std::vector<std::string> events;

  t.model.before = [&] (guint i) { events.push_back ("compute " + std::to_string (i)); };
  t.exchange.on_call = [&] (FakeExchange *exchange, size_t index) {
    events.push_back ("send " + std::to_string (exchange->call (index).param_loc));
    exchange->answer_with_own_gradient (index);
  };
  EXPECT_EQ (t.backward (), "");
  EXPECT_THAT (events,
               ElementsAre ("compute 2", "send 0", "compute 1", "send 1", "compute 0", "send 2"));
}

TEST (Ddp, TheFirstErrorEndsTheStepAndCancelsTheRest)
{
  Trainee t (THREE);

  t.exchange.on_call = [&] (FakeExchange *exchange, size_t index) {
    if (index == 1)
      exchange->answer_with_error (index, TPS_ERROR_STALE, "batch 0 is over");
  };
  EXPECT_EQ (t.backward (), "STALE: batch 0 is over");
  EXPECT_TRUE (t.exchange.is_cancelled ());
  EXPECT_EQ (t.exchange.n_calls (), 2u) << "nothing is sent after an error";
  EXPECT_TRUE (t.exchange.call (0).is_answered) << "nothing borrows gradients after the step";
}

TEST (Ddp, AnAnswerThatNeverComesEndsAtTheDeadlineNamingTheBuckets)
{
  Trainee t (THREE);

  t.context.timeout_ns = 1;
  t.exchange.on_call = [&] (FakeExchange *exchange, size_t index) {
    EXPECT_GT (exchange->call (index).deadline_ns, 0);
    if (index == 1)
      exchange->answer_with_own_gradient (index);
  };
  EXPECT_EQ (t.backward (), "DEADLINE_EXCEEDED: batch 0: no reply for bucket 0, 2 within 0 ms");
  EXPECT_TRUE (t.exchange.is_cancelled ());
  for (size_t i = 0; i < 3; i++)
    EXPECT_TRUE (t.exchange.call (i).is_answered);
}

TEST (Ddp, RefusesAnAverageThatDoesNotFit)
{
  struct
  {
    const char *what;
    guint bucket;
    std::function<void (TpsGradient *)> make;
  } cases[] = {
    { "dense FLOAT32 [4]", 0,
      [] (TpsGradient *g) {
        g->kind = TPS_GRADIENT_DENSE;
        tps_tensor_init_1d (&g->dense, TPS_DTYPE_FLOAT32, 4);
      } },
    { "dense FLOAT64 [3]", 0,
      [] (TpsGradient *g) {
        g->kind = TPS_GRADIENT_DENSE;
        tps_tensor_init_1d (&g->dense, TPS_DTYPE_FLOAT64, 3);
      } },
    { "dense FLOAT32 [10]", 2,
      [] (TpsGradient *g) {
        g->kind = TPS_GRADIENT_DENSE;
        tps_tensor_init_1d (&g->dense, TPS_DTYPE_FLOAT32, 10);
      } },
    { "sparse FLOAT32 [5, 2]", 2,
      [] (TpsGradient *g) {
        gint64 id = 5; /* outside the matrix */

        g->kind = TPS_GRADIENT_SPARSE;
        g->rows = 5;
        tps_tensor_init_1d (&g->indices, TPS_DTYPE_INT64, 1);
        tps_tensor_init_2d (&g->values, TPS_DTYPE_FLOAT32, 1, 2);
        memcpy (tps_tensor_data (&g->indices), &id, sizeof id);
      } },
  };

  for (const auto &c : cases)
    {
      Trainee t (THREE);

      t.exchange.on_call = [&] (FakeExchange *exchange, size_t index) {
        TpsGradient average = {};

        if (index != c.bucket)
          return exchange->answer_with_own_gradient (index);
        average.weight = 1;
        c.make (&average);
        exchange->answer_with_average (index, &average);
      };
      std::string error = t.backward ();
      EXPECT_EQ (error.find ("INTERNAL: bucket " + std::to_string (c.bucket) + ": the average is "
                             + c.what),
                 0u)
          << error;
    }
}

TEST (Ddp, StepsWithoutDataDoNotChangeTheKeptValuesOfTopK)
{
  Trainee t ({ { "weight", { 32 }, false } }, 0, 0, "topk:0.5");
  auto reduced = [&] {
    return static_cast<float *> (tps_tensor_data (&tps_ddp_get_reduced (t.ddp, 0)->dense));
  };

  t.exchange.on_call = answer_own;
  t.model.gradient_of = [] (guint, gint64 i) { return i < 16 ? 3.0f : 2.0f; };
  EXPECT_EQ (t.backward (), "");
  EXPECT_EQ (reduced ()[0], 3);
  EXPECT_EQ (reduced ()[16], 0);
  for (int step = 0; step < 3; step++)
    {
      t.exchange.on_call = [] (FakeExchange *exchange, size_t index) {
        TpsGradient average = {};

        EXPECT_EQ (exchange->call (index).gradient->kind, TPS_GRADIENT_NONE);
        exchange->answer_with_average (index, &average);
      };
      t.context.state->klass->next_batch (t.context.state);
      EXPECT_EQ (t.join_step (), "");
    }
  t.context.state->klass->next_batch (t.context.state);
  t.exchange.on_call = answer_own;
  EXPECT_EQ (t.backward (), "");
  EXPECT_EQ (reduced ()[0], 0);
  EXPECT_EQ (reduced ()[16], 4);
}

TEST (Ddp, RefusesAnAverageThatIsNotCompressedAsItWas)
{
  const struct
  {
    const char *compress;
    std::function<void (TpsGradient *)> make;
    const char *error;
  } cases[] = {
    { "fp16",
      [] (TpsGradient *g) {
        g->kind = TPS_GRADIENT_DENSE;
        tps_tensor_init_1d (&g->dense, TPS_DTYPE_FLOAT32, 40);
      },
      "INTERNAL: bucket 0: the average is dense FLOAT32 [40], expected dense FLOAT16 [40]" },
    { "topk:0.5",
      [] (TpsGradient *g) {
        g->kind = TPS_GRADIENT_DENSE;
        tps_tensor_init_1d (&g->dense, TPS_DTYPE_FLOAT32, 40);
      },
      "INTERNAL: bucket 0: the average is dense FLOAT32 [40], expected valid rows of sparse "
      "FLOAT32 [3, 16]" },
    { "topk:0.5",
      [] (TpsGradient *g) {
        gint64 id = 3; /* outside the matrix */

        g->kind = TPS_GRADIENT_SPARSE;
        g->rows = 3;
        tps_tensor_init_1d (&g->indices, TPS_DTYPE_INT64, 1);
        tps_tensor_init_2d (&g->values, TPS_DTYPE_FLOAT32, 1, 16);
        memcpy (tps_tensor_data (&g->indices), &id, sizeof id);
      },
      "INTERNAL: bucket 0: the average is sparse FLOAT32 [3, 16], expected valid rows of sparse "
      "FLOAT32 [3, 16]" },
  };

  for (const auto &c : cases)
    {
      Trainee t ({ { "weight", { 40 }, false } }, 0, 0, c.compress);

      t.exchange.on_call = [&] (FakeExchange *exchange, size_t index) {
        TpsGradient average = {};

        average.weight = 1;
        c.make (&average);
        exchange->answer_with_average (index, &average);
      };
      EXPECT_EQ (t.backward (), c.error);
    }
}

TEST (Ddp, AGradientThatTheModelDoesNotReportIsAnErrorNotAWait)
{
  Trainee t (THREE);

  t.exchange.on_call = answer_own;
  t.model.is_forgotten = [] (guint i) { return i == 1; };
  EXPECT_EQ (
      t.backward (),
      "INTERNAL: backward pass: the model reported no gradient for 1 parameters of bucket 1");
}

TEST (Ddp, JoiningAStepTakesPartInEveryBucketWithoutData)
{
  Trainee t (THREE);

  t.exchange.on_call = [] (FakeExchange *exchange, size_t index) {
    TpsGradient average = {};

    EXPECT_EQ (exchange->call (index).param_loc, static_cast<gint32> (index));
    EXPECT_EQ (exchange->call (index).gradient->kind, TPS_GRADIENT_NONE);
    EXPECT_EQ (exchange->call (index).gradient->weight, 0);
    exchange->answer_with_average (index, &average);
  };
  EXPECT_EQ (t.join_step (), "");
  EXPECT_EQ (t.exchange.n_calls (), 3u);
}

TEST (Ddp, WhereServersAverageBlocksABlockWithoutDataIsNoFailure)
{
  Trainee t (THREE);

  t.context.owned_by_block = TRUE;
  t.exchange.on_call = [] (FakeExchange *exchange, size_t index) {
    exchange->answer_with_error (index, TPS_ERROR_INVALID_ARGUMENT, "all weights are 0");
  };
  EXPECT_EQ (t.join_step (), "");
  EXPECT_EQ (tps_ddp_get_reduced (t.ddp, 1)->kind, TPS_GRADIENT_NONE);
}

TEST (Ddp, WhereServersAverageAllTrainersABlockWithoutDataIsAFailure)
{
  Trainee t (THREE);

  t.exchange.on_call = [] (FakeExchange *exchange, size_t index) {
    exchange->answer_with_error (index, TPS_ERROR_INVALID_ARGUMENT, "all weights are 0");
  };
  EXPECT_EQ (t.join_step (), "INVALID_ARGUMENT: all weights are 0");
}

TEST (Ddp, TrainersWithOtherLayoutsFindOutBeforeTheyTrain)
{
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (2);

  run_ranks (2, [&] (guint rank) {
    Trainee t (THREE, rank, rank, "none", "allreduce_hook");
    GError *error = nullptr;

    t.context.group = groups[rank];
    gboolean on_devices;

    EXPECT_FALSE (tps_ddp_check_layouts (t.ddp, &on_devices, &error));
    EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
    EXPECT_EQ (std::string (error->message),
               "trainer " + std::to_string (1 - rank)
                   + " has another model, other bucket sizes or another compression than trainer "
                   + std::to_string (rank));
    g_error_free (error);
    groups[rank]->ops->free (groups[rank]);
  });
}

} /* namespace */
