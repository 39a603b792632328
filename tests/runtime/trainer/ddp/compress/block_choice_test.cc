/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/compress/block_choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t BLOCK = TPS_TOP_K_BLOCK;

std::vector<gint64>
choose (const std::vector<float> &values, size_t n_wanted)
{
  size_t n_blocks = (values.size () + BLOCK - 1) / BLOCK;
  std::vector<guint32> keys (n_blocks);
  std::vector<gint64> chosen (n_wanted);

  chosen.resize (
      tps_block_choice (values.data (), values.size (), n_wanted, keys.data (), chosen.data ()));
  return chosen;
}

/* Returns blocks that have one nonzero value each, at index 5. */
std::vector<float>
blocks_of (const std::vector<float> &sizes)
{
  std::vector<float> values (sizes.size () * BLOCK);

  for (size_t b = 0; b < sizes.size (); b++)
    values[b * BLOCK + 5] = sizes[b];
  return values;
}

TEST (BlockChoice, LeavesBlocksOfZerosAlone)
{
  EXPECT_THAT (choose (blocks_of ({ 0, -0.0f, 4, 0 }), 3), ElementsAre (2));
  EXPECT_THAT (choose (blocks_of ({ 0, 0 }), 2), IsEmpty ());
}

TEST (BlockChoice, NaNsAreLargestSoThatAllTrainersReceiveThem)
{
  const float nan = std::numeric_limits<float>::quiet_NaN (),
              infinity = std::numeric_limits<float>::infinity ();

  EXPECT_THAT (choose (blocks_of ({ 1, 1e30f, -infinity, nan, 2 }), 1), ElementsAre (3));
  EXPECT_THAT (choose (blocks_of ({ 1, 1, -infinity, nan, 2 }), 2), ElementsAre (2, 3));
}

TEST (BlockChoice, LeavesTheSmallestNormThatSoManyBlocksCanLeave)
{
  std::mt19937 rng (7);

  for (int round = 0; round < 200; round++)
    {
      size_t n_elems = 1 + rng () % (round % 4 == 0 ? 40 : 3000),
             n_blocks = (n_elems + BLOCK - 1) / BLOCK;
      size_t n_wanted = 1 + rng () % n_blocks;
      std::vector<float> values (n_elems);
      std::vector<double> squares (n_blocks);
      std::vector<size_t> order (n_blocks);

      /* The values are small integers, so the squares are exact and many of them are equal. */
      for (size_t i = 0; i < n_elems; i++)
        {
          values[i] = static_cast<float> (static_cast<int> (rng () % 3) - 1);
          squares[i / BLOCK] += static_cast<double> (values[i]) * static_cast<double> (values[i]);
        }
      std::iota (order.begin (), order.end (), 0);
      std::stable_sort (order.begin (), order.end (),
                        [&] (size_t a, size_t b) { return squares[a] > squares[b]; });
      order.resize (n_wanted);
      std::vector<gint64> expected;
      for (size_t b : order)
        if (squares[b] > 0)
          expected.push_back (static_cast<gint64> (b));
      std::sort (expected.begin (), expected.end ());
      ASSERT_EQ (choose (values, n_wanted), expected) << "round " << round;
    }
}

} /* namespace */
