/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums and maxima of a row by a team of 32 threads. Lane l handles columns l, l + 32, … in
 * ascending order. Then the lanes are combined as a tree, so that every call gives the same
 * bits. */

#pragma once

#include <math.h>

#include "cuda/kernels/launch.cuh"

namespace tps {

/* Returns the maximum of x [columns]; `columns` must be > 0. As on the CPU, a NaN is never the
 * larger value. */
template <typename Team>
TPS_BODY gfloat
row_max (const Team &team, const gfloat *x, gsize columns)
{
  auto larger = [] (gfloat a, gfloat b) { return b > a ? b : a; };

  return team.reduce (
      [&] (int lane) {
        gfloat max = x[(gsize) lane < columns ? lane : 0];

        for (gsize i = (gsize) lane + 32; i < columns; i += 32)
          max = larger (max, x[i]);
        return max;
      },
      larger);
}

/* Returns the sum of term (i) for i in [0, columns). */
template <typename Team, typename F>
TPS_BODY gdouble
row_sum (const Team &team, gsize columns, F term)
{
  return team.reduce (
      [&] (int lane) {
        gdouble sum = 0;

        for (gsize i = (gsize) lane; i < columns; i += 32)
          sum += term (i);
        return sum;
      },
      [] (gdouble a, gdouble b) { return a + b; });
}

} /* namespace tps */
