/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Buckets that are sent in pieces. The bits must be those of whole buckets, and the failure of one
 * piece must fail its bucket. */

#include <algorithm>
#include <random>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trainer/hooks/bucket_pieces.h"
#include "tests/runtime/trainer/ddp/fleet.h"
#include "tests/runtime/trainer/ddp/trainee.h"

namespace {

using testing::HasSubstr;

/* In the first round, the second trainer sends another shape. */
TEST (Pieces, TrainersWithOtherPiecesAreRefused)
{
  Fleet fleet (2, 1, 5 * SECOND_NS);
  Task whole, pieces;

  pieces.piece_bytes = 64;
  fleet.reset_servers ();
  EXPECT_EQ (fleet.start (whole, 0), "");
  EXPECT_EQ (fleet.start (pieces, 1), "");
  std::string ends = fleet.wait (0) + fleet.wait (1);
  EXPECT_THAT (ends, HasSubstr ("FAILED: INVALID_ARGUMENT"));
  EXPECT_THAT (ends, HasSubstr ("dense FLOAT32 [16]"));
}

/* -- cutting and joining -- */

TpsGradient
make_dense (gint64 n)
{
  TpsGradient gradient = { TPS_GRADIENT_DENSE, 1 };

  tps_tensor_init_1d (&gradient.dense, TPS_DTYPE_FLOAT32, n);
  for (gint64 i = 0; i < n; i++)
    static_cast<float *> (tps_tensor_data (&gradient.dense))[i] = static_cast<float> (i) / 3;
  return gradient;
}

TpsGradient
make_rows (const std::vector<gint64> &ids, gint64 rows, gint64 dim)
{
  TpsGradient gradient = { TPS_GRADIENT_SPARSE, 1 };
  gint64 n = static_cast<gint64> (ids.size ());

  gradient.rows = rows;
  tps_tensor_init_1d (&gradient.indices, TPS_DTYPE_INT64, n);
  tps_tensor_init_2d (&gradient.values, TPS_DTYPE_FLOAT32, n, dim);
  std::copy (ids.begin (), ids.end (), static_cast<gint64 *> (tps_tensor_data (&gradient.indices)));
  for (gint64 i = 0; i < n * dim; i++)
    static_cast<float *> (tps_tensor_data (&gradient.values))[i] = static_cast<float> (i) / 7;
  return gradient;
}

std::string
bytes_of (const TpsTensor *tensor)
{
  gsize n_bytes = tensor->buffer == nullptr ? 0 : tps_shape_n_bytes (&tensor->shape);

  return std::string (static_cast<const char *> (tps_tensor_data (tensor)), n_bytes);
}

/* Divides [0, n) into pieces with random borders. Some pieces are empty. */
std::vector<TpsPiece>
random_pieces (std::mt19937 *dice, gint64 n)
{
  std::vector<gint64> borders = { 0, n };
  std::vector<TpsPiece> pieces;

  for (guint i = (*dice) () % 6 + 1; i > 0; i--)
    borders.push_back (static_cast<gint64> ((*dice) () % static_cast<guint64> (n + 1)));
  std::sort (borders.begin (), borders.end ());
  for (size_t i = 0; i + 1 < borders.size (); i++)
    pieces.push_back ({ 0, static_cast<gint32> (i), borders[i], borders[i + 1] - borders[i] });
  return pieces;
}

/* Cuts and joins a gradient, and expects the same gradient. */
void
check_round_trip (TpsGradient *gradient, TpsBucketCall call, const std::vector<TpsPiece> &pieces,
                  std::mt19937 *dice)
{
  const TpsRoute route = { pieces.data (), static_cast<guint> (pieces.size ()) };
  std::vector<TpsGradient> slices (pieces.size ());
  std::vector<guint> order;
  g_auto (TpsGradient) joined = {};
  TpsBucketPieces together;
  GError *error = nullptr;

  ASSERT_TRUE (tps_bucket_pieces_cut (gradient, &route, slices.data (), &error));
  tps_bucket_pieces_init (&together, &call, &route);
  for (guint i = 0; i < route.n_pieces; i++)
    order.push_back (i);
  std::shuffle (order.begin (), order.end (), *dice);
  for (guint i : order)
    ASSERT_TRUE (tps_bucket_pieces_add (&together, i, &slices[i], &error)) << error->message;
  ASSERT_TRUE (tps_bucket_pieces_join (&together, &joined, &error));
  EXPECT_EQ (joined.kind, gradient->kind);
  EXPECT_EQ (joined.weight, gradient->weight);
  EXPECT_EQ (bytes_of (&joined.dense), bytes_of (&gradient->dense));
  EXPECT_EQ (bytes_of (&joined.indices), bytes_of (&gradient->indices));
  EXPECT_EQ (bytes_of (&joined.values), bytes_of (&gradient->values));
  tps_bucket_pieces_clear (&together);
  for (TpsGradient &slice : slices)
    tps_gradient_clear (&slice);
}

TEST (Pieces, CuttingAndJoiningInAnyOrderGivesTheSameGradient)
{
  std::mt19937 dice (1);

  for (int run = 0; run < 300; run++)
    {
      gint64 n = static_cast<gint64> (dice () % 200) + 1;
      TpsBucketCall call = {};
      std::vector<gint64> ids;

      for (gint64 id = 0; id < n; id++)
        if (dice () % 3 == 0)
          ids.push_back (id);
      call.dtype = TPS_DTYPE_FLOAT32;
      call.n_elems = static_cast<gsize> (n);
      call.rows = n;
      call.dim = static_cast<gint64> (dice () % 4) + 1;

      g_auto (TpsGradient) dense = make_dense (n);
      g_auto (TpsGradient) rows = make_rows (ids, n, call.dim);
      g_auto (TpsGradient) nothing = {};
      std::vector<TpsPiece> pieces = random_pieces (&dice, n);

      call.travels_as = TPS_GRADIENT_DENSE;
      check_round_trip (&dense, call, pieces, &dice);
      check_round_trip (&nothing, call, pieces, &dice);
      call.travels_as = TPS_GRADIENT_SPARSE;
      check_round_trip (&rows, call, pieces, &dice);
    }
}

TEST (Pieces, RowsMustAscend)
{
  const TpsPiece pieces[2] = { { 0, 0, 0, 4 }, { 0, 1, 4, 4 } };
  const TpsRoute route = { pieces, 2 };
  TpsGradient slices[2];
  g_auto (TpsGradient) rows = make_rows ({ 1, 5, 2 }, 8, 1);
  GError *error = nullptr;

  EXPECT_FALSE (tps_bucket_pieces_cut (&rows, &route, slices, &error));
  EXPECT_STREQ (error->message, "row id 2 at position 2 is not in ascending order");
  g_error_free (error);
  for (TpsGradient &slice : slices)
    tps_gradient_clear (&slice);
}

/* -- a trainer with two pieces per bucket behind a fake exchange -- */

TEST (Pieces, AnAverageThatDoesNotFitItsPieceIsRefused)
{
  Trainee t ({ { "weight", { 3, 2 }, false } },
             { .first_mib = 1, .cap_mib = 1, .pieces = { { { 1, 0, 0, 4 }, { 0, 1, 4, 2 } } } });

  t.exchange.on_call = [] (FakeExchange *exchange, size_t index) {
    TpsGradient average = make_dense (3);

    exchange->answer_with_average (index, &average);
  };
  EXPECT_EQ (t.backward (), "INTERNAL: bucket 0: the average of round 0 is dense FLOAT32 [3], "
                            "expected FLOAT32 elements at [0, 4)");
}

} /* namespace */
