/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Buckets that are sent in pieces: the failure of one piece must fail its bucket. The tests
 * integration/pieces and integration/bench check that the bits are those of whole buckets. */

#include <algorithm>
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
