// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/dlrm/click_log.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace {

TEST (Zipf, DrawsFollowTheDistribution)
{
  constexpr int N_DRAWS = 200000;

  for (double exponent : { 0.5, 1.0, 1.05, 2.0 })
    {
      constexpr gint64 N = 20;
      std::vector<double> expected (N), drawn (N);
      TpsZipf zipf;
      TpsRng rng;
      double sum = 0;

      for (gint64 k = 0; k < N; k++)
        sum += expected[k] = std::pow (static_cast<double> (k + 1), -exponent);
      tps_zipf_init (&zipf, N, exponent);
      tps_rng_init (&rng, 3, 0);
      for (int i = 0; i < N_DRAWS; i++)
        drawn.at (static_cast<size_t> (tps_zipf_draw (&zipf, &rng)))++;
      for (gint64 k = 0; k < N; k++)
        {
          double p = expected[k] / sum;

          // The bound is five standard deviations. The random numbers are the same in every run.
          EXPECT_NEAR (drawn[k], p * N_DRAWS, 5 * std::sqrt (p * (1 - p) * N_DRAWS))
              << "exponent " << exponent << ", k " << k;
        }
    }
}

TEST (Zipf, OneValueAndManyValuesStayInRange)
{
  for (gint64 n : { G_GINT64_CONSTANT (1), G_GINT64_CONSTANT (2), G_GINT64_CONSTANT (10131227) })
    {
      TpsZipf zipf;
      TpsRng rng;

      tps_zipf_init (&zipf, n, 1.05);
      tps_rng_init (&rng, 1, 2);
      for (int i = 0; i < 2000; i++)
        {
          gint64 k = tps_zipf_draw (&zipf, &rng);

          ASSERT_TRUE (k >= 0 && k < n) << k;
        }
    }
}

class SyntheticLog : public testing::Test
{
protected:
  void
  fill (guint64 first, gsize n_samples, TpsClickBatch *batch, gboolean is_uniform = FALSE)
  {
    TpsSyntheticLog log;

    tps_click_shape_init (&shape, 0.01, 3);
    tps_synthetic_log_init (&log, &shape, 5, is_uniform, 1.05);
    tps_click_batch_init (batch, &shape, n_samples);
    tps_synthetic_log_fill (&log, first, batch);
  }

  TpsClickShape shape;
};

TEST_F (SyntheticLog, SamplesDependOnTheirNumberOnly)
{
  g_auto (TpsClickBatch) all = {}, part = {};

  fill (10, 20, &all);
  fill (17, 5, &part);
  for (gsize i = 0; i < part.n_samples; i++)
    {
      EXPECT_EQ (part.labels[i], all.labels[7 + i]);
      EXPECT_EQ (part.dense[i * TPS_CLICK_DENSE], all.dense[(7 + i) * TPS_CLICK_DENSE]);
      for (guint t = 0; t < TPS_CLICK_TABLES; t++)
        for (gsize j = 0; j < shape.bag_length[t]; j++)
          EXPECT_EQ (part.ids[t][i * shape.bag_length[t] + j],
                     all.ids[t][(7 + i) * shape.bag_length[t] + j]);
    }
}

TEST_F (SyntheticLog, SixTablesHaveLongerBagsAndAllIdsAreInRange)
{
  g_auto (TpsClickBatch) batch = {};

  fill (0, 100, &batch);
  EXPECT_EQ (std::count (shape.bag_length, shape.bag_length + TPS_CLICK_TABLES, 3u), 6);
  EXPECT_EQ (std::count (shape.bag_length, shape.bag_length + TPS_CLICK_TABLES, 1u), 20);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    for (gsize i = 0; i < batch.n_samples * shape.bag_length[t]; i++)
      ASSERT_TRUE (batch.ids[t][i] >= 0 && batch.ids[t][i] < shape.rows[t]);
}

TEST_F (SyntheticLog, ZipfRepeatsIdsMoreThanUniform)
{
  std::map<gint64, int> of_zipf, of_uniform;
  g_auto (TpsClickBatch) zipf = {}, uniform = {};

  fill (0, 1000, &zipf);
  fill (0, 1000, &uniform, TRUE);
  for (gsize i = 0; i < 3000; i++) // table 2 is the largest
    {
      of_zipf[zipf.ids[2][i]]++;
      of_uniform[uniform.ids[2][i]]++;
    }
  EXPECT_LT (of_zipf.size (), of_uniform.size () * 3 / 4);
}

TEST_F (SyntheticLog, ClicksAreAMinority)
{
  g_auto (TpsClickBatch) batch = {};
  double n_clicks = 0;

  fill (0, 4000, &batch);
  for (gsize i = 0; i < batch.n_samples; i++)
    n_clicks += static_cast<double> (batch.labels[i]);
  EXPECT_GT (n_clicks, 400);
  EXPECT_LT (n_clicks, 2000);
}

TEST (ClickShape, ScalesThePublishedCardinalities)
{
  TpsClickShape shape;

  tps_click_shape_init (&shape, 1, 1);
  EXPECT_EQ (tps_click_shape_count_rows (&shape), 33762577);
  tps_click_shape_init (&shape, 1e-7, 1);
  EXPECT_EQ (shape.rows[2], 2); // rounded up
  EXPECT_EQ (shape.rows[0], 1);
}

}
