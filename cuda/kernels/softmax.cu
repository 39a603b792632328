/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Softmax of rows, with a warp for each row. Sums are computed in double, as on the CPU. The
 * kernels are memory-bound: 8 bytes per element if rows fit into the caches, 12 for the backward
 * pass. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/rows.cuh"

namespace {

using namespace tps;

struct Softmax
{
  gfloat *output;
  const gfloat *input;
  gsize columns;

  template <typename Team>
  TPS_BODY void
  run (gsize row, const Team &team) const
  {
    const gfloat *x = input + row * columns;
    gfloat *y = output + row * columns;
    gfloat max = row_max (team, x, columns);
    gdouble sum;

    team.each (columns, [&] (gsize i) { y[i] = expf (x[i] - max); });
    sum = row_sum (team, columns, [&] (gsize i) { return (gdouble) y[i]; });
    team.each (columns, [&] (gsize i) { y[i] = (gfloat) ((gdouble) y[i] / sum); });
  }
};

struct SoftmaxBackward
{
  gfloat *input_gradient;
  const gfloat *output_gradient, *output;
  gsize columns;

  template <typename Team>
  TPS_BODY void
  run (gsize row, const Team &team) const
  {
    gsize first = row * columns;
    const gfloat *g = output_gradient + first, *y = output + first;
    gfloat *to = input_gradient + first;
    gdouble product = row_sum (team, columns,
                               [&] (gsize i) { return (gdouble) g[i] * (gdouble) y[i]; });

    team.each (columns, [&] (gsize i) { to[i] = y[i] * (g[i] - (gfloat) product); });
  }
};

} /* namespace */

cudaError_t
tps_cuda_softmax (cudaStream_t stream, gfloat *output, const gfloat *input, gsize rows,
                  gsize columns)
{
  return teams<32> (stream, rows, Softmax { output, input, columns });
}

cudaError_t
tps_cuda_softmax_backward (cudaStream_t stream, gfloat *input_gradient,
                           const gfloat *output_gradient, const gfloat *output, gsize rows,
                           gsize columns)
{
  return teams<32> (stream, rows,
                    SoftmaxBackward { input_gradient, output_gradient, output, columns });
}
