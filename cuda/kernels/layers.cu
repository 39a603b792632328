/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bias and ReLU. Bound: memory, 8 bytes per element; relu_backward 12, column_sum 4. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/scratch.cuh"

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

/* A level of the tree of runtime/device/backend.h: sums of 32 rows; each thread handles a column of
 * one sum. */
struct ColumnChunks
{
  using Item = gfloat;
  gfloat *sums; /* [chunks, columns] */
  const gfloat *values;
  gsize rows, columns;

  TPS_BODY Item
  load (gsize i) const
  {
    Cell cell = cell_of (i, columns);
    gsize row = cell.row * TPS_SUM_CHUNK, end = MIN (row + TPS_SUM_CHUNK, rows);
    gfloat sum = 0;

    for (; row < end; row++)
      sum += values[row * columns + cell.column];
    return sum;
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    sums[i] = item;
  }
};

gsize
chunks_of (gsize n)
{
  return n / TPS_SUM_CHUNK + (n % TPS_SUM_CHUNK != 0 ? 1 : 0);
}

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
  Scratch scratch (stream);
  gsize n_first = chunks_of (rows), n_second = chunks_of (n_first);
  gfloat *levels[2] = { nullptr, nullptr };
  cudaError_t code = cudaSuccess;

  if (columns == 0)
    return cudaSuccess;
  if (rows == 0)
    return cudaMemsetAsync (sums, 0, columns * sizeof sums[0], stream);
  if (rows > TPS_SUM_CHUNK)
    code = scratch.allocate (Scratch::bytes_of<gfloat> (n_first * columns)
                             + Scratch::bytes_of<gfloat> (n_second * columns));
  if (code == cudaSuccess && rows > TPS_SUM_CHUNK)
    {
      levels[0] = scratch.take<gfloat> (n_first * columns);
      levels[1] = scratch.take<gfloat> (n_second * columns);
    }
  for (int level = 0; code == cudaSuccess && rows > TPS_SUM_CHUNK; level = 1 - level)
    {
      gsize n = chunks_of (rows);

      code = each<1> (stream, n * columns, ColumnChunks { levels[level], values, rows, columns });
      values = levels[level];
      rows = n;
    }
  if (code == cudaSuccess)
    code = each<1> (stream, columns, ColumnChunks { sums, values, rows, columns });
  return code;
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
