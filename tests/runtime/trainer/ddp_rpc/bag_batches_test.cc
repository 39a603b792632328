/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ddp_rpc/bag_batches.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace {

TpsBagBatches
make (const TpsBagBatchesOptions &options)
{
  TpsBagBatches batches;

  tps_bag_batches_init (&batches, &options);
  return batches;
}

TpsBagBatch
next (TpsBagBatches *batches)
{
  TpsBagBatch batch;

  tps_bag_batches_next (batches, &batch);
  return batch;
}

bool
equal (const TpsBagBatch &a, const TpsBagBatch &b)
{
  return a.n_indices == b.n_indices && a.n_bags == b.n_bags
         && std::equal (a.indices, a.indices + a.n_indices, b.indices)
         && std::equal (a.offsets, a.offsets + a.n_bags, b.offsets)
         && std::equal (a.targets, a.targets + a.n_bags, b.targets);
}

class BagBatches : public testing::TestWithParam<TpsBagTask>
{
};

TEST_P (BagBatches, HaveTheShapesOfTheOriginal)
{
  TpsBagBatches batches = make ({ GetParam (), 300, 10, 1, 0, 0 });
  std::set<guint> sizes;
  std::set<gint64> steps, targets, ids;

  for (int i = 0; i < 3000; i++)
    {
      TpsBagBatch batch = next (&batches);

      sizes.insert (batch.n_indices);
      ASSERT_EQ (batch.offsets[0], 0);
      for (guint bag = 1; bag < batch.n_bags; bag++)
        steps.insert (batch.offsets[bag] - batch.offsets[bag - 1]);
      ASSERT_LT (batch.offsets[batch.n_bags - 1], batch.n_indices);
      ASSERT_GE (batch.offsets[batch.n_bags - 1] + 10, batch.n_indices)
          << "bags go on as long as they begin before the end";
      targets.insert (batch.targets, batch.targets + batch.n_bags);
      ids.insert (batch.indices, batch.indices + batch.n_indices);
    }
  EXPECT_EQ (sizes.size (), 31u);
  EXPECT_EQ (*sizes.begin (), 20u);
  EXPECT_EQ (*sizes.rbegin (), 50u);
  EXPECT_EQ (steps, (std::set<gint64> { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }));
  EXPECT_EQ (targets, (std::set<gint64> { 0, 1, 2, 3, 4, 5, 6, 7 }));
  EXPECT_EQ (ids.size (), 300u) << "each id occurs, and no other";
  EXPECT_EQ (*ids.begin (), 0);
  EXPECT_EQ (*ids.rbegin (), 299);
}

TEST_P (BagBatches, AreTheSameForASeedAndDifferForTrainersEpochsAndSeeds)
{
  TpsBagBatches first = make ({ GetParam (), 300, 2, 5, 0, 0 });
  TpsBagBatches again = make ({ GetParam (), 300, 2, 5, 0, 0 });
  TpsBagBatches later = make ({ GetParam (), 300, 2, 5, 0, 1 });
  TpsBagBatches other_trainer = make ({ GetParam (), 300, 2, 5, 1, 0 });
  TpsBagBatches other_seed = make ({ GetParam (), 300, 2, 6, 0, 0 });
  TpsBagBatch batch = next (&first);

  EXPECT_TRUE (equal (batch, next (&again)));
  EXPECT_FALSE (equal (batch, next (&other_trainer)));
  EXPECT_FALSE (equal (batch, next (&other_seed)));
  EXPECT_FALSE (equal (batch, next (&first))) << "batches of an epoch differ";
  EXPECT_TRUE (equal (next (&first), next (&later))) << "an epoch does not depend on those before";
}

TEST_P (BagBatches, WorkWithFewEmbeddings)
{
  for (gint64 rows : { 1, 2, 7, 8, 9 })
    {
      TpsBagBatches batches = make ({ GetParam (), rows, 10, 1, 0, 0 });

      for (int i = 0; i < 200; i++)
        {
          TpsBagBatch batch = next (&batches);

          for (guint j = 0; j < batch.n_indices; j++)
            ASSERT_TRUE (batch.indices[j] >= 0 && batch.indices[j] < rows);
        }
    }
}

INSTANTIATE_TEST_SUITE_P (Tasks, BagBatches,
                          testing::Values (TPS_BAG_TASK_RANDOM, TPS_BAG_TASK_LEARNABLE));

TEST (LearnableBags, EncodeTheirClassInEachId)
{
  for (gint64 rows : { 5, 8, 300 })
    {
      TpsBagBatches batches = make ({ TPS_BAG_TASK_LEARNABLE, rows, 10, 1, 0, 0 });
      gint64 n_classes = rows < 8 ? rows : 8;

      for (int i = 0; i < 200; i++)
        {
          TpsBagBatch batch = next (&batches);

          for (guint bag = 0; bag < batch.n_bags; bag++)
            {
              gint64 end = bag + 1 < batch.n_bags ? batch.offsets[bag + 1] : batch.n_indices;

              for (gint64 j = batch.offsets[bag]; j < end; j++)
                ASSERT_EQ (batch.indices[j] % n_classes, batch.targets[bag]);
            }
        }
    }
}

TEST (BagTask, IsFoundByName)
{
  g_autoptr (GError) error = nullptr;
  TpsBagTask task = TPS_BAG_TASK_RANDOM;

  EXPECT_TRUE (tps_bag_task_find ("learnable", &task, &error));
  EXPECT_EQ (task, TPS_BAG_TASK_LEARNABLE);
  EXPECT_FALSE (tps_bag_task_find ("easy", &task, &error));
  EXPECT_STREQ (error->message, "unknown task \"easy\"; known: learnable, random");
  EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
}

} // namespace
