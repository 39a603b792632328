/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A stable radix sort by CUB, then runs of equal ids. Bound: memory; 64-bit keys with 64-bit positions, a pass of 32 bytes an
 * id for each 8 bits that tell ids apart. */

#include "cuda/kernels/groups.cuh"

#include <cub/cub.cuh>

namespace tps {
namespace {

struct Iota
{
  using Item = gint64;
  gint64 *values;

  TPS_BODY Item
  load (gsize i) const
  {
    return (gint64) i;
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    values[i] = item;
  }
};

struct Arrays
{
  guint64 *sorted;
  gint64 *positions, *counts;
  void *temporary;
  gsize n_temporary;
};

cudaError_t
sort (cudaStream_t stream, const gint64 *ids, gsize n, int n_bits, Arrays *a, gint64 *order)
{
  return cub::DeviceRadixSort::SortPairs (a->temporary, a->n_temporary, (const guint64 *) ids,
                                          a->sorted, a->positions, order, (gint64) n, 0, n_bits,
                                          stream);
}

cudaError_t
encode (cudaStream_t stream, gsize n, Arrays *a, const Groups *groups)
{
  return cub::DeviceRunLengthEncode::Encode (a->temporary, a->n_temporary, a->sorted,
                                             (guint64 *) groups->ids, a->counts, groups->n_groups,
                                             (gint64) n, stream);
}

cudaError_t
scan (cudaStream_t stream, gsize n, Arrays *a, const Groups *groups)
{
  return cub::DeviceScan::ExclusiveSum (a->temporary, a->n_temporary, a->counts, groups->starts,
                                        (gint64) n + 1, stream);
}

/* The largest of what the three steps need; CUB says so when it is given no memory. */
cudaError_t
measure (cudaStream_t stream, const gint64 *ids, gsize n, int n_bits, gsize *n_temporary)
{
  Arrays none = {};
  Groups groups = {};
  cudaError_t code = sort (stream, ids, n, n_bits, &none, nullptr);

  *n_temporary = none.n_temporary;
  if (code == cudaSuccess)
    code = encode (stream, n, &none, &groups);
  *n_temporary = MAX (*n_temporary, none.n_temporary);
  if (code == cudaSuccess)
    code = scan (stream, n, &none, &groups);
  *n_temporary = MAX (*n_temporary, none.n_temporary);
  return code;
}

cudaError_t
allocate (const gint64 *ids, gsize n, int n_bits, cudaStream_t stream, Scratch *scratch, Arrays *a,
          Groups *groups)
{
  gsize n_temporary;
  cudaError_t code = measure (stream, ids, n, n_bits, &n_temporary);

  if (code != cudaSuccess)
    return code;
  code = scratch->allocate (6 * Scratch::bytes_of<gint64> (n + 1) + Scratch::bytes_of<gint64> (1)
                            + Scratch::bytes_of<guint8> (n_temporary));
  if (code != cudaSuccess)
    return code;
  groups->ids = scratch->take<gint64> (n + 1);
  groups->starts = scratch->take<gint64> (n + 1);
  groups->order = scratch->take<gint64> (n + 1);
  groups->n_groups = scratch->take<gint64> (1);
  a->sorted = scratch->take<guint64> (n + 1);
  a->positions = scratch->take<gint64> (n + 1);
  a->counts = scratch->take<gint64> (n + 1);
  a->temporary = scratch->take<guint8> (n_temporary);
  a->n_temporary = n_temporary;
  return cudaSuccess;
}

} /* namespace */

cudaError_t
group_ids (cudaStream_t stream, const gint64 *ids, gsize n_ids, int n_bits, Scratch *scratch,
           Groups *groups)
{
  Arrays a = {};
  cudaError_t code = allocate (ids, n_ids, n_bits, stream, scratch, &a, groups);

  if (code == cudaSuccess)
    code = each<4> (stream, n_ids, Iota { a.positions });
  if (code == cudaSuccess)
    code = sort (stream, ids, n_ids, n_bits, &a, groups->order);
  /* The scan reads one count more than there are groups. */
  if (code == cudaSuccess)
    code = cudaMemsetAsync (a.counts, 0, (n_ids + 1) * sizeof a.counts[0], stream);
  if (code == cudaSuccess)
    code = encode (stream, n_ids, &a, groups);
  if (code == cudaSuccess)
    code = scan (stream, n_ids, &a, groups);
  return code;
}

} /* namespace tps */
