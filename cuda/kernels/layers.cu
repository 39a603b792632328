/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bias and ReLU. Bound: memory, 8 bytes an element; relu_backward 12. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.cuh"

namespace {

using namespace tps;

struct Bias
{
  using Item = gfloat;
  gfloat *values;
  const gfloat *bias;
  gsize columns;

  TPS_BODY Item
  load (gsize i) const
  {
    return values[i] + bias[cell_of (i, columns).column];
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    values[i] = item;
  }
};

/* One thread a column, since the order of the rows is the sum's: neighbouring threads read neighbouring values. */
struct ColumnSum
{
  using Item = gfloat;
  gfloat *sums;
  const gfloat *values;
  gsize rows, columns;

  TPS_BODY Item
  load (gsize column) const
  {
    gfloat sum = 0;

    for (gsize row = 0; row < rows; row++)
      sum += values[row * columns + column];
    return sum;
  }
  TPS_BODY void
  store (gsize column, Item item) const
  {
    sums[column] = item;
  }
};

struct Relu
{
  using Item = gfloat;
  gfloat *output;
  const gfloat *input;

  TPS_BODY Item
  load (gsize i) const
  {
    return input[i] <= 0 ? 0 : input[i];
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    output[i] = item;
  }
};

struct ReluBackward
{
  using Item = gfloat;
  gfloat *input_gradient;
  const gfloat *output_gradient, *output;

  TPS_BODY Item
  load (gsize i) const
  {
    return output[i] > 0 ? output_gradient[i] : 0;
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    input_gradient[i] = item;
  }
};

} /* namespace */

cudaError_t
tps_cuda_bias_add (cudaStream_t stream, gfloat *values, const gfloat *bias, gsize rows,
                   gsize columns)
{
  return each<4> (stream, rows * columns, Bias { values, bias, columns });
}

cudaError_t
tps_cuda_column_sum (cudaStream_t stream, gfloat *sums, const gfloat *values, gsize rows,
                     gsize columns)
{
  return each<1> (stream, columns, ColumnSum { sums, values, rows, columns });
}

cudaError_t
tps_cuda_relu (cudaStream_t stream, gfloat *output, const gfloat *input, gsize n_elems)
{
  return each<4> (stream, n_elems, Relu { output, input });
}

cudaError_t
tps_cuda_relu_backward (cudaStream_t stream, gfloat *input_gradient, const gfloat *output_gradient,
                        const gfloat *output, gsize n_elems)
{
  return each<4> (stream, n_elems, ReluBackward { input_gradient, output_gradient, output });
}
