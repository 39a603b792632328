// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/dlrm/click_log.h"

#include <cmath>
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
  fill (guint64 first, gsize n_samples, TpsClickBatch *batch)
  {
    TpsSyntheticLog log;

    tps_click_shape_init (&shape, 0.01, 3);
    tps_synthetic_log_init (&log, &shape, 5, FALSE, 1.05);
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

}
