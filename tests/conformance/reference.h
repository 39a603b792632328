/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The reference for every device: each operation of runtime/device/backend.h, one element at a time
 * and as simple as possible. If the contract promises bits, these functions define them. */

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/device/dense.h"

namespace reference {

// load() converts an element of any dtype to double, exactly except for INT64. store() converts
// back with one rounding.
double load (TpsDType dtype, const void *values, size_t i);
void store (TpsDType dtype, void *values, size_t i, double value);

// Returns the sum of a list of at least one term. It adds chunks of 32 terms, and repeats this with
// the list of their sums until one is left.
template <typename T>
T
tree_sum (std::vector<T> terms)
{
  while (terms.size () > 1)
    {
      std::vector<T> sums;

      for (size_t i = 0; i < terms.size (); i++)
        if (i % 32 == 0)
          sums.push_back (terms[i]);
        else
          sums.back () += terms[i];
      terms = sums;
    }
  return terms[0];
}

// Returns the random bits of TpsRowRounding for a value of a row.
uint32_t random_bits (const TpsRowRounding &rounding, int64_t step, int64_t row, uint64_t column);

// Return `value` rounded to FLOAT16 or BFLOAT16: to nearest, or stochastically with random bits.
uint16_t round_to_nearest (TpsDType dtype, float value);
uint16_t round_stochastically (TpsDType dtype, float value, uint32_t random);

// These functions compute each element with float or double operations in the type of the sum.
void accumulate (TpsDType dtype, void *sum, const void *gradient, size_t n);
void scale (TpsDType dtype, void *sum, const void *gradient, double weight, size_t n);
void scale_accumulate (TpsDType dtype, void *sum, const void *gradient, double weight, size_t n);
void divide (TpsDType dtype, void *average, const void *sum, double divisor, size_t n);

struct Bags
{
  int64_t rows, dim;
  std::vector<int64_t> indices;
  std::vector<int64_t> offsets;
  std::vector<float> weights; // empty = none
  TpsPooling pooling;

  size_t
  begin (size_t bag) const
  {
    return offsets[bag];
  }
  size_t
  end (size_t bag) const
  {
    return bag + 1 < offsets.size () ? offsets[bag + 1] : indices.size ();
  }
};

// Pools each bag into a row of `output`.
void pool (const Bags &bags, const float *table, float *output);
// `table_gradient` is dense: [rows, dim].
void pool_backward (const Bags &bags, const float *output_gradient, float *table_gradient);

void gemm (const TpsGemm &gemm, float *c);

} // namespace reference
