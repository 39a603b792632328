/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/embedding/table_spec.h"

#include <cmath>

#include "runtime/base/rng.h"
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

template <typename Change>
std::string
resolve_with (Change change)
{
  Spec spec ("emb", 10, 4);

  change (spec.value);
  return resolve (&spec.value);
}

Floats
first_row (const TpsInitializer &initializer, int64_t row, size_t dim)
{
  Floats values (dim);

  tps_initializer_fill_row (&initializer, row, TPS_DTYPE_FLOAT32, values.data (), dim);
  return values;
}

} // namespace

TEST (TableSpec, DefaultsAreThoseOfTheContract)
{
  Spec spec ("emb", 10, 4);

  ASSERT_EQ (resolve (&spec.value), "");
  EXPECT_EQ (spec.value.dtype, TPS_DTYPE_FLOAT32);
  EXPECT_EQ (spec.value.rounding, TPS_ROUNDING_NEAREST);
  EXPECT_EQ (spec.value.initializer.kind, TPS_INITIALIZER_NORMAL);
  EXPECT_EQ (spec.value.initializer.mean, 0);
  EXPECT_EQ (spec.value.initializer.stdev, 1);
  EXPECT_TRUE (std::isnan (spec.value.initializer.low));
  EXPECT_EQ (spec.value.optimizer.kind, TPS_OPTIMIZER_SGD);
  EXPECT_EQ (spec.value.optimizer.learning_rate, 0.01);
  EXPECT_EQ (tps_table_spec_get_bytes (&spec.value), 160u);
}

TEST (TableSpec, ResolvingTwiceChangesNothing)
{
  for (auto kind : { TPS_INITIALIZER_ZEROS, TPS_INITIALIZER_UNIFORM, TPS_INITIALIZER_NORMAL })
    {
      Spec spec ("emb", 10, 4);

      spec.value.initializer.kind = kind;
      ASSERT_EQ (resolve (&spec.value), "");
      Spec again (spec);
      ASSERT_EQ (resolve (&again.value), "");
      EXPECT_TRUE (tps_table_spec_equal (&spec.value, &again.value));
    }
}

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

/* The number of a row must not depend on the division of the table, by range or by hash. */
TEST (TableSpec, NumbersOfRowsAreThoseOfTheSlots)
{
  for (const TpsShard &shard : { whole (30), range_shard (30, 1, 3), hash_shard (30, 1, 4) })
    {
      gint64 first, stride;

      tps_shard_get_numbers (&shard, &first, &stride);
      for (gint64 slot = 0; slot < shard.n_rows; slot++)
        {
          gint64 row = tps_shard_get_row (&shard, slot);

          EXPECT_EQ (first + slot * stride,
                     shard.kind == TPS_SHARD_HASH ? tps_shard_permute (row, 30) : row);
        }
    }
}

TEST (TableSpec, CountsStateInBytes)
{
  Spec adam = Spec ("emb", 10, 4).optimizer (TPS_OPTIMIZER_ADAM, 0.1).dtype (TPS_DTYPE_FLOAT16);
  size_t state;

  ASSERT_EQ (resolve (&adam.value), "");
  state = tps_optimizer_state_per_row (&adam.value.optimizer, 4);
  EXPECT_GE (state, 8u);
  EXPECT_EQ (tps_table_spec_get_bytes (&adam.value), 10 * (4 * 2 + state * 4));
}

TEST (TableSpec, NamesTheBadField)
{
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.dim = 0; }),
             "INVALID_ARGUMENT spec.dim: 0, expected at least 1");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.name[0] = ' '; }),
             "INVALID_ARGUMENT spec.name: \" mb\", expected [A-Za-z0-9_.:/-]{1,255}");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.name[0] = '\0'; }),
             "INVALID_ARGUMENT spec.name: \"\", expected [A-Za-z0-9_.:/-]{1,255}");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.dtype = TPS_DTYPE_FLOAT64; }),
             "INVALID_ARGUMENT spec.dtype: FLOAT64 (2), expected FLOAT32, FLOAT16 or BFLOAT16");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.rounding = static_cast<TpsRounding> (3); }),
             "INVALID_ARGUMENT spec.rounding: 3, expected NEAREST or STOCHASTIC");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.rounding = TPS_ROUNDING_STOCHASTIC; }),
             "INVALID_ARGUMENT spec.rounding: STOCHASTIC, but rows of FLOAT32 are not rounded; "
             "expected NEAREST, or spec.dtype FLOAT16 or BFLOAT16");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { tps_shard_init_whole (&s.shard, 0); }),
             "INVALID_ARGUMENT spec.rows: 0, expected at least 1");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { tps_shard_init_whole (&s.shard, G_MAXINT64); }),
             "INVALID_ARGUMENT spec.rows: the size of 9223372036854775807 rows of dim 4 exceeds "
             "64 bits");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.shard.n_rows = 3; }),
             "INVALID_ARGUMENT spec.shard: not made by tps_shard_init_whole(), _range() or "
             "_hash()");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) {
               s.initializer.kind = static_cast<TpsInitializerKind> (4);
             }),
             "INVALID_ARGUMENT spec.initializer.kind: unknown initializer 4");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.initializer.stdev = -1; }),
             "INVALID_ARGUMENT spec.initializer.stdev: -1, expected 0 or more");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.initializer.mean = INFINITY; }),
             "INVALID_ARGUMENT spec.initializer.mean: inf, expected a finite FLOAT32");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.initializer.mean = 1e39; }),
             "INVALID_ARGUMENT spec.initializer.mean: 1e+39, expected a finite FLOAT32");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) { s.initializer.stdev = 3e37; }),
             "INVALID_ARGUMENT spec.initializer.stdev: 3e+37, values 15 standard deviations from "
             "the mean are infinite as FLOAT32");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) {
               s.dtype = TPS_DTYPE_FLOAT16;
               s.initializer.high = 65505;
             }),
             "INVALID_ARGUMENT spec.initializer.high: 65505, expected a finite FLOAT16");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) {
               s.initializer.low = 2;
               s.initializer.high = 1;
             }),
             "INVALID_ARGUMENT spec.initializer.low: 2 is above high, 1");
  EXPECT_EQ (resolve_with ([] (TpsTableSpec &s) {
               s.initializer.kind = TPS_INITIALIZER_UNIFORM;
               s.initializer.stdev = 2;
             }),
             "INVALID_ARGUMENT spec.initializer.stdev: 2, but UNIFORM has none");
  EXPECT_EQ (
      resolve_with ([] (TpsTableSpec &s) { s.optimizer.learning_rate = NAN; }).substr (0, 46),
      "INVALID_ARGUMENT spec.optimizer.learning_rate:");
}

