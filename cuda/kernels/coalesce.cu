/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rows of equal id, added by the tree of tree.cuh. The work is memory-bound: one read of the rows,
 * and the sort of groups.cu. */

#include <type_traits>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/tree.cuh"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

template <typename Type, int V> struct RowTerms
{
  using Sum = typename Type::Sum;
  using Place = gsize;
  using Loaded = Pack<typename Type::Bits, V>;
  const Loaded *values;
  gsize n_packs;

  TPS_BODY Place
  find (gsize position) const
  {
    return position * n_packs;
  }
  TPS_BODY Loaded
  load (Place place, gsize pack) const
  {
    return values[place + pack];
  }
  TPS_BODY Pack<Sum, V>
  value (Place, const Loaded &bits) const
  {
    Pack<Sum, V> term;

    for (int v = 0; v < V; v++)
      term.at[v] = Type::value (bits.at[v]);
    return term;
  }
};

template <typename Sum, int V> struct RowSink
{
  Pack<Sum, V> *sums;
  gsize n_packs;

  TPS_BODY void
  store (gsize group, gsize pack, const Pack<Sum, V> &sum) const
  {
    sums[group * n_packs + pack] = sum;
  }
};

template <typename Type, int V>
cudaError_t
coalesce (cudaStream_t stream, GroupRequest request, gconstpointer values, gsize dim, gpointer sums)
{
  using Sum = typename Type::Sum;
  using T = Tree<V, RowTerms<Type, V>, RowSink<Sum, V>>;
  Scratch scratch (stream);
  Groups groups;
  gsize n_packs = dim / V, n_slots = tree_slots (request.n_ids) * n_packs;
  cudaError_t code;

  request.n_extra_bytes = Scratch::bytes_of<typename T::Sums> (n_slots);
  code = group_ids (stream, request, &scratch, &groups);
  if (code != cudaSuccess || dim == 0)
    return code;
  return sum_groups (stream, T { groups,
                                 { (const Pack<typename Type::Bits, V> *) values, n_packs },
                                 { (Pack<Sum, V> *) sums, n_packs },
                                 n_packs,
                                 scratch.take<typename T::Sums> (n_slots) });
}

} /* namespace */

cudaError_t
tps_cuda_coalesce_rows (cudaStream_t stream, TpsDType dtype, const gint64 *indices, gint64 bound,
                        gconstpointer values, gsize n_rows, gsize dim, gint64 *unique_indices,
                        gpointer sums, gint64 *n_unique)
{
  GroupRequest request = {};

  if (n_rows == 0)
    return cudaMemsetAsync (n_unique, 0, sizeof *n_unique, stream);
  request.ids = indices;
  request.n_ids = n_rows;
  request.bound = bound;
  request.unique_indices = unique_indices;
  request.n_unique = n_unique;
  return for_float_type (dtype, [&] (auto type) {
    using Type = decltype (type);

    if constexpr (std::is_same<Type, Float32>::value)
      if (tps_cuda_geometry_columns (dim, values, sums, nullptr) == 4)
        return coalesce<Type, 4> (stream, request, values, dim, sums);
    return coalesce<Type, 1> (stream, request, values, dim, sums);
  });
}
