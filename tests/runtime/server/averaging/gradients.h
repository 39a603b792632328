/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Contributions as plain C++ values, their averages in the simplest computation, and their
 * conversion to gradients. The tests of this folder share them. */

#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/tensor/gradient.h"

namespace averaging_test {

/* A contribution whose elements are doubles that the dtype represents exactly. */
struct Contribution
{
  TpsGradientKind kind = TPS_GRADIENT_NONE;
  TpsDType dtype = TPS_DTYPE_FLOAT32;
  double weight = 1;
  std::vector<int64_t> shape; /* dense: shape of the tensor; sparse: rows, dim */
  std::vector<int64_t> ids;   /* sparse */
  std::vector<double> values; /* row-major */
};

/* The comparable form of an average. */
struct Average
{
  TpsGradientKind kind = TPS_GRADIENT_NONE;
  std::string shape;
  std::vector<int64_t> ids;
  std::string bytes;

  bool
  operator== (const Average &other) const
  {
    return kind == other.kind && shape == other.shape && ids == other.ids && bytes == other.bytes;
  }
};

Contribution dense (std::vector<double> values, double weight = 1,
                    /* Return a contribution of a trainer with these elements. no_data() has no
                     * elements and weight 0. */
                    TpsDType dtype = TPS_DTYPE_FLOAT32);
Contribution sparse (std::vector<int64_t> ids, int64_t rows, int64_t dim,
                     std::vector<double> values, double weight = 1,
                     TpsDType dtype = TPS_DTYPE_FLOAT32);
Contribution no_data ();

/* Returns the nearest value that `dtype` represents. */
double round_to (TpsDType dtype, double value);

/* The caller owns the result. */
TpsGradient to_gradient (const Contribution &contribution);

/* Returns the gradient's elements as an average. They may lie in memory of a device. */
Average to_average (const TpsGradient &gradient);

/* Returns the contribution's own elements as an average. */
Average as_average (const Contribution &contribution);

/* Computes the average from its definition: in ascending trainer order, element by element. At
 * least one weight must be above 0. If `is_sum`, the division is omitted. */
Average expected_average (const std::vector<Contribution> &by_trainer, bool is_sum = false);

} // namespace averaging_test
