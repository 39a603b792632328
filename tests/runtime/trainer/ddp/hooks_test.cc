/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/trainee.h"

namespace {

using testing::ElementsAre;
using testing::EndsWith;

/* Returns a sparse parameter and a dense one of `n_dense` elements. */
std::vector<FakeModel::Parameter>
make_model (size_t n_dense)
{
  return { { "embedding", { 6, 2 }, true }, { "weight", { (gint64) n_dense }, false } };
}

/* The inputs and the results of a rank. */
struct Rank
{
  bool has_data = true;
  std::vector<float> dense;
  std::vector<gint64> ids;
  float rows_value = 1;

  std::string error;
  std::vector<float> reduced, reduced_rows;
  std::vector<gint64> reduced_ids;
};

/* Runs one step of one rank. */
void
step (Rank *rank, TpsProcessGroup *group)
{
  Trainee t (make_model (rank->has_data ? rank->dense.size () : 4),
             { .first_mib = 1, .cap_mib = 1, .hook = "allreduce_hook", .group = group });

  t.model.gradient_of = [&] (guint i, gint64 j) {
    return i == 0 ? rank->rows_value : rank->dense[static_cast<size_t> (j)];
  };
  t.model.ids_of = [&] (guint) { return rank->ids; };
  rank->error = rank->has_data ? t.backward () : t.join_step ();
  rank->reduced = t.reduced (0);
  rank->reduced_rows = t.reduced (1);
  const TpsGradient *sparse = tps_ddp_get_reduced (t.ddp, 1);
  if (sparse->kind == TPS_GRADIENT_SPARSE)
    {
      const gint64 *ids = static_cast<const gint64 *> (tps_tensor_data (&sparse->indices));

      rank->reduced_ids.assign (ids, ids + sparse->indices.shape.dims[0]);
    }
  group->ops->free (group);
}

void
step_all (std::vector<Rank> *ranks)
{
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (static_cast<guint> (ranks->size ()));

  run_ranks (static_cast<guint> (ranks->size ()),
             [&] (guint r) { step (&(*ranks)[r], groups[r]); });
}

Rank
rank_of (std::vector<float> dense, std::vector<gint64> ids, float rows_value)
{
  Rank rank;

  rank.dense = std::move (dense);
  rank.ids = std::move (ids);
  rank.rows_value = rows_value;
  return rank;
}

TEST (AllReduce, RanksWithoutDataCountForNothingAndGetTheMeanToo)
{
  std::vector<Rank> ranks = { rank_of ({ 1, 2, 3, 4 }, { 1 }, 2.0f), Rank (),
                              rank_of ({ 3, 4, 5, 6 }, { 1, 4 }, 4.0f) };

  ranks[1].has_data = false;
  step_all (&ranks);
  for (const Rank &rank : ranks)
    {
      EXPECT_EQ (rank.error, "");
      EXPECT_THAT (rank.reduced, ElementsAre (2, 3, 4, 5));
      EXPECT_THAT (rank.reduced_ids, ElementsAre (1, 4));
      EXPECT_THAT (rank.reduced_rows, ElementsAre (3, 3, 2, 2));
    }
}

TEST (AllReduce, NoRankWithDataIsAnError)
{
  std::vector<Rank> ranks (2);

  ranks[0].has_data = ranks[1].has_data = false;
  step_all (&ranks);
  for (const Rank &rank : ranks)
    EXPECT_THAT (rank.error,
                 EndsWith (": all-reduce of bucket 0: the weights of all trainers are 0"));
}

TEST (AllReduce, ARankWithAnotherMatrixIsRefusedByAll)
{
  std::vector<Rank> ranks = { rank_of ({ 1, 2, 3, 4 }, { 0, 7 }, 2.0f),
                              rank_of ({ 3, 4, 5, 6 }, { 1 }, 4.0f) };

  step_all (&ranks); /* id 7 exceeds the 6 rows */
  for (const Rank &rank : ranks)
    EXPECT_THAT (rank.error, EndsWith (": sparse all-reduce of bucket 1: invalid data from rank 0: "
                                       "its ids are not ascending within the matrix"));
}

} /* namespace */
