/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/table_steps/step_rows.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace {

class StepRows : public testing::Test
{
protected:
  void
  SetUp () override
  {
    tps_step_rows_init (&rows, 2);
  }

  void
  TearDown () override
  {
    tps_step_rows_clear (&rows);
  }

  void
  set_bags (const std::vector<gint64> &the_ids, const std::vector<gint64> &the_offsets)
  {
    ids = the_ids;
    offsets = the_offsets;
    TpsStepBags bags = { ids.data (), ids.size (), offsets.data (), offsets.size () };
    tps_step_rows_set_bags (&rows, &bags);
  }

  std::vector<gint64>
  list_ids () const
  {
    return { rows.groups.ids, rows.groups.ids + rows.groups.n_groups };
  }

  std::vector<gint64>
  list_stale () const
  {
    return { rows.stale, rows.stale + rows.n_stale };
  }

  TpsStepRows rows;
  std::vector<gint64> ids, offsets;
};

TEST_F (StepRows, PoolsRowsOfDifferentIds)
{
  const gfloat values[] = { 1, 10, 2, 20, 3, 30 }; // rows 4, 5 and 9
  gfloat pooled[9];

  set_bags ({ 9, 4, 9, 5 }, { 0, 3, 3 });
  EXPECT_EQ (list_ids (), std::vector<gint64> ({ 4, 5, 9 }));
  tps_step_rows_take_all (&rows, values);
  pooled[2] = pooled[5] = 7;
  tps_step_rows_pool (&rows, { pooled, 3 });
  EXPECT_EQ (std::vector<gfloat> (pooled, pooled + 8),
             std::vector<gfloat> ({ 7, 70, 7, 0, 0, 7, 2, 20 }));
}

TEST_F (StepRows, StaleRowsReplaceOlderOnes)
{
  const gfloat values[] = { 1, 10, 2, 20, 3, 30 }, fresh[] = { 5, 50 };
  const gint64 changed[] = { 1, 9, 12 };
  gfloat pooled[6];

  set_bags ({ 9, 4, 5 }, { 0, 1, 2 });
  tps_step_rows_mark_stale (&rows, changed, 3);
  EXPECT_EQ (list_stale (), std::vector<gint64> ({ 9 }));
  tps_step_rows_take_all (&rows, values);
  tps_step_rows_take_stale (&rows, fresh);
  EXPECT_TRUE (list_stale ().empty ());
  tps_step_rows_pool (&rows, { pooled, 2 });
  EXPECT_EQ (std::vector<gfloat> (pooled, pooled + 6),
             std::vector<gfloat> ({ 5, 50, 1, 10, 2, 20 }));
}

TEST_F (StepRows, MarksAreTheUnionOfAllChangesWithinTheStep)
{
  std::mt19937 dice (3);

  for (int round = 0; round < 200; round++)
    {
      std::set<gint64> of_step, expected;
      std::vector<gint64> some (dice () % 30);

      for (gint64 &id : some)
        of_step.insert (id = dice () % 50);
      set_bags (some, { 0 });
      for (int i = 0; i < 3; i++)
        {
          std::set<gint64> changed;

          for (unsigned n = dice () % 20; n > 0; n--)
            changed.insert (dice () % 50);
          std::vector<gint64> list (changed.begin (), changed.end ());
          tps_step_rows_mark_stale (&rows, list.data (), list.size ());
          std::set_intersection (of_step.begin (), of_step.end (), changed.begin (), changed.end (),
                                 std::inserter (expected, expected.end ()));
          EXPECT_EQ (list_stale (), std::vector<gint64> (expected.begin (), expected.end ()));
        }
    }
}

TEST_F (StepRows, GradientsAreAddedUpById)
{
  gfloat gradients[] = { 1, 10, 2, 20, 4, 40 };

  set_bags ({ 3, 7, 3, 3 }, { 0, 2, 3 }); // three bags: (3, 7), (3) and (3)
  tps_step_rows_add_up (&rows, { gradients, 2 });
  EXPECT_EQ (std::vector<gfloat> (rows.sums, rows.sums + 4),
             std::vector<gfloat> ({ 7, 70, 1, 10 }));
}

}
