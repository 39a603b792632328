// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/rng.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace {

constexpr size_t N = 1000000;

std::vector<float>
draw (gint64 seed, guint64 stream, size_t n)
{
  std::vector<float> values (n);
  TpsRng rng;

  tps_rng_init (&rng, seed, stream);
  tps_ziggurat_fill (&rng, values.data (), n);
  return values;
}

double
normal_below (double x)
{
  return 0.5 * std::erfc (-x / std::sqrt (2.0));
}

// A Kolmogorov-Smirnov test. Among samples of a million numbers from the right distribution, one in
// 10^5 deviates by more than 2.5 / 1000.
TEST (Ziggurat, NumbersAreNormallyDistributed)
{
  std::vector<float> values = draw (3, 0, N);
  double worst = 0;

  std::sort (values.begin (), values.end ());
  for (size_t i = 0; i < N; i++)
    worst = std::max (worst, std::fabs (normal_below (values[i]) - (i + 0.5) / N));
  EXPECT_LT (worst, 0.0025);
}

// The tail begins at 3.44, the last edge of a layer. One number in 1737 lies beyond it.
TEST (Ziggurat, TheTailIsThere)
{
  std::vector<float> values = draw (5, 2, N);
  auto n_beyond = [&] (double edge) {
    return std::count_if (values.begin (), values.end (),
                          [=] (float x) { return std::fabs (x) > edge; });
  };

  EXPECT_NEAR (n_beyond (3.442619855899) / (double) N, 2 * normal_below (-3.442619855899), 0.0001);
  EXPECT_NEAR (n_beyond (4) / (double) N, 2 * normal_below (-4), 0.00004);
  EXPECT_GT (std::count_if (values.begin (), values.end (), [] (float x) { return x < -4; }), 5);
  EXPECT_GT (std::count_if (values.begin (), values.end (), [] (float x) { return x > 4; }), 5);
}

} // namespace
