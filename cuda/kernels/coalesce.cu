/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rows of equal id, added in their order. The number of ids is not known on the host when the work is enqueued, so there is
 * a thread for every row and column that there could be. Bound: memory, the rows once, plus the sort of groups.cu. */

#include "cuda/kernels/groups.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

template <typename Type> struct SumGroups
{
  using Item = int;
  Groups groups;
  const typename Type::Bits *values;
  gsize dim;
  gint64 *unique_indices;
  typename Type::Sum *sums;
  gint64 *n_unique;

  TPS_BODY Item
  load (gsize i) const
  {
    return 0;
  }
  TPS_BODY void
  store (gsize i, Item) const
  {
    Cell cell = cell_of (i, dim);
    gsize u = cell.row;

    if (i == 0)
      *n_unique = *groups.n_groups;
    if ((gint64) u >= *groups.n_groups)
      return;
    if (cell.column == 0)
      unique_indices[u] = groups.ids[u];
    sums[u * dim + cell.column] = sum (u, cell.column);
  }
  TPS_BODY typename Type::Sum
  sum (gsize u, gsize column) const
  {
    gsize first = (gsize) groups.starts[u], end = (gsize) groups.starts[u + 1];
    typename Type::Sum total = Type::value (values[(gsize) groups.order[first] * dim + column]);

    for (gsize i = first + 1; i < end; i++)
      total += Type::value (values[(gsize) groups.order[i] * dim + column]);
    return total;
  }
};

/* Rows without columns have ids too. */
struct CopyIds
{
  using Item = int;
  Groups groups;
  gint64 *unique_indices;
  gint64 *n_unique;

  TPS_BODY Item
  load (gsize i) const
  {
    return 0;
  }
  TPS_BODY void
  store (gsize u, Item) const
  {
    if (u == 0)
      *n_unique = *groups.n_groups;
    if ((gint64) u < *groups.n_groups)
      unique_indices[u] = groups.ids[u];
  }
};

} /* namespace */

cudaError_t
tps_cuda_coalesce_rows (cudaStream_t stream, TpsDType dtype, const gint64 *indices,
                        gconstpointer values, gsize n_rows, gsize dim, gint64 *unique_indices,
                        gpointer sums, gint64 *n_unique)
{
  Scratch scratch (stream);
  Groups groups;
  cudaError_t code;

  if (n_rows == 0)
    return cudaMemsetAsync (n_unique, 0, sizeof *n_unique, stream);
  code = group_ids (stream, indices, n_rows, kAllBits, &scratch, &groups);
  if (code != cudaSuccess)
    return code;
  if (dim == 0)
    return each<1> (stream, n_rows, CopyIds { groups, unique_indices, n_unique });
  return for_float_type (dtype, [&] (auto type) {
    using Type = decltype (type);
    SumGroups<Type> body = { groups,         (const typename Type::Bits *) values, dim,
                             unique_indices, (typename Type::Sum *) sums,          n_unique };

    return each<1> (stream, n_rows * dim, body);
  });
}
