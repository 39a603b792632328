/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the parts of a query for each shard, by examples. Rows [0, 10) are in shard 0, [10, 20) in
 * shard 1, and [20, 30) in shard 2. */

#include <gtest/gtest.h>

#include "plugin/client/tables/push_plan.h"
#include "plugin/client/tables/row_split.h"
#include "runtime/base/error.h"
#include "tests/plugin/client/tables/bags.h"

namespace tps_test {

using Ids = std::vector<gint64>;

template <typename T>
static std::vector<T>
values_of (TpsTensorView view)
{
  const T *values = static_cast<const T *> (view.data);

  return std::vector<T> (values, values + tps_shape_n_elems (&view.shape));
}

static TpsPlacedTable *
ranges (TpsOptimizerKind optimizer = TPS_OPTIMIZER_SGD, guint n_servers = 3)
{
  g_auto (TpsTableSpec) spec = {};

  tps_table_spec_init (&spec, "emb", 30, 2);
  spec.optimizer = tps_optimizer_spec (optimizer, 0.1);
  EXPECT_TRUE (tps_table_spec_resolve (&spec, nullptr));
  return tps_placed_table_new_dealt (&spec, TPS_SHARD_RANGE, n_servers);
}

class Split : public testing::Test
{
protected:
  Split ()
  {
    bags_.table = "emb";
    bags_.indices = { 25, 3, 4, 11, 5, 12, 29, 11 };
    bags_.offsets = { 0, 1, 1, 5 };
  }

  ~Split () override
  {
    tps_bag_split_clear (&split_);
    tps_tensor_clear (&maxima_);
    tps_placed_table_unref (table_);
    g_clear_error (&error_);
  }

  void
  split (TpsSplitMode mode)
  {
    TpsBagQuery query = bags_.query ();

    tps_bag_split_init (&split_, table_, &query, mode);
  }

  Ids
  indices (guint part)
  {
    return values_of<gint64> (tps_bag_split_get_query (&split_, part).indices);
  }
  Ids
  offsets (guint part)
  {
    return values_of<gint64> (tps_bag_split_get_query (&split_, part).offsets);
  }

  bool
  answer (guint part, const std::vector<float> &values, gint64 dim = 2)
  {
    g_auto (TpsTensor) tensor = {};

    tps_tensor_init_copy (&tensor, view_of (values, dim));
    return tps_bag_split_take_answer (&split_, part, &tensor, &error_);
  }

  std::vector<float>
  merged ()
  {
    g_auto (TpsTensor) output = {};

    tps_bag_split_merge (&split_, &output, &maxima_);
    return values_of<float> (tps_tensor_view (&output));
  }

