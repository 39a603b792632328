/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Contributions as plain C++ values, their averages, computed in the simplest way, and their
 * conversion to gradients. Shared by the tests of this folder. */

#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/tensor/gradient.h"

namespace averaging_test {

/* Elements are stored as doubles that the dtype represents exactly, and converted to bits for a
 * gradient. */
struct Contribution
{
  TpsGradientKind kind = TPS_GRADIENT_NONE;
  TpsDType dtype = TPS_DTYPE_FLOAT32;
  double weight = 1;
  std::vector<int64_t> shape; /* dense: of the tensor; sparse: rows, dim */
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
                    TpsDType dtype = TPS_DTYPE_FLOAT32);
Contribution sparse (std::vector<int64_t> ids, int64_t rows, int64_t dim,
                     std::vector<double> values, double weight = 1,
                     TpsDType dtype = TPS_DTYPE_FLOAT32);
Contribution no_data ();

/* The nearest value that `dtype` represents. */
double round_to (TpsDType dtype, double value);

/* Owned by the caller. */
TpsGradient to_gradient (const Contribution &contribution);

Average to_average (const TpsGradient &gradient);

/* The contribution's own elements. */
Average as_average (const Contribution &contribution);

/* The definition of the average: in ascending trainer order, element by element. At least one
 * weight must be above 0. If `is_sum`, the division is omitted. */
Average expected_average (const std::vector<Contribution> &by_trainer, bool is_sum = false);

} // namespace averaging_test