TEST (TableSpec, AFailedResolveChangesNothing)
{
  Spec spec ("emb", 10, 4);

  spec.value.initializer.stdev = -1;
  EXPECT_NE (resolve (&spec.value), "");
  EXPECT_TRUE (std::isnan (spec.value.initializer.mean));
  EXPECT_TRUE (std::isnan (spec.value.optimizer.momentum));
}

TEST (TableSpec, NamesTheFieldThatDiffers)
{
  auto difference = [] (Spec other) {
    Spec spec ("emb", 10, 4);
    g_autofree gchar *text = nullptr;

    EXPECT_EQ (resolve (&spec.value), "");
    EXPECT_EQ (resolve (&other.value), "");
    text = tps_table_spec_dup_difference (&spec.value, &other.value);
    EXPECT_EQ (text == nullptr, tps_table_spec_equal (&spec.value, &other.value));
    return std::string (text != nullptr ? text : "");
  };

  EXPECT_EQ (difference (Spec ("emb", 10, 4)), "");
  EXPECT_EQ (difference (Spec ("emb", 11, 4)), "rows: 10, not 11");
  EXPECT_EQ (difference (Spec ("emb", 10, 5)), "dim: 4, not 5");
  EXPECT_EQ (difference (Spec ("emb", 10, 4).dtype (TPS_DTYPE_FLOAT16)),
             "dtype: FLOAT32, not FLOAT16");
  EXPECT_EQ (difference (Spec ("emb", 10, 4).normal (7)), "initializer.seed: 0, not 7");
  Spec half = Spec ("emb", 10, 4).dtype (TPS_DTYPE_FLOAT16);
  Spec stochastic = Spec ("emb", 10, 4).dtype (TPS_DTYPE_FLOAT16, TPS_ROUNDING_STOCHASTIC);
  ASSERT_EQ (resolve (&half.value), "");
  ASSERT_EQ (resolve (&stochastic.value), "");
  g_autofree gchar *text = tps_table_spec_dup_difference (&half.value, &stochastic.value);
  EXPECT_STREQ (text, "rounding: NEAREST, not STOCHASTIC");
  EXPECT_EQ (difference (Spec ("emb", 10, 4).zeros ()), "initializer.kind: NORMAL, not ZEROS");
  EXPECT_EQ (difference (Spec ("emb", 10, 4).shard (hash_shard (10, 1, 2))),
             "shard: the whole table, not shard 1 of 2");
  EXPECT_EQ (difference (Spec ("emb", 10, 4).shard (range_shard (10, 1, 2))),
             "shard: the whole table, not 5 rows from 5 on");
  EXPECT_NE (difference (Spec ("emb", 10, 4).optimizer (TPS_OPTIMIZER_ADAM, 0.01)), "");
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

TEST (Initializer, SeedAndRowMakeADifference)
{
  Spec spec ("emb", 10, 4);

  ASSERT_EQ (resolve (&spec.value), "");
  Floats values = first_row (spec.value.initializer, 1, 16);
  EXPECT_NE (values, first_row (spec.value.initializer, 2, 16));
  EXPECT_EQ (values, first_row (spec.value.initializer, 1, 16));
  spec.value.initializer.seed = 1;
  EXPECT_NE (values, first_row (spec.value.initializer, 1, 16));
}

TEST (Initializer, UniformStaysInItsRangeAndFillsIt)
{
  Spec spec = Spec ("emb", 10, 4).uniform (-3, 5, 1);
  double sum = 0;

  ASSERT_EQ (resolve (&spec.value), "");
  for (float value : first_row (spec.value.initializer, 0, 20000))
    {
      ASSERT_GE (value, -3);
      ASSERT_LE (value, 5);
      sum += value;
    }
  EXPECT_NEAR (sum / 20000, 1, 0.08);
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

TEST (Initializer, FirstRowsDoNotDependOnSharding)
{
  constexpr int64_t rows = 101;
  Spec spec = Spec ("emb", rows, 6).normal (5);
  Store store;

  ASSERT_EQ (store.create (spec), "");
  for (int32_t count : { 1, 2, 3, 8 })
    for (int32_t index = 0; index < count; index++)
      for (bool by_hash : { false, true })
        {
          TpsShard shard = by_hash ? hash_shard (rows, index, count)
                                   : range_shard (rows, index, count);
          Store part (2);

          ASSERT_EQ (part.create (Spec (spec).shard (shard)), "");
          for (int64_t slot = 0; slot < shard.n_rows; slot++)
            {
              int64_t row = tps_shard_get_row (&shard, slot);

              ASSERT_EQ (part.row ("emb", TPS_DTYPE_FLOAT32, row),
                         store.row ("emb", TPS_DTYPE_FLOAT32, row));
            }
        }
}