  Bags bags_;
  TpsPlacedTable *table_ = ranges ();
  TpsBagSplit split_ = {};
  TpsTensor maxima_ = {};
  GError *error_ = nullptr;
};

TEST_F (Split, ShardsGetTheirIdsInOrderAndOnlyBagsThatHaveSome)
{
  split (TPS_SPLIT_POOLED);
  ASSERT_EQ (split_.n_parts, 3u);
  EXPECT_EQ (indices (0), Ids ({ 3, 4, 5 }));
  EXPECT_EQ (offsets (0), Ids ({ 0 }));
  EXPECT_EQ (indices (1), Ids ({ 11, 12, 11 }));
  EXPECT_EQ (offsets (1), Ids ({ 0, 1 }));
  EXPECT_EQ (indices (2), Ids ({ 25, 29 }));
  EXPECT_EQ (offsets (2), Ids ({ 0, 1 }));
}

TEST_F (Split, PartsAreAddedInTheOrderOfTheShards)
{
  bags_.indices = { 25, 11, 1 };
  bags_.offsets = { 0 };
  split (TPS_SPLIT_POOLED);
  ASSERT_TRUE (answer (0, { 1e8f, 0 }) && answer (1, { -1e8f, 0 }) && answer (2, { 1, 2 }));
  EXPECT_EQ (merged (), std::vector<float> ({ 1, 2 })); /* in another order column 0 would be 0 */
}

TEST_F (Split, MeanIsDividedByTheCountOfTheWholeBag)
{
  bags_.pooling = TPS_POOLING_MEAN;
  split (TPS_SPLIT_POOLED);
  EXPECT_EQ (tps_bag_split_get_query (&split_, 0).pooling, TPS_POOLING_SUM);
  ASSERT_TRUE (answer (0, { 8, 0 }) && answer (1, { 4, 0, 6, 3 }) && answer (2, { 5, 6, 3, 9 }));
  EXPECT_EQ (merged (), std::vector<float> ({ 5, 6, 0, 0, 3, 0, 3, 4 }));
}

TEST_F (Split, MaximaAreThoseOfTheRows)
{
  bags_.pooling = TPS_POOLING_MAX;
  split (TPS_SPLIT_POOLED);
  EXPECT_EQ (tps_bag_split_get_query (&split_, 0).pooling, TPS_POOLING_SUM);
  EXPECT_EQ (indices (1), Ids ({ 11, 12, 11 }));
  EXPECT_EQ (offsets (1), Ids ({ 0, 1, 2 }));
  ASSERT_TRUE (answer (0, { -1, 7, 2, 4, 0, 7 }) && answer (1, { -2, 6, 1, 2, -2, 6 })
               && answer (2, { 5, 6, 1, 1 }));
  EXPECT_EQ (merged (), std::vector<float> ({ 5, 6, 0, 0, 2, 7, 1, 6 }));
  EXPECT_EQ (values_of<gint64> (tps_tensor_view (&maxima_)),
             Ids ({ 25, 25, -1, -1, 4, 3, 12, 11 }));
}

TEST_F (Split, MaximaInOneShardAreFoundHereToo)
{
  bags_.indices = { 21, 22 };
  bags_.offsets = { 0 };
  bags_.pooling = TPS_POOLING_MAX;
  split (TPS_SPLIT_EXACT);
  ASSERT_EQ (split_.n_parts, 1u);
  EXPECT_EQ (offsets (0), Ids ({ 0, 1 }));
  ASSERT_TRUE (answer (0, { 1, 4, 2, 3 }));
  EXPECT_EQ (merged (), std::vector<float> ({ 2, 4 }));
}

TEST_F (Split, WeightsGoWithTheirIds)
{
  bags_.has_weights = true;
  bags_.weights = { 1, 2, 3, 4, 5, 6, 7, 8 };
  split (TPS_SPLIT_POOLED);
  EXPECT_EQ (values_of<float> (tps_bag_split_get_query (&split_, 1).weights),
             std::vector<float> ({ 4, 6, 8 }));
}

TEST_F (Split, ExactAsksForTheRowsOfBagsThatSpanShards)
{
  split (TPS_SPLIT_EXACT);
  EXPECT_EQ (indices (0), Ids ({ 3, 4, 5 }));
  EXPECT_EQ (offsets (0), Ids ({ 0, 1, 2 }));
  EXPECT_EQ (offsets (1), Ids ({ 0, 1, 2 }));
  EXPECT_EQ (offsets (2), Ids ({ 0, 1 }));
}

TEST_F (Split, ExactAddsInTheOrderOfTheIndices)
{
  bags_.indices = { 25, 11, 1, 2, 3 };
  bags_.offsets = { 0, 3 };
  split (TPS_SPLIT_EXACT);
  EXPECT_EQ (offsets (0), Ids ({ 0, 1 })); /* a row, and a bag of two */
  ASSERT_TRUE (answer (2, { 1e8f, 0 }) && answer (1, { 1, 0 }) && answer (0, { -1e8f, 0, 7, 8 }));
  EXPECT_EQ (merged (), std::vector<float> ({ 0, 0, 7, 8 }));
}

TEST_F (Split, IdsInOneShardArePassedOnAsTheyAre)
{
  bags_.indices = { 25, 21, 20, 29, 21, 22, 23, 24 };
  bags_.pooling = TPS_POOLING_MEAN;
  split (TPS_SPLIT_POOLED);
  ASSERT_EQ (split_.n_parts, 1u);
  EXPECT_EQ (split_.parts[0].shard, 2u);
  TpsBagQuery query = tps_bag_split_get_query (&split_, 0);
  EXPECT_EQ (query.indices.data, bags_.indices.data ());
  EXPECT_EQ (query.offsets.data, bags_.offsets.data ());
  EXPECT_EQ (query.pooling, TPS_POOLING_MEAN);
}

TEST_F (Split, QueryWithoutIdsAsksNoShard)
{
  bags_.indices = {};
  bags_.offsets = { 0, 0 };
  split (TPS_SPLIT_POOLED);
  EXPECT_EQ (split_.n_parts, 0u);
  EXPECT_EQ (merged (), std::vector<float> (4, 0.0f));
}

TEST_F (Split, AnswerOfAnotherShapeIsRefused)
{
  split (TPS_SPLIT_POOLED);
  EXPECT_FALSE (answer (1, { 1, 2 }));
  EXPECT_STREQ (error_->message, "bags of table emb are FLOAT32 [1, 2], expected FLOAT32 [2, 2]");
}

class Push : public testing::Test
{
protected:
  ~Push () override
  {
    g_clear_pointer (&plan_, tps_push_plan_free);
    tps_placed_table_unref (table_);
  }

