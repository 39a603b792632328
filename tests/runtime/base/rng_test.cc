/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace {

// The published test vectors of Random123 (kat_vectors, philox4x32 10).
TEST (Rng, PhiloxGivesItsPublishedVectors)
{
  const struct
  {
    guint32 counter[4], key[2], block[4];
  } cases[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
      { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
  };

  for (const auto &test : cases)
    {
      guint32 block[4];

      tps_rng_philox (test.counter, test.key, block);
      for (int i = 0; i < 4; i++)
        EXPECT_EQ (block[i], test.block[i]);
    }
}

TEST (Rng, SeedsAndStreamsDiffer)
{
  TpsRng a, b, c, d;

  tps_rng_init (&a, 5, 0);
  tps_rng_init (&b, 5, 0);
  tps_rng_init (&c, 5, 1);
  tps_rng_init (&d, 5 + (G_GINT64_CONSTANT (1) << 32), 0);
  guint64 first = tps_rng_next_u64 (&a);
  EXPECT_EQ (first, tps_rng_next_u64 (&b));
  EXPECT_NE (first, tps_rng_next_u64 (&c));
  EXPECT_NE (first, tps_rng_next_u64 (&d));
}

TEST (Rng, BelowCoversItsRangeEvenly)
{
  TpsRng rng;
  std::vector<int> counts (7);

  tps_rng_init (&rng, 1, 0);
  for (int i = 0; i < 70000; i++)
    counts[tps_rng_next_below (&rng, 7)]++;
  for (int count : counts)
    EXPECT_NEAR (count, 10000, 400);
  EXPECT_EQ (tps_rng_next_below (&rng, 1), 0u);
  EXPECT_LT (tps_rng_next_below (&rng, G_MAXUINT64), G_MAXUINT64);
}

TEST (Rng, DoublesAreInTheUnitInterval)
{
  TpsRng rng;
  double sum = 0;

  tps_rng_init (&rng, 2, 0);
  for (int i = 0; i < 100000; i++)
    {
      double x = tps_rng_next_double (&rng);

      ASSERT_GE (x, 0);
      ASSERT_LT (x, 1);
      sum += x;
    }
  EXPECT_NEAR (sum / 100000, 0.5, 0.005);
}

TEST (Rng, NormalsHaveTheirMoments)
{
  TpsRng rng;
  double moments[5] = { 0 };
  const int n = 200000;
  int n_far = 0;

  tps_rng_init (&rng, 3, 0);
  for (int i = 0; i < n; i++)
    {
      double x = tps_rng_next_normal (&rng);

      for (int k = 1; k <= 4; k++)
        moments[k] += std::pow (x, k) / n;
      n_far += std::fabs (x) > 1.959963984540054;
    }
  EXPECT_NEAR (moments[1], 0, 0.01);
  EXPECT_NEAR (moments[2], 1, 0.015);
  EXPECT_NEAR (moments[3], 0, 0.04);
  EXPECT_NEAR (moments[4], 3, 0.1);
  EXPECT_NEAR (n_far / (double) n, 0.05, 0.003);
}

// Repeats the computation from the generator's words to a normal number, with the library's
// logarithm instead of the project's own.
TEST (Rng, NormalsAgreeWithTheLibrarysLogarithm)
{
  TpsRng ours, words;

  tps_rng_init (&ours, 4, 9);
  tps_rng_init (&words, 4, 9);
  for (int i = 0; i < 1000; i++)
    {
      double x, y, square;

      do
        {
          x = 2 * tps_rng_next_double (&words) - 1;
          y = 2 * tps_rng_next_double (&words) - 1;
          square = x * x + y * y;
        }
      while (square >= 1 || square == 0);
      double factor = std::sqrt (-2 * std::log (square) / square);
      EXPECT_NEAR (tps_rng_next_normal (&ours), x * factor, 1e-12);
      EXPECT_NEAR (tps_rng_next_normal (&ours), y * factor, 1e-12);
    }
}

TEST (Rng, FillsStayInTheirRange)
{
  TpsRng rng;
  std::vector<float> values (10000);

  tps_rng_init (&rng, 5, 0);
  tps_rng_fill_uniform (&rng, values.data (), values.size (), -0.25, 0.5);
  EXPECT_GE (*std::min_element (values.begin (), values.end ()), -0.25f);
  EXPECT_LE (*std::max_element (values.begin (), values.end ()), 0.5f);
  EXPECT_LT (*std::min_element (values.begin (), values.end ()), -0.249f);
  EXPECT_GT (*std::max_element (values.begin (), values.end ()), 0.499f);
}

TEST (Rng, ShuffleKeepsAllAndMovesThem)
{
  TpsRng rng;
  std::vector<gint64> values (100);

  for (gint64 i = 0; i < 100; i++)
    values[i] = i;
  tps_rng_init (&rng, 6, 0);
  std::vector<gint64> shuffled = values;
  tps_rng_shuffle (&rng, shuffled.data (), shuffled.size ());
  EXPECT_NE (shuffled, values);
  std::sort (shuffled.begin (), shuffled.end ());
  EXPECT_EQ (shuffled, values);
}

} // namespace
