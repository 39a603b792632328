/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of an update: its bits and its blocks. */

#include "runtime/server/model/trained_model.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "runtime/server/model/update_digest.h"
#include "tests/runtime/server/model/models.h"

namespace updating_test {
namespace {

TpsOptimizerSpec
sgd (double rate, double momentum)
{
  TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_SGD, rate);

  spec.momentum = momentum;
  return spec;
}

class TrainedModel : public testing::Test
{
protected:
  ~TrainedModel () override
  {
    if (model_ != nullptr)
      tps_trained_model_unref (model_);
  }

  void
  begin (const Shapes &shapes, const Values &values, const TpsOptimizerSpec &spec)
  {
    auto parameters = to_parameters (shapes, values);

    shapes_ = shapes;
    model_ = tps_trained_model_new (parameters.data (), static_cast<guint> (parameters.size ()),
                                    &spec, tps_buffer_pool_get_default (), nullptr);
    for (auto &parameter : parameters)
      tps_named_tensor_clear (&parameter);
  }

  /* Runs the blocks in an order drawn from `random`, in ranges of 1 to 3. */
  void
  update (const std::vector<Values> &gradients, std::mt19937 *random)
  {
    std::vector<std::vector<TpsTensor>> tensors;
    std::vector<const TpsTensor *> lists;
    std::vector<std::pair<guint, guint>> ranges;
    TpsModelUpdate update;
    guint hashed = static_cast<guint> ((*random) () % gradients.size ());

    for (const auto &one : gradients)
      tensors.push_back (to_tensors (shapes_, one));
    for (const auto &list : tensors)
      lists.push_back (list.data ());
    ASSERT_TRUE (tps_model_update_begin (&update, model_, lists.data (),
                                         static_cast<guint> (lists.size ()), 1, nullptr));
    tps_model_update_want_hashes (&update, hashed);
    for (guint at = 0; at < update.n_blocks;)
      {
        guint n = std::min<guint> (1 + (*random) () % 3, update.n_blocks - at);

        ranges.emplace_back (at, n);
        at += n;
      }
    std::shuffle (ranges.begin (), ranges.end (), *random);
    for (const auto &range : ranges)
      tps_model_update_run (&update, range.first, range.second);
    EXPECT_EQ (
        bytes (tps_update_digest_combine (3, 9, lists[hashed], static_cast<guint> (shapes_.size ()),
                                          update.hashes[hashed])),
        bytes (
            tps_update_digest_compute (3, 9, lists[hashed], static_cast<guint> (shapes_.size ()))));
    tps_model_update_end (&update);
    for (auto &list : tensors)
      for (auto &tensor : list)
        tps_tensor_clear (&tensor);
  }

  static std::string
  bytes (const TpsPushDigest &digest)
  {
    return std::string (reinterpret_cast<const char *> (digest.bytes), sizeof digest.bytes);
  }

  Values
  values () const
  {
    return to_values (model_->newest);
  }

  Shapes shapes_;
  TpsTrainedModel *model_ = nullptr;
};

TEST_F (TrainedModel, hasTheBitsOfTheDefinitionForAnyOrderOfBlocks)
{
  Shapes shapes = { { 30, 100 }, { 30 }, { 3, 9000 }, { 50001 }, { 0, 4 }, {} };
  std::mt19937 random (7);
  Values first = draw_values (shapes, &random);
  NaiveModel naive (first, 0.001f, 0.9f);

  begin (shapes, first, sgd (0.001, 0.9));
  for (unsigned step = 0; step < 5; step++)
    {
      std::vector<Values> gradients;

      for (unsigned t = 0; t <= step; t++) /* one trainer, then two, and so on */
        gradients.push_back (draw_values (shapes, &random));
      update (gradients, &random);
      naive.update (gradients);
      ASSERT_EQ (values (), naive.values ()) << step;
      EXPECT_EQ (model_->newest->version, step + 2);
    }
}

TEST_F (TrainedModel, rowwiseOptimizersSeeTheRowsOfAMatrix)
{
  Shapes shapes = { { 5000, 3 } };
  std::mt19937 random (3);
  Values first = draw_values (shapes, &random), gradient = draw_values (shapes, &random);
  TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_ROWWISE_ADAGRAD, 0.5);
  Values got;

