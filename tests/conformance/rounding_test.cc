/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the rounding of updated rows to FLOAT16 and BFLOAT16: exact bits on every device, values
 * that must not change, and expectations. A step of SGD from 0 with rate 1 results in the negated
 * gradient. */

#include <cmath>

#include "runtime/device/cpu/kernels/stochastic_bits.h"
#include "tests/conformance/device_test.h"
#include "tests/conformance/reference.h"

namespace {

const TpsDType half_types[] = { TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 };

float
to_float (TpsDType dtype, uint16_t bits)
{
  return (float) reference::load (dtype, &bits, 0);
}

bool
is_nan (TpsDType dtype, uint16_t bits)
{
  return std::isnan (to_float (dtype, bits));
}

class Rounding : public DeviceTest
{
protected:
  /* Rounds the rows of `values` [n, dim] in step `step`. The rows contain `before` until then. */
  std::vector<uint16_t>
  round (TpsDType dtype, const TpsRowRounding &rounding, int64_t step, size_t dim,
         const std::vector<float> &values, const std::vector<uint16_t> &before)
  {
    TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
    std::vector<float> gradients;
    TpsRowUpdate update {};

    for (float value : values)
      gradients.push_back (-value);
    EXPECT_TRUE (tps_optimizer_spec_resolve (&spec, "test", nullptr));
    DeviceArray<uint16_t> rows (stream, before);
    DeviceArray<float> device_gradients (stream, gradients);
    update.n_rows = values.size () / dim;
    update.dim = dim;
    update.values = rows.data ();
    update.gradients = device_gradients.data ();
    update.dtype = dtype;
    update.rounding = rounding;
    ops->update_rows (stream, &spec, step, &update);
    return rows.read ();
  }
  std::vector<uint16_t>
  round (TpsDType dtype, const TpsRowRounding &rounding, int64_t step, size_t dim,
         const std::vector<float> &values)
  {
    std::vector<uint16_t> zeros;

    for (float value : values) /* the sum of two zeros with the same sign has that sign */
      zeros.push_back (std::signbit (value) ? 0x8000 : 0);
    return round (dtype, rounding, step, dim, values, zeros);
  }
};

TpsRowRounding
stochastic (int64_t seed)
{
  return { TRUE, seed, 0, 1 };
}

/* Returns values of every class: around each power of two, around each bound of the two types, and
 * random ones. */
std::vector<float>
many_values (std::mt19937_64 &random)
{
  std::vector<float> values = { 0.0f,      -0.0f,      INFINITY,  -INFINITY, NAN,        65504.0f,
                                65505.0f,  65519.99f,  65520.0f,  65535.9f,  65536.0f,   1e30f,
                                0x1p-149f, 0x1.8p-25f, 0x1p-25f,  0x1p-26f,  0x1p-34f,   0x1p-57f,
                                0x1p-126f, 0x1p-133f,  0x1p-134f, 0x1p-140f, 0x1.fep127f };

  values.push_back (std::nextafter (0x1.fep127f, INFINITY));
  values.push_back (0x1.ffp127f);
  values.push_back (std::nextafter (0x1.ffp127f, 0.0f));
  values.push_back (std::numeric_limits<float>::max ());
  for (int exponent = -149; exponent < 128; exponent++)
    {
      float power = std::ldexp (1.0f, exponent);

      for (float value : { power, std::nextafter (power, 0.0f), std::nextafter (power, INFINITY),
                           power * 1.37f, power * 1.999f })
        values.push_back (random () % 2 == 0 ? value : -value);
    }
  while (values.size () % 32 != 0)
    values.push_back (std::ldexp (1.0f + (float) (random () % 4096) / 4096, -15));
  return values;
}

TEST_P (Rounding, HasTheBitsOfTheReference)
{
  const TpsRowRounding roundings[] = { stochastic (0),
                                       stochastic (-7),
                                       { TRUE, 1 << 20, 3, 5 },
                                       { TRUE, 9, (int64_t) 1 << 40, (int64_t) 1 << 32 } };

  for (TpsDType dtype : half_types)
    for (size_t dim : { 1, 4, 32 })
      for (const TpsRowRounding &rounding : roundings)
        for (int64_t step : { (int64_t) 1, (int64_t) 2, ((int64_t) 1 << 35) + 1 })
          {
            std::vector<float> values = many_values (random);
            std::vector<uint16_t> got = round (dtype, rounding, step, dim, values);

            for (size_t i = 0; i < values.size (); i++)
              {
                uint32_t bits = reference::random_bits (rounding, step, (int64_t) (i / dim),
                                                        i % dim);
                uint16_t wanted = reference::round_stochastically (dtype, values[i], bits);

                ASSERT_EQ (is_nan (dtype, got[i]), is_nan (dtype, wanted)) << values[i];
                if (!is_nan (dtype, wanted))
                  {
                    ASSERT_EQ (got[i], wanted)
                        << values[i] << " as " << tps_dtype_name (dtype) << ", bits " << bits;
                  }
              }
          }
}

TEST_P (Rounding, ToNearestMatchesCasts)
{
  for (TpsDType dtype : half_types)
    {
      std::vector<float> values = many_values (random);
      std::vector<uint16_t> got = round (dtype, {}, 3, 8, values);

      for (size_t i = 0; i < values.size (); i++)
        if (!std::isnan (values[i]))
          {
            ASSERT_EQ (got[i], reference::round_to_nearest (dtype, values[i])) << values[i];
          }
    }
}

/* Uses each of the 2^16 values of the type, in steps that must not change it. */
TEST_P (Rounding, NeverChangesAValueOfTheType)
{
  std::vector<uint16_t> all (1 << 16);

  for (size_t i = 0; i < all.size (); i++)
    all[i] = (uint16_t) i;
  for (TpsDType dtype : half_types)
    for (int64_t step = 1; step <= 8; step++)
      {
        std::vector<uint16_t> got = round (dtype, stochastic (step), step, 64,
                                           std::vector<float> (all.size (), -0.0f), all);

        for (size_t i = 0; i < all.size (); i++)
          {
            ASSERT_EQ (is_nan (dtype, got[i]), is_nan (dtype, all[i]));
            if (!is_nan (dtype, all[i]))
              {
                ASSERT_EQ (got[i], all[i]) << tps_dtype_name (dtype);
              }
          }
      }
}

/* The mean over many steps, rows and columns must be within 5 standard deviations of the value. */
TEST_P (Rounding, HasTheValueAsItsExpectation)
{
  const float values[] = { 1.001f,   -3.14159f, 0x1.0008p0f, 65503.5f,  6.1e-5f,
                           -6.0e-5f, 1.234e-6f, 0x1.4p-25f,  -0x1p-28f, 0x1.fff8p-15f };
  constexpr size_t n_rows = 64, dim = 32, n_steps = 32;

  for (TpsDType dtype : half_types)
    for (float value : values)
      {
        double sum = 0, low = INFINITY, high = -INFINITY, n = n_rows * dim * n_steps;

        for (size_t step = 1; step <= n_steps; step++)
          for (uint16_t bits : round (dtype, stochastic (42), (int64_t) step, dim,
                                      std::vector<float> (n_rows * dim, value)))
            {
              double rounded = to_float (dtype, bits);

              sum += rounded;
              low = std::min (low, rounded);
              high = std::max (high, rounded);
            }
        double p = high > low ? (value - low) / (high - low) : 0;
        double deviation = (high - low) * std::sqrt (p * (1 - p) / n);

        EXPECT_GE (value, low) << value;
        EXPECT_LE (value, high) << value;
        EXPECT_NEAR (sum / n, value, 5 * deviation) << value << " as " << tps_dtype_name (dtype);
      }
}

/* Small updates must add up. Rounding to nearest would lose them. */
TEST_P (Rounding, SmallUpdatesAreNotLost)
{
  for (TpsDType dtype : half_types)
    for (bool is_stochastic : { false, true })
      {
        TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
        size_t dim = 1024;
        std::vector<uint16_t> ones (dim, reference::round_to_nearest (dtype, 1));
        DeviceArray<uint16_t> rows (stream, ones);
        DeviceArray<float> gradients (stream, std::vector<float> (dim, -0x1p-14f));
        TpsRowUpdate update {};
        double sum = 0;

        ASSERT_TRUE (tps_optimizer_spec_resolve (&spec, "test", nullptr));
        update.n_rows = 1;
        update.dim = dim;
        update.values = rows.data ();
        update.gradients = gradients.data ();
        update.dtype = dtype;
        update.rounding = { is_stochastic, 5, 0, 1 };
        for (int64_t step = 1; step <= 4096; step++)
          ops->update_rows (stream, &spec, step, &update);
        for (uint16_t bits : rows.read ())
          sum += to_float (dtype, bits);
        EXPECT_NEAR (sum / (double) dim, is_stochastic ? 1.25 : 1, is_stochastic ? 0.01 : 0)
            << tps_dtype_name (dtype);
      }
}

/* Seed, step, row and column must each change the bits. */
TEST_P (Rounding, DependsOnSeedStepRowAndColumn)
{
  std::vector<float> values (4096, 1.0f + 0x1p-12f);
  std::vector<uint16_t> first = round (TPS_DTYPE_FLOAT16, stochastic (1), 1, 64, values);
  size_t n_up = 0;

  EXPECT_EQ (round (TPS_DTYPE_FLOAT16, stochastic (1), 1, 64, values), first);
  EXPECT_NE (round (TPS_DTYPE_FLOAT16, stochastic (2), 1, 64, values), first);
  EXPECT_NE (round (TPS_DTYPE_FLOAT16, stochastic (1), 2, 64, values), first);
  EXPECT_NE (round (TPS_DTYPE_FLOAT16, { TRUE, 1, 1, 1 }, 1, 64, values), first);
  EXPECT_NE (round (TPS_DTYPE_FLOAT16, stochastic (1), 1, 32, values), first);
  for (uint16_t bits : first)
    n_up += bits != 0x3c00;
  EXPECT_NEAR ((double) n_up, 1024, 5 * std::sqrt (4096 * 0.25 * 0.75));
}

INSTANTIATE_FOR_ALL_DEVICES (Rounding);

/* The first numbers of SplitMix64 with seed 1234567, as other implementations return them. */
TEST (StochasticBits, AreThoseOfSplitMix64)
{
  const uint64_t numbers[] = { 6457827717110365317u, 3203168211198807973u, 9817491932198370423u,
                               4593380528125082431u, 16408922859458223821u };

  for (size_t i = 0; i < 5; i++)
    EXPECT_EQ (stochastic_bits (1234567, i), numbers[i] >> 32);
}

} // namespace
