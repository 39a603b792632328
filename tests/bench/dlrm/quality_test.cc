// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/dlrm/quality.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace {

GArray *
make (const std::vector<TpsPrediction> &predictions)
{
  GArray *array = g_array_new (FALSE, FALSE, sizeof (TpsPrediction));

  g_array_append_vals (array, predictions.data (), static_cast<guint> (predictions.size ()));
  return array;
}

double
count_pairs (const std::vector<TpsPrediction> &predictions)
{
  double ordered = 0, pairs = 0;

  for (const TpsPrediction &click : predictions)
    for (const TpsPrediction &other : predictions)
      if (click.label == 1 && other.label == 0)
        {
          pairs++;
          ordered += click.logit > other.logit ? 1 : click.logit == other.logit ? 0.5 : 0;
        }
  return ordered / pairs;
}

TEST (Quality, AucIsTheShareOfOrderedPairs)
{
  std::mt19937 dice (7);

  for (int round = 0; round < 50; round++)
    {
      std::vector<TpsPrediction> predictions = { { 0, 0 }, { 1, 1 } };

      for (int i = 0; i < 40; i++) // there are few different logits, so many are equal
        predictions.push_back (
            { static_cast<double> (dice () % 9), static_cast<double> (dice () % 2) });
      g_autoptr (GArray) array = make (predictions);
      EXPECT_NEAR (tps_quality_get_auc (array), count_pairs (predictions), 1e-12);
    }
}

TEST (Quality, LogLossIsTheMeanCrossEntropyAndStaysFinite)
{
  g_autoptr (GArray) two = make ({ { 2, 1 }, { -1, 0 } });
  g_autoptr (GArray) extreme = make ({ { 1000, 0 }, { -1000, 0 } });

  EXPECT_NEAR (tps_quality_get_log_loss (two),
               (-std::log (1 / (1 + std::exp (-2.0))) - std::log (1 / (1 + std::exp (-1.0)))) / 2,
               1e-12);
  EXPECT_NEAR (tps_quality_get_log_loss (extreme), 500, 1e-9);
}

TEST (Quality, NothingIsKnownWithoutPredictionsOfBothKinds)
{
  g_autoptr (GArray) none = make ({});
  g_autoptr (GArray) clicks = make ({ { 1, 1 }, { 2, 1 } });

  EXPECT_TRUE (std::isnan (tps_quality_get_log_loss (none)));
  EXPECT_TRUE (std::isnan (tps_quality_get_auc (none)));
  EXPECT_TRUE (std::isnan (tps_quality_get_auc (clicks)));
}

}
