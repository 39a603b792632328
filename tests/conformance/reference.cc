/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/conformance/reference.h"
#include "tests/float16/float16.h"

#include <cmath>
#include <cstring>
#include <map>

namespace reference {

double
load (TpsDType dtype, const void *values, size_t i)
{
  switch (dtype)
    {
    case TPS_DTYPE_FLOAT32:
      return (double) ((const float *) values)[i];
    case TPS_DTYPE_FLOAT64:
      return ((const double *) values)[i];
    case TPS_DTYPE_FLOAT16:
      return (double) tps_float16_to_float (((const uint16_t *) values)[i]);
    case TPS_DTYPE_BFLOAT16:
      return (double) tps_bfloat16_to_float (((const uint16_t *) values)[i]);
    case TPS_DTYPE_INT32:
      return ((const int32_t *) values)[i];
    case TPS_DTYPE_INT64:
      return (double) ((const int64_t *) values)[i];
    }
  abort ();
}

// Rounds to a multiple of 2^(exponent of the value - digits + 1), but at least of 2^min_exponent.
// Ties go to even, as by rint().
static double
round_to (double value, int digits, int min_exponent)
{
  int exponent;

  if (value == 0 || !std::isfinite (value))
    return value;
  std::frexp (value, &exponent);
  int unit = std::max (exponent - digits, min_exponent);
  return std::ldexp (std::rint (std::ldexp (value, -unit)), unit);
}

template <typename Int>
static Int
to_int (double value, double low, double high)
{
  if (std::isnan (value))
    return 0;
  if (value < low)
    return std::numeric_limits<Int>::min ();
  return value >= high ? std::numeric_limits<Int>::max () : (Int) value;
}

void
store (TpsDType dtype, void *values, size_t i, double value)
{
  switch (dtype)
    {
    case TPS_DTYPE_FLOAT32:
      ((float *) values)[i] = (float) value;
      return;
    case TPS_DTYPE_FLOAT64:
      ((double *) values)[i] = value;
      return;
    case TPS_DTYPE_FLOAT16:
      ((uint16_t *) values)[i] = tps_float16_from_float ((float) round_to (value, 11, -24));
      return;
    case TPS_DTYPE_BFLOAT16:
      ((uint16_t *) values)[i] = tps_bfloat16_from_float ((float) round_to (value, 8, -133));
      return;
    case TPS_DTYPE_INT32:
      ((int32_t *) values)[i] = to_int<int32_t> (value, -0x1p31, 0x1p31);
      return;
    case TPS_DTYPE_INT64:
      ((int64_t *) values)[i] = to_int<int64_t> (value, -0x1p63, 0x1p63);
      return;
    }
  abort ();
}

void
accumulate (TpsDType dtype, void *sum, const void *gradient, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (dtype == TPS_DTYPE_FLOAT64)
      ((double *) sum)[i] += load (dtype, gradient, i);
    else
      ((float *) sum)[i] += (float) load (dtype, gradient, i);
}

void
scale (TpsDType dtype, void *sum, const void *gradient, double weight, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (dtype == TPS_DTYPE_FLOAT64)
      ((double *) sum)[i] = weight * load (dtype, gradient, i);
    else
      ((float *) sum)[i] = (float) (weight * load (dtype, gradient, i));
}

void
scale_accumulate (TpsDType dtype, void *sum, const void *gradient, double weight, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (dtype == TPS_DTYPE_FLOAT64)
      ((double *) sum)[i] += weight * load (dtype, gradient, i);
    else
      ((float *) sum)[i] += (float) (weight * load (dtype, gradient, i));
}

void
divide (TpsDType dtype, void *average, const void *sum, double divisor, size_t n)
{
  for (size_t i = 0; i < n; i++)
    store (
        dtype, average, i,
        (dtype == TPS_DTYPE_FLOAT64 ? ((const double *) sum)[i] : (double) ((const float *) sum)[i])
            / divisor);
}

static void
pool_bag (const Bags &bags, size_t bag, const float *table, float *output)
{
  bool is_first = true;

  std::fill_n (output, bags.dim, 0.0f);
  for (size_t i = bags.begin (bag); i < bags.end (bag); i++, is_first = false)
    for (int64_t d = 0; d < bags.dim; d++)
      {
        float x = table[bags.indices[i] * bags.dim + d];

        if (!bags.weights.empty ())
          x = bags.weights[i] * x;
        output[d] = is_first ? x : output[d] + x;
      }
  if (bags.pooling == TPS_POOLING_MEAN && !is_first)
    for (int64_t d = 0; d < bags.dim; d++)
      output[d] /= (float) (bags.end (bag) - bags.begin (bag));
}

void
pool (const Bags &bags, const float *table, float *output)
{
  for (size_t bag = 0; bag < bags.offsets.size (); bag++)
    pool_bag (bags, bag, table, output + bag * bags.dim);
}

static float
contribution (const Bags &bags, size_t bag, size_t position, float x)
{
  if (bags.pooling == TPS_POOLING_MEAN)
    x /= (float) (bags.end (bag) - bags.begin (bag));
  return bags.weights.empty () ? x : bags.weights[position] * x;
}

void
pool_backward (const Bags &bags, const float *output_gradient, float *table_gradient)
{
  std::map<int64_t, std::vector<float>> terms; // by cell of the table

  for (size_t bag = 0; bag < bags.offsets.size (); bag++)
    {
      const float *gradient = output_gradient + bag * bags.dim;

      for (size_t i = bags.begin (bag); i < bags.end (bag); i++)
        for (int64_t d = 0; d < bags.dim; d++)
          terms[bags.indices[i] * bags.dim + d].push_back (
              contribution (bags, bag, i, gradient[d]));
    }
  std::fill_n (table_gradient, bags.rows * bags.dim, 0.0f);
  for (const auto &[cell, list] : terms)
    table_gradient[cell] += tree_sum (list);
}

void
gemm (const TpsGemm &gemm, float *c)
{
  for (size_t i = 0; i < gemm.m; i++)
    for (size_t j = 0; j < gemm.n; j++)
      {
        double sum = 0;

        for (size_t k = 0; k < gemm.k; k++)
          sum += (double) (gemm.transpose_a ? gemm.a[k * gemm.m + i] : gemm.a[i * gemm.k + k])
                 * (double) (gemm.transpose_b ? gemm.b[j * gemm.k + k] : gemm.b[k * gemm.n + j]);
        c[i * gemm.n + j] =
            (float) ((double) gemm.alpha * sum
                     + (gemm.beta != 0 ? (double) gemm.beta * (double) c[i * gemm.n + j] : 0));
      }
}

namespace {

constexpr uint64_t kIncrement = 0x9e3779b97f4a7c15;

uint64_t
mix (uint64_t z)
{
  z ^= z >> 30;
  z *= 0xbf58476d1ce4e5b9;
  z ^= z >> 27;
  z *= 0x94d049bb133111eb;
  z ^= z >> 31;
  return z;
}

} // namespace

uint32_t
random_bits (const TpsRowRounding &rounding, int64_t step, int64_t row, uint64_t column)
{
  uint64_t number = (uint64_t) (rounding.first + row * rounding.stride), state;

  state = mix ((uint64_t) rounding.seed + kIncrement);
  state = mix ((state ^ (uint64_t) step) + kIncrement);
  state = mix ((state ^ number) + kIncrement);
  for (uint64_t i = 0; i <= column; i++)
    state += kIncrement;
  return (uint32_t) (mix (state) >> 32);
}

uint16_t
round_to_nearest (TpsDType dtype, float value)
{
  uint16_t bits;

  store (dtype, &bits, 0, value);
  return bits;
}

uint16_t
round_stochastically (TpsDType dtype, float value, uint32_t random)
{
  bool is_f16 = dtype == TPS_DTYPE_FLOAT16;
  int precision = is_f16 ? 11 : 8, min_exponent = is_f16 ? -14 : -126;
  double largest = is_f16 ? 65504 : 0x1.fep127, magnitude = std::fabs (value);

  if (value == 0 || !(magnitude <= largest))
    return round_to_nearest (dtype, value);
  double spacing = std::ldexp (1.0,
                               std::max (std::ilogb (magnitude), min_exponent) - precision + 1);
  double below = std::floor (magnitude / spacing);
  double fraction = std::floor (std::ldexp (magnitude / spacing - below, 32));
  bool is_up = random + fraction >= 0x1p32;

  return round_to_nearest (dtype,
                           (float) std::copysign ((below + (is_up ? 1 : 0)) * spacing, value));
}

} // namespace reference
