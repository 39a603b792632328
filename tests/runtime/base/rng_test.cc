/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/rng.h"

#include <gtest/gtest.h>

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

} // namespace
