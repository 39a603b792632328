/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/embedding/table_spec.h"

#include <cmath>

#include "runtime/base/rng.h"
#include "tests/float16/float16.h"
#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

namespace {

std::string
resolve (TpsTableSpec *spec)
{
  GError *error = nullptr;
  gboolean ok = tps_table_spec_resolve (spec, &error);

  EXPECT_EQ (ok, error == nullptr);
  return describe (error);
}

Floats
first_row (const TpsInitializer &initializer, int64_t row, size_t dim)
{
  Floats values (dim);

  tps_initializer_fill_row (&initializer, row, TPS_DTYPE_FLOAT32, values.data (), dim);
  return values;
}

} // namespace

TEST (TableSpec, TheSeedOfZerosIsKeptForStochasticRounding)
{
  for (TpsRounding rounding : { TPS_ROUNDING_NEAREST, TPS_ROUNDING_STOCHASTIC })
    {
      Spec spec = Spec ("emb", 10, 4).zeros ().dtype (TPS_DTYPE_FLOAT16, rounding);
      TpsRowRounding found;

      spec.value.initializer.seed = 7;
      ASSERT_EQ (resolve (&spec.value), "");
      found = tps_table_spec_get_rounding (&spec.value);
      EXPECT_EQ (found.is_stochastic, rounding == TPS_ROUNDING_STOCHASTIC);
      EXPECT_EQ (spec.value.initializer.seed, rounding == TPS_ROUNDING_STOCHASTIC ? 7 : 0);
      EXPECT_EQ (found.seed, spec.value.initializer.seed);
    }
}

TEST (Initializer, DrawsFromTheStreamOfTheRow)
{
  Spec spec ("emb", 10, 4);
  TpsRng rng;

  spec.normal (77).value.initializer.mean = 3;
  spec.value.initializer.stdev = 0.5;
  ASSERT_EQ (resolve (&spec.value), "");
  for (int64_t row : { int64_t { 0 }, int64_t { 5 }, int64_t { 1 } << 40 })
    {
      Floats values = first_row (spec.value.initializer, row, 600);

      tps_rng_init (&rng, 77, static_cast<guint64> (row));
      for (float value : values)
        ASSERT_EQ (value, static_cast<float> (3 + 0.5 * tps_rng_next_normal (&rng)));
    }
}

TEST (Initializer, NormalWithBoundsIsDrawnAgain)
{
  Spec spec = Spec ("emb", 10, 4).normal (1);
  int n_at_bound = 0;
  double squares = 0;

  spec.value.initializer.low = -0.5;
  ASSERT_EQ (resolve (&spec.value), "");
  for (float value : first_row (spec.value.initializer, 0, 20000))
    {
      ASSERT_GE (value, -0.5);
      n_at_bound += value == -0.5f;
      squares += value * value;
    }
  EXPECT_EQ (n_at_bound, 0);
  EXPECT_GT (squares / 20000, 0.5);
}

/* No random draw lies between these bounds, so the nearer bound is the value. */
TEST (Initializer, NormalFarFromItsBoundsIsMovedToTheNearerOne)
{
  Spec spec = Spec ("emb", 10, 4).normal (1);

  spec.value.initializer.low = 50;
  spec.value.initializer.high = 60;
  ASSERT_EQ (resolve (&spec.value), "");
  EXPECT_EQ (first_row (spec.value.initializer, 3, 5), Floats (5, 50.0f));
  spec.value.initializer.low = -60;
  spec.value.initializer.high = -50;
  EXPECT_EQ (first_row (spec.value.initializer, 3, 5), Floats (5, -50.0f));
}

TEST (Initializer, RoundsOnceToHalfPrecision)
{
  Spec spec ("emb", 10, 4);
  std::vector<guint16> halves (500);
  TpsRng rng;

  ASSERT_EQ (resolve (&spec.value), "");
  tps_initializer_fill_row (&spec.value.initializer, 9, TPS_DTYPE_BFLOAT16, halves.data (), 500);
  tps_rng_init (&rng, 0, 9);
  for (guint16 half : halves)
    {
      double exact = tps_rng_next_normal (&rng);
      double below = tps_bfloat16_to_float (static_cast<guint16> (half - 1));
      double above = tps_bfloat16_to_float (static_cast<guint16> (half + 1));
      double error = std::fabs (exact - tps_bfloat16_to_float (half));

      ASSERT_LE (error, std::fabs (exact - below));
      ASSERT_LE (error, std::fabs (exact - above));
    }
}