  begin (shapes, first, spec);
  update ({ gradient }, &random);
  got = values ();
  for (size_t row = 0; row < 5000; row++)
    {
      double squares = 0;

      for (size_t i = 0; i < 3; i++)
        squares += std::pow (static_cast<double> (gradient[0][row * 3 + i]), 2);
      for (size_t i = row * 3; i < row * 3 + 3; i++)
        ASSERT_NEAR (got[0][i], first[0][i] - 0.5 * gradient[0][i] / std::sqrt (squares / 3), 1e-5);
    }
}

/* A peer chooses the length of a row, so the row's mean must be charged. */
TEST_F (TrainedModel, meansOfLongRowsAreChargedBeforeTheUpdate)
{
  const gint64 dim = 1 << 20;
  Shapes shapes = { { 3, dim } };
  Values ones = { std::vector<float> (3 << 20, 1.0f) },
         threes = { std::vector<float> (3 << 20, 3.0f) };
  auto first = to_tensors (shapes, ones), second = to_tensors (shapes, threes);
  const TpsTensor *lists[] = { first.data (), second.data () };
  TpsBufferPool *pool = tps_buffer_pool_get_default ();
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "test", 0);
  gsize version_cost = tps_buffer_pool_get_cost (3 * 4 << 20);
  gsize row_cost = tps_buffer_pool_get_cost ((4 << 20) + TPS_BUFFER_ALIGNMENT);
  TpsModelUpdate update;

  begin (shapes, ones, tps_optimizer_spec (TPS_OPTIMIZER_ROWWISE_ADAGRAD, 0.5));
  tps_buffer_pool_set_budgets (pool, budget, nullptr);
  for (gsize room : { version_cost, row_cost, version_cost + row_cost - 1 })
    {
      g_autoptr (GError) error = nullptr;

      tps_budget_set_max (budget, room);
      EXPECT_FALSE (tps_model_update_begin (&update, model_, lists, 2, 1, &error));
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
      EXPECT_EQ (tps_budget_get_held (budget), 0u);
    }
  tps_budget_set_max (budget, version_cost + row_cost);
  EXPECT_FALSE (tps_model_update_begin (&update, model_, lists, 2, 3, nullptr));
  ASSERT_TRUE (tps_model_update_begin (&update, model_, lists, 2, 1, nullptr));
  for (guint block : { 2u, 0u, 1u })
    tps_model_update_run (&update, block, 1);
  tps_model_update_end (&update);
  EXPECT_EQ (tps_budget_get_held (budget), version_cost);
  tps_budget_set_max (budget, 0);
  Values got = values ();
  for (float value : got[0])
    ASSERT_NEAR (value, 0.5, 1e-5); /* 1 - 0.5 * 2 / sqrt (4) */
  for (auto *list : { &first, &second })
    for (TpsTensor &tensor : *list)
      tps_tensor_clear (&tensor);
}

TEST_F (TrainedModel, recognizesAModelWithTheSameBeginning)
{
  Shapes shapes = { { 2 }, { 3 } };
  Values values = { { 1, 2 }, { 3, 4, 5 } };
  std::mt19937 random (5);

  begin (shapes, values, sgd (0.1, 0.9));
  auto began_the_same = [&] (const Shapes &s, const Values &v, const TpsOptimizerSpec &spec) {
    auto parameters = to_parameters (s, v);
    g_autoptr (TpsTrainedModel)
        other = tps_trained_model_new (parameters.data (), static_cast<guint> (parameters.size ()),
                                       &spec, tps_buffer_pool_get_default (), nullptr);

    for (auto &parameter : parameters)
      tps_named_tensor_clear (&parameter);
    return static_cast<bool> (tps_trained_model_began_as (model_, other));
  };
  EXPECT_TRUE (began_the_same (shapes, values, sgd (0.1, 0.9)));
  EXPECT_FALSE (began_the_same (shapes, values, sgd (0.1, 0.8)));
  EXPECT_FALSE (began_the_same (shapes, { { 1, 2 }, { 3, 4, 6 } }, sgd (0.1, 0.9)));
  EXPECT_FALSE (began_the_same ({ { 2 }, { 3, 1 } }, values, sgd (0.1, 0.9)));
  EXPECT_FALSE (began_the_same ({ { 2 } }, { { 1, 2 } }, sgd (0.1, 0.9)));
  update ({ values }, &random); /* later updates must not matter */
  EXPECT_TRUE (began_the_same (shapes, values, sgd (0.1, 0.9)));
}

} // namespace
} // namespace updating_test
