/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/trainee.h"

namespace {

using testing::ElementsAre;
using testing::StartsWith;

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

TpsGradient
dense_of (TpsDType dtype, gint64 n)
{
  TpsGradient gradient = { TPS_GRADIENT_DENSE, 1 };

  tps_tensor_init_1d (&gradient.dense, dtype, n);
  return gradient;
}

/* Returns one row. */
TpsGradient
row_of (gint64 id, gint64 rows, gint64 dim)
{
  TpsGradient gradient = { TPS_GRADIENT_SPARSE, 1 };

  gradient.rows = rows;
  tps_tensor_init_1d (&gradient.indices, TPS_DTYPE_INT64, 1);
  tps_tensor_init_2d (&gradient.values, TPS_DTYPE_FLOAT32, 1, dim);
  memcpy (tps_tensor_data (&gradient.indices), &id, sizeof id);
  return gradient;
}

TEST (Ddp, RefusesAnAverageThatDoesNotFit)
{
  const std::vector<FakeModel::Parameter> one = { { "weight", { 40 }, false } };
  struct
  {
    const std::vector<FakeModel::Parameter> &model;
    const char *compress;
    guint bucket;
    TpsGradient average;
    std::string error;
  } cases[] = {
    { THREE, "none", 0, dense_of (TPS_DTYPE_FLOAT32, 4), "dense FLOAT32 [4]" },
    { THREE, "none", 0, dense_of (TPS_DTYPE_FLOAT64, 3), "dense FLOAT64 [3]" },
    { THREE, "none", 2, dense_of (TPS_DTYPE_FLOAT32, 10), "dense FLOAT32 [10]" },
    { THREE, "none", 2, row_of (5, 5, 2), "sparse FLOAT32 [5, 2]" }, /* outside the matrix */
    { one, "fp16", 0, dense_of (TPS_DTYPE_FLOAT32, 40),
      "dense FLOAT32 [40], expected dense FLOAT16 [40]" },
    { one, "topk:0.5", 0, dense_of (TPS_DTYPE_FLOAT32, 40),
      "dense FLOAT32 [40], expected valid rows of sparse FLOAT32 [3, 16]" },
    { one, "topk:0.5", 0, row_of (3, 3, 16),
      "sparse FLOAT32 [3, 16], expected valid rows of sparse FLOAT32 [3, 16]" },
  };

  for (auto &c : cases)
    {
      Trainee t (c.model, { .compress = c.compress });

      t.exchange.on_call = [&] (FakeExchange *exchange, size_t index) {
        if (index == c.bucket)
          exchange->answer_with_average (index, &c.average);
        else
          exchange->answer_with_own_gradient (index);
      };
      EXPECT_THAT (t.backward (), StartsWith ("INTERNAL: bucket " + std::to_string (c.bucket)
                                              + ": the average is " + c.error));
    }
}

TEST (Ddp, StepsWithoutDataDoNotChangeTheKeptValuesOfTopK)
{
  Trainee t ({ { "weight", { 32 }, false } }, { .compress = "topk:0.5" });

  t.exchange.on_call = answer_own;
  t.model.gradient_of = [] (guint, gint64 i) { return i < 16 ? 3.0f : 2.0f; };
  EXPECT_EQ (t.backward (), "");
  EXPECT_EQ (t.reduced (0)[0], 3);
  EXPECT_EQ (t.reduced (0)[16], 0);
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
  EXPECT_EQ (t.reduced (0)[0], 0);
  EXPECT_EQ (t.reduced (0)[16], 4);
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
    const double mib = rank;
    Trainee t (THREE, { mib, mib, "none", "allreduce_hook", groups[rank] });
    GError *error = nullptr;
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
