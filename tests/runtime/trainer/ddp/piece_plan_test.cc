/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/pass/piece_plan.h"

#include <algorithm>
#include <random>
#include <vector>
#include <gtest/gtest.h>

namespace {

std::vector<TpsPieceBucket>
random_buckets (std::mt19937 *dice)
{
  std::vector<TpsPieceBucket> buckets ((*dice) () % 12 + 1);

  for (TpsPieceBucket &bucket : buckets)
    {
      bucket.travels_as = (*dice) () % 2 != 0 ? TPS_GRADIENT_DENSE : TPS_GRADIENT_SPARSE;
      bucket.n_units = static_cast<gint64> ((*dice) () % ((*dice) () % 2 != 0 ? 40 : 4000000)) + 1;
      bucket.n_wire_bytes = bucket.n_units * static_cast<gint64> ((*dice) () % 8 + 1);
    }
  return buckets;
}

TpsPiecePlan *
plan_of (const std::vector<TpsPieceBucket> &buckets, guint n_servers, gint64 piece_bytes)
{
  const TpsPiecePlanOptions options = { buckets.data (), static_cast<guint> (buckets.size ()),
                                        n_servers, -1, piece_bytes };

  return tps_piece_plan_new (&options);
}

TEST (PiecePlan, PiecesCoverTheirBucketsAndRoundsAreNumberedInOrder)
{
  std::mt19937 dice (1);

  for (int run = 0; run < 300; run++)
    {
      std::vector<TpsPieceBucket> buckets = random_buckets (&dice);
      g_autoptr (TpsPiecePlan) plan = plan_of (buckets, dice () % 4 + 1, dice () % 1000000 + 1);
      gint32 round = 0;

      for (size_t b = 0; b < buckets.size (); b++)
        {
          gint64 next = 0;

          ASSERT_GE (plan->routes[b].n_pieces, 1u);
          for (guint i = 0; i < plan->routes[b].n_pieces; i++)
            {
              const TpsPiece &piece = plan->routes[b].pieces[i];

              EXPECT_EQ (piece.param_loc, round++);
              EXPECT_EQ (piece.first_unit, next);
              if (buckets[b].travels_as == TPS_GRADIENT_DENSE)
                {
                  EXPECT_EQ (piece.first_unit % 16, 0);
                }
              EXPECT_GT (piece.n_units, 0);
              next += piece.n_units;
            }
          EXPECT_EQ (next, buckets[b].n_units);
        }
      EXPECT_EQ (plan->n_pieces, static_cast<guint> (round));
      EXPECT_LE (plan->n_pieces, TPS_PIECE_PLAN_MAX + buckets.size ());
    }
}

TEST (PiecePlan, ServersHaveTheSameBytesExceptForOnePiece)
{
  const std::vector<TpsPieceBucket> buckets = { { TPS_GRADIENT_DENSE, 1 << 20, 4 << 20 },
                                                { TPS_GRADIENT_DENSE, 7 << 20, 28 << 20 },
                                                { TPS_GRADIENT_SPARSE, 1024, 4 << 20 } };

  for (guint n_servers : { 2u, 3u, 5u })
    {
      g_autoptr (TpsPiecePlan) plan = plan_of (buckets, n_servers, 512 << 10);
      std::vector<gint64> bytes (n_servers);

      for (size_t b = 0; b < buckets.size (); b++)
        for (guint i = 0; i < plan->routes[b].n_pieces; i++)
          bytes[plan->routes[b].pieces[i].server] += buckets[b].n_wire_bytes
                                                     / plan->routes[b].n_pieces;
      EXPECT_EQ (plan->n_pieces, 8u + 56u + 8u);
      EXPECT_LE (*std::max_element (bytes.begin (), bytes.end ())
                     - *std::min_element (bytes.begin (), bytes.end ()),
                 512 << 10);
      /* Adjacent pieces must use different servers, and so different links. */
      EXPECT_NE (plan->pieces[20].server, plan->pieces[21].server);
    }
}

} /* namespace */
