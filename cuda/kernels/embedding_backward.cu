/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The gradient of a table from that of its bags. Positions are grouped by id; a thread has one column of one group and adds
 * in the order of the positions. A thread for every group that there could be, as in coalesce.cu. MAX groups the cells of
 * argmax instead, and looks for those of its column.
 * Bound: memory; a row of the output's gradient for each index, plus the sort. An id that is in most bags is one thread's
 * work: the order asks for it. */

#include "cuda/kernels/bags.cuh"
#include "cuda/kernels/groups.cuh"
#include "cuda/kernels/kernels.h"

namespace {

using namespace tps;

/* What the position contributes to a column: its bag's gradient, divided by the count for MEAN, times its weight. */
TPS_BODY gfloat
contribution (const TpsBags &bags, const gfloat *gradient, gsize position, gsize column)
{
  gsize bag = bag_of (bags, position);
  gfloat value = gradient[bag * (gsize) bags.dim + column];

  if (bags.pooling == TPS_POOLING_MEAN)
    value = value / (gfloat) (bag_start (bags, bag + 1) - bag_start (bags, bag));
  return bags.weights != nullptr ? bags.weights[position] * value : value;
}

struct SumBags
{
  TpsBags bags;
  const gfloat *gradient;
  Groups groups;

  /* From the first on, or (dense) from 0 on. */
  TPS_BODY gfloat
  sum (gsize u, gsize column, bool is_dense) const
  {
    gsize i = (gsize) groups.starts[u], end = (gsize) groups.starts[u + 1];
    gfloat total = is_dense ? 0.0f : -0.0f; /* -0 + x is x */

    for (; i < end; i++)
      total += contribution (bags, gradient, (gsize) groups.order[i], column);
    return total;
  }
};

struct SumMaxima
{
  TpsBags bags;
  const gfloat *gradient;
  Groups groups;

  /* Both from 0 on: a row has columns that none of its cells is in. */
  TPS_BODY gfloat
  sum (gsize u, gsize column, bool) const
  {
    gsize i = (gsize) groups.starts[u], end = (gsize) groups.starts[u + 1];
    gfloat total = 0;

    for (; i < end; i++)
      if ((gsize) groups.order[i] % (gsize) bags.dim == column)
        total += gradient[groups.order[i]];
    return total;
  }
};

/* Groups without those of no row (id -1, the last). */
TPS_BODY gint64
count_ids (const Groups &groups)
{
  gint64 n = *groups.n_groups;

  return n > 0 && groups.ids[n - 1] < 0 ? n - 1 : n;
}

template <typename Sums> struct Dense
{
  using Item = int;
  Sums sums;
  gfloat *table_gradient;

  TPS_BODY Item
  load (gsize i) const
  {
    return 0;
  }
  TPS_BODY void
  store (gsize i, Item) const
  {
    Cell cell = cell_of (i, (gsize) sums.bags.dim);

    if ((gint64) cell.row < count_ids (sums.groups))
      table_gradient[(gsize) sums.groups.ids[cell.row] * (gsize) sums.bags.dim + cell.column] =
          sums.sum (cell.row, cell.column, true);
  }
};

template <typename Sums> struct Rows
{
  using Item = int;
  Sums sums;
  gint64 *unique_indices;
  gfloat *row_gradients;
  gint64 *n_unique;

  TPS_BODY Item
  load (gsize i) const
  {
    return 0;
  }
  TPS_BODY void
  store (gsize i, Item) const
  {
    Cell cell = cell_of (i, MAX ((gsize) sums.bags.dim, 1));

    if (i == 0)
      *n_unique = count_ids (sums.groups);
    if ((gint64) cell.row >= count_ids (sums.groups))
      return;
    if (cell.column == 0)
      unique_indices[cell.row] = sums.groups.ids[cell.row];
    if (sums.bags.dim > 0)
      row_gradients[cell.row * (gsize) sums.bags.dim + cell.column] = sums.sum (cell.row,
                                                                                cell.column, false);
  }
};

/* What is grouped. */
const gint64 *
ids_of (const TpsBags *bags, const gint64 *argmax, gsize *n_ids)
{
  bool is_max = bags->pooling == TPS_POOLING_MAX;

  *n_ids = is_max ? bags->n_bags * (gsize) bags->dim : bags->n_indices;
  return is_max ? argmax : bags->indices;
}

} /* namespace */

cudaError_t
tps_cuda_embedding_backward (cudaStream_t stream, const TpsBags *bags,
                             const gfloat *output_gradient, const gint64 *argmax,
                             gfloat *table_gradient)
{
  gsize dim = (gsize) bags->dim, n_cells = (gsize) bags->rows * dim, n_ids;
  const gint64 *ids = ids_of (bags, argmax, &n_ids);
  Scratch scratch (stream);
  Groups groups;
  cudaError_t code;

  if (n_cells == 0)
    return cudaSuccess;
  code = cudaMemsetAsync (table_gradient, 0, n_cells * sizeof table_gradient[0], stream);
  if (code == cudaSuccess && n_ids > 0)
    code = group_ids (stream, ids, n_ids, tps_cuda_geometry_id_bits (bags->rows), &scratch,
                      &groups);
  if (code != cudaSuccess || n_ids == 0)
    return code;
  if (bags->pooling == TPS_POOLING_MAX)
    return each<1> (stream, n_ids * dim,
                    Dense<SumMaxima> { { *bags, output_gradient, groups }, table_gradient });
  return each<1> (stream, n_ids * dim,
                  Dense<SumBags> { { *bags, output_gradient, groups }, table_gradient });
}

cudaError_t
tps_cuda_embedding_backward_rows (cudaStream_t stream, const TpsBags *bags,
                                  const gfloat *output_gradient, const gint64 *argmax,
                                  gint64 *unique_indices, gfloat *row_gradients, gint64 *n_unique)
{
  gsize n_ids, n_columns = MAX ((gsize) bags->dim, 1);
  const gint64 *ids = ids_of (bags, argmax, &n_ids);
  Scratch scratch (stream);
  Groups groups;
  cudaError_t code;

  if (n_ids == 0 || bags->n_indices == 0)
    return cudaMemsetAsync (n_unique, 0, sizeof *n_unique, stream);
  code = group_ids (stream, ids, n_ids, tps_cuda_geometry_id_bits (bags->rows), &scratch, &groups);
  if (code != cudaSuccess)
    return code;
  if (bags->pooling == TPS_POOLING_MAX)
    return each<1> (
        stream, n_ids * n_columns,
        Rows<SumMaxima> {
            { *bags, output_gradient, groups }, unique_indices, row_gradients, n_unique });
  return each<1> (
      stream, n_ids * n_columns,
      Rows<SumBags> {
          { *bags, output_gradient, groups }, unique_indices, row_gradients, n_unique });
}
