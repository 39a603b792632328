/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bias and ReLU. The kernels are memory-bound: 8 bytes per element, 12 for relu_backward, 4 for
 * column_sum. A thread handles V neighbouring elements at once if the arrays permit it. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/scratch.cuh"

namespace {

using namespace tps;

template <int V> struct Bias
{
  using Floats = Pack<gfloat, V>;
  struct Item
  {
    Floats value, bias;
  };
  Floats *values;
  const Floats *bias;
  gsize n_packs; /* of a row */

  TPS_BODY Item
  load (gsize i) const
  {
    return { values[i], bias[cell_of (i, n_packs).column] };
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    for (int v = 0; v < V; v++)
      item.value.at[v] = item.value.at[v] + item.bias.at[v];
    values[i] = item.value;
  }
};

/* Computes a level of the tree of runtime/device/backend.h: sums of TPS_SUM_CHUNK rows. A thread
 * handles a column of one sum. */
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

template <int V> struct Relu
{
  using Item = Pack<gfloat, V>;
  Item *output;
  const Item *input;

  TPS_BODY Item
  load (gsize i) const
  {
    return input[i];
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    for (int v = 0; v < V; v++)
      item.at[v] = item.at[v] <= 0 ? 0 : item.at[v];
    output[i] = item;
  }
};

template <int V> struct ReluBackward
{
  using Floats = Pack<gfloat, V>;
  struct Item
  {
    Floats gradient, output;
  };
  Floats *input_gradient;
  const Floats *output_gradient, *output;

  TPS_BODY Item
  load (gsize i) const
  {
    return { output_gradient[i], output[i] };
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    for (int v = 0; v < V; v++)
      item.gradient.at[v] = item.output.at[v] > 0 ? item.gradient.at[v] : 0;
    input_gradient[i] = item.gradient;
  }
};

template <int V>
cudaError_t
bias_add (cudaStream_t stream, gfloat *values, const gfloat *bias, gsize rows, gsize columns)
{
  using Floats = Pack<gfloat, V>;
  gsize n_packs = columns / V;

  return each < V == 1 ? 4
                       : 2 > (stream, rows * n_packs,
                              Bias<V> { (Floats *) values, (const Floats *) bias, n_packs });
}

template <int V>
cudaError_t
relu (cudaStream_t stream, gfloat *output, const gfloat *input, gsize n_elems)
{
  using Floats = Pack<gfloat, V>;

  return each < V == 1
             ? 4
             : 2 > (stream, n_elems / V, Relu<V> { (Floats *) output, (const Floats *) input });
}

template <int V>
cudaError_t
relu_backward (cudaStream_t stream, gfloat *input_gradient, const gfloat *output_gradient,
               const gfloat *output, gsize n_elems)
{
  using Floats = Pack<gfloat, V>;

  return each < V == 1
             ? 4
             : 2 > (stream, n_elems / V,
                    ReluBackward<V> { (Floats *) input_gradient, (const Floats *) output_gradient,
                                      (const Floats *) output });
}

} /* namespace */

cudaError_t
tps_cuda_bias_add (cudaStream_t stream, gfloat *values, const gfloat *bias, gsize rows,
                   gsize columns)
{
  if (tps_cuda_geometry_columns (columns, values, bias, nullptr) == 4)
    return bias_add<4> (stream, values, bias, rows, columns);
  return bias_add<1> (stream, values, bias, rows, columns);
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
  /* The levels alternate between two arrays, because a level reads the sums of the previous one. */
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
  if (tps_cuda_geometry_columns (n_elems, output, input, nullptr) == 4)
    return relu<4> (stream, output, input, n_elems);
  return relu<1> (stream, output, input, n_elems);
}

cudaError_t
tps_cuda_relu_backward (cudaStream_t stream, gfloat *input_gradient, const gfloat *output_gradient,
                        const gfloat *output, gsize n_elems)
{
  if (tps_cuda_geometry_columns (n_elems, input_gradient, output_gradient, output) == 4)
    return relu_backward<4> (stream, input_gradient, output_gradient, output, n_elems);
  return relu_backward<1> (stream, input_gradient, output_gradient, output, n_elems);
}