  void
  use (TpsOptimizerKind optimizer)
  {
    tps_placed_table_unref (table_);
    table_ = ranges (optimizer);
  }

  void
  add (const Ids &indices, const Ids &offsets, const std::vector<float> &gradient,
       TpsPooling pooling = TPS_POOLING_SUM)
  {
    Bags bags;

    bags.table = "emb";
    bags.indices = indices;
    bags.offsets = offsets;
    bags.gradient = gradient;
    bags.pooling = pooling;
    bags_.push_back (bags);
  }

  void
  plan ()
  {
    std::vector<TpsPlacedTable *> tables (bags_.size (), table_);
    std::vector<TpsBagGradient> gradients;

    for (const Bags &bags : bags_)
      gradients.push_back (bags.bag_gradient (2));
    plan_ = tps_push_plan_new (tables.data (), gradients.data (),
                               static_cast<guint> (gradients.size ()), 3);
  }

  const TpsBagGradient &
  pushed (guint server, guint i)
  {
    return g_array_index (plan_->requests[server].gradients, TpsBagGradient, i);
  }
  guint
  n_pushed (guint server)
  {
    return plan_->requests[server].gradients->len;
  }

  TpsPlacedTable *table_ = ranges ();
  std::vector<Bags> bags_;
  TpsPushPlan *plan_ = nullptr;
};

TEST_F (Push, EachShardGetsTheGradientsOfItsBags)
{
  add ({ 1, 21, 22 }, { 0, 2 }, { 1, 2, 3, 4 });
  plan ();
  tps_push_plan_finish (plan_);
  ASSERT_EQ (n_pushed (0), 1u);
  EXPECT_EQ (n_pushed (1), 0u);
  ASSERT_EQ (n_pushed (2), 1u);
  EXPECT_EQ (values_of<float> (pushed (0, 0).gradient), std::vector<float> ({ 1, 2 }));
  EXPECT_EQ (values_of<gint64> (pushed (2, 0).query.indices), Ids ({ 21, 22 }));
  EXPECT_EQ (values_of<float> (pushed (2, 0).gradient), std::vector<float> ({ 1, 2, 3, 4 }));
}

TEST_F (Push, MeanIsDividedByTheCountOfTheWholeBag)
{
  add ({ 1, 21, 22, 2 }, { 0 }, { 1, 2 }, TPS_POOLING_MEAN);
  plan ();
  tps_push_plan_finish (plan_);
  EXPECT_EQ (pushed (0, 0).query.pooling, TPS_POOLING_SUM);
  EXPECT_EQ (values_of<float> (pushed (0, 0).gradient), std::vector<float> ({ 0.25f, 0.5f }));
  EXPECT_EQ (values_of<float> (pushed (2, 0).gradient), std::vector<float> ({ 0.25f, 0.5f }));
}

TEST_F (Push, GradientsStayInTheOrderOfTheList)
{
  add ({ 1, 21 }, { 0 }, { 1, 1 });
  add ({ 1 }, { 0 }, { 2, 2 }, TPS_POOLING_MEAN);
  add ({ 21, 1 }, { 0 }, { 3, 3 });
  plan ();
  tps_push_plan_finish (plan_);
  ASSERT_EQ (n_pushed (0), 3u);
  for (guint i = 0; i < 3; i++)
    EXPECT_EQ (values_of<float> (pushed (0, i).gradient)[0], static_cast<float> (i + 1));
}

TEST_F (Push, ShardsWithoutIdsCountTheStepWhereTheOptimizerDoes)
{
  use (TPS_OPTIMIZER_ADAM);
  add ({ 1 }, { 0 }, { 1, 1 });
  add ({ 2, 3 }, { 0 }, { 1, 1 });
  plan ();
  tps_push_plan_finish (plan_);
  EXPECT_EQ (n_pushed (0), 2u);
  for (guint server : { 1u, 2u })
    {
      ASSERT_EQ (n_pushed (server), 1u);
      EXPECT_STREQ (pushed (server, 0).query.table, "emb");
      EXPECT_EQ (pushed (server, 0).query.indices.shape.dims[0], 0);
      EXPECT_EQ (pushed (server, 0).gradient.shape.dims[0], 0);
      EXPECT_EQ (pushed (server, 0).gradient.shape.dims[1], 2);
    }
}

TEST_F (Push, WithoutIdsOrStepsNothingIsPushed)
{
  add ({}, { 0, 0 }, { 1, 1, 1, 1 });
  plan ();
  tps_push_plan_finish (plan_);
  for (guint server = 0; server < 3; server++)
    EXPECT_EQ (n_pushed (server), 0u);
}

TEST_F (Push, MaximaOfTheCallerNeedNoLookup)
{
  add ({ 1, 2, 21, 3 }, { 0, 3 }, { 1, 2, 4, 8 }, TPS_POOLING_MAX);
  bags_[0].maxima = { 21, 2, 3, 2 };
  plan ();
  EXPECT_EQ (plan_->rows, nullptr);
  tps_push_plan_finish (plan_);
  EXPECT_EQ (pushed (0, 0).query.pooling, TPS_POOLING_SUM);
  EXPECT_EQ (values_of<gint64> (pushed (0, 0).query.indices), Ids ({ 2, 3 }));
  EXPECT_EQ (values_of<float> (pushed (0, 0).gradient), std::vector<float> ({ 0, 10, 4, 0 }));
  EXPECT_EQ (values_of<gint64> (pushed (2, 0).query.indices), Ids ({ 21 }));
  EXPECT_EQ (values_of<float> (pushed (2, 0).gradient), std::vector<float> ({ 1, 0 }));
}

TEST_F (Push, WithoutThemTheyGoToTheRowsThatAreLargestNow)
{
  /* The second of the two bags has equal rows, so its first row wins. */
  add ({ 21, 1, 2, 11, 12 }, { 0, 3 }, { 1, 2, 3, 4 }, TPS_POOLING_MAX);
  plan ();
  ASSERT_NE (plan_->rows, nullptr);
  const std::vector<std::vector<float>> rows = { { 5, 9, 6, 9 }, { 3, 3, 3, 3 }, { 4, 8 } };
  for (guint server = 0; server < 3; server++)
    {
      TpsTensor tensor = {};

      tps_tensor_init_copy (&tensor, view_of (rows[server], 2));
      ASSERT_TRUE (tps_lookup_plan_take_answer (plan_->rows, server, &tensor, 1, nullptr));
    }
  tps_push_plan_finish (plan_);
  /* In bag 0, row 2 has the maximum of column 0, and row 1 has the first maximum of column 1. */
  EXPECT_EQ (values_of<gint64> (pushed (0, 0).query.indices), Ids ({ 2, 1 }));
  EXPECT_EQ (values_of<float> (pushed (0, 0).gradient), std::vector<float> ({ 1, 0, 0, 2 }));
  EXPECT_EQ (pushed (0, 0).query.pooling, TPS_POOLING_SUM);
  EXPECT_EQ (values_of<gint64> (pushed (1, 0).query.indices), Ids ({ 11 }));
  EXPECT_EQ (values_of<float> (pushed (1, 0).gradient), std::vector<float> ({ 3, 4 }));
  EXPECT_EQ (n_pushed (2), 0u);
}

TEST (LookupPlan, AnswerWithTooFewTensorsIsRefused)
{
  g_autoptr (TpsPlacedTable) table = ranges ();
  g_autoptr (GError) error = nullptr;
  Bags bags;

  bags.table = "emb";
  bags.indices = { 1 };
  bags.offsets = { 0 };
  TpsBagQuery queries[] = { bags.query (), bags.query () };
  TpsPlacedTable *tables[] = { table, table };
  TpsTensor tensor = {};
  g_autoptr (TpsLookupPlan) plan = tps_lookup_plan_new (tables, queries, 2, TPS_SPLIT_POOLED, 3);

  EXPECT_EQ (plan->requests[0].queries->len, 2u);
  EXPECT_FALSE (tps_lookup_plan_take_answer (plan, 0, &tensor, 1, &error));
  EXPECT_STREQ (error->message, "the reply has 1 tensors, expected 2");
}

TEST (RowSplit, RowsKeepTheirOrderAndComeBackToTheirPlaces)
{
  g_autoptr (TpsPlacedTable) table = ranges ();
  std::vector<gint64> rows = { 29, 1, 28, 1 };
  TpsRowSplit split;
  g_auto (TpsTensor) merged = {};

  tps_row_split_init (&split, table, view_of (rows), FALSE);
  ASSERT_EQ (split.n_parts, 2u);
  EXPECT_EQ (values_of<gint64> (split.parts[0].indices), Ids ({ 1, 1 }));
  EXPECT_EQ (values_of<gint64> (split.parts[1].indices), Ids ({ 29, 28 }));
  for (guint part = 0; part < 2; part++)
    {
      std::vector<float> values = { part * 10.0f, 0, part * 10.0f + 1, 0 };
      TpsTensor answer = {};

      tps_tensor_init_copy (&answer, view_of (values, 2));
      ASSERT_TRUE (tps_row_split_take_answer (&split, part, &answer, nullptr));
    }
  tps_row_split_merge (&split, &merged);
  EXPECT_EQ (values_of<float> (tps_tensor_view (&merged)),
             std::vector<float> ({ 10, 0, 0, 0, 11, 0, 1, 0 }));
  tps_row_split_clear (&split);
}

TEST (RowSplit, AllShardsHaveAPartWhereEachCountsTheStep)
{
  g_autoptr (TpsPlacedTable) table = ranges ();
  std::vector<gint64> rows = { 12 };
  std::vector<float> values = { 5, 6 };
  TpsRowSplit split;

  tps_row_split_init (&split, table, view_of (rows), TRUE);
  ASSERT_EQ (split.n_parts, 3u);
  for (guint part = 0; part < 3; part++)
    {
      g_auto (TpsTensor) gathered = {};

      tps_row_split_gather (&split, part, view_of (values, 2), &gathered);
      EXPECT_EQ (gathered.shape.dims[0], part == 1 ? 1 : 0);
      EXPECT_EQ (gathered.shape.dims[1], 2);
    }
  tps_row_split_clear (&split);
}

}
