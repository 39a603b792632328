/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Keys and positions are sorted, the first member of each group is marked, and a running sum of the
 * marks numbers the groups. Keys have 32 bits if that suffices. Only the bits that distinguish keys
 * are sorted. The work is memory-bound: the sort, and 20 bytes per id. */

#include "cuda/kernels/groups.cuh"

#include "cuda/kernels/bags.cuh"
#include "cuda/kernels/primitives.cuh"

namespace tps {
namespace {

/* Makes the keys and positions to be sorted. Also searches for the bag of each position, so that
 * later steps need not. */
template <typename Key> struct MakeKeys
{
  using Item = Key;
  const gint64 *ids;
  Key *keys;
  guint32 *positions;
  TpsBags bags;
  guint32 *bag_of; /* may be NULL */

  TPS_BODY Item
  load (gsize i) const
  {
    return (Key) ids[i];
  }
  TPS_BODY void
  store (gsize i, Item key) const
  {
    keys[i] = key;
    positions[i] = (guint32) i;
    if (bag_of != nullptr)
      bag_of[i] = (guint32) tps::bag_of (bags, i);
  }
};

/* Writes 1 for the first member of each group, and 0 for the others. */
template <typename Key> struct MarkGroups
{
  using Item = guint32;
  const Key *keys;
  guint32 *marks;

  TPS_BODY Item
  load (gsize i) const
  {
    return i == 0 || keys[i] != keys[i - 1] ? 1 : 0;
  }
  TPS_BODY void
  store (gsize i, Item mark) const
  {
    marks[i] = mark;
  }
};

/* Finds the beginnings, the number and the ids of the groups. */
struct FindGroups
{
  using Item = int;
  Groups groups;
  guint32 *starts, *n_groups;
  gint64 *unique_indices, *n_unique;

  TPS_BODY Item
  load (gsize) const
  {
    return 0;
  }
  TPS_BODY void
  store (gsize i, Item) const
  {
    guint32 number = groups.numbers[i];

    if (i == 0 || groups.numbers[i - 1] != number)
      {
        starts[number - 1] = (guint32) i;
        if (unique_indices != nullptr)
          unique_indices[number - 1] = (gint64) groups.key_at (i);
      }
    if (i < groups.n - 1)
      return;
    starts[number] = (guint32) groups.n;
    *n_groups = number;
    if (n_unique != nullptr)
      *n_unique = number;
  }
};

template <typename Key> struct Arrays
{
  Pairs<Key> pairs;
  guint32 *numbers, *starts, *n_groups, *bag_of;
  Temporary temporary;
};

/* Sets the size of the memory that the sort and the running sum need, which is the larger of their
 * sizes. */
template <typename Key>
cudaError_t
measure (cudaStream_t stream, gsize n, int n_bits, Temporary *temporary)
{
  Pairs<Key> pairs = {};
  Temporary of_sort = {}, of_sum = {};
  cudaError_t code = sort_pairs (stream, &of_sort, &pairs, n, n_bits);

  if (code == cudaSuccess)
    code = sum_inclusive (stream, &of_sum, nullptr, n);
  *temporary = { nullptr, MAX (MAX (of_sort.n_bytes, of_sum.n_bytes), 1) };
  return code;
}

/* Allocates all arrays, and the bytes that the caller has requested, at once. */
template <typename Key>
cudaError_t
allocate (cudaStream_t stream, const GroupRequest &request, int n_bits, Scratch *scratch,
          Arrays<Key> *a)
{
  gsize n = request.n_ids;
  gsize n_bag_of = request.bags != nullptr ? n : 0;
  cudaError_t code = measure<Key> (stream, n, n_bits, &a->temporary);

  if (code == cudaSuccess)
    code = scratch->allocate (2 * Scratch::bytes_of<Key> (n) + 3 * Scratch::bytes_of<guint32> (n)
                              + Scratch::bytes_of<guint32> (n_bag_of)
                              + Scratch::bytes_of<guint32> (n + 1) + Scratch::bytes_of<guint32> (1)
                              + Scratch::bytes_of<guint8> (a->temporary.n_bytes)
                              + request.n_extra_bytes);
  if (code != cudaSuccess)
    return code;
  for (int half = 0; half < 2; half++)
    {
      a->pairs.keys[half] = scratch->take<Key> (n);
      a->pairs.positions[half] = scratch->take<guint32> (n);
    }
  a->numbers = scratch->take<guint32> (n);
  a->starts = scratch->take<guint32> (n + 1);
  a->n_groups = scratch->take<guint32> (1);
  a->bag_of = n_bag_of > 0 ? scratch->take<guint32> (n_bag_of) : nullptr;
  a->temporary.memory = scratch->take<guint8> (a->temporary.n_bytes);
  return cudaSuccess;
}

template <typename Key>
Groups
groups_of (const Arrays<Key> &a, gsize n)
{
  const Key *keys = a.pairs.keys[a.pairs.current];
  Groups groups = {};

  groups.n = n;
  groups.keys32 = sizeof (Key) == 4 ? (const guint32 *) keys : nullptr;
  groups.keys64 = sizeof (Key) == 8 ? (const guint64 *) keys : nullptr;
  groups.order = a.pairs.positions[a.pairs.current];
  groups.numbers = a.numbers;
  groups.starts = a.starts;
  groups.n_groups = a.n_groups;
  groups.bag_of = a.bag_of;
  return groups;
}

template <typename Key>
cudaError_t
group (cudaStream_t stream, const GroupRequest &request, int n_bits, Scratch *scratch,
       Groups *groups)
{
  gsize n = request.n_ids;
  Arrays<Key> a = {};
  cudaError_t code = allocate (stream, request, n_bits, scratch, &a);

  if (code == cudaSuccess)
    code = each<4> (stream, n,
                    MakeKeys<Key> { request.ids, a.pairs.keys[0], a.pairs.positions[0],
                                    request.bags != nullptr ? *request.bags : TpsBags {},
                                    a.bag_of });
  if (code == cudaSuccess)
    code = sort_pairs (stream, &a.temporary, &a.pairs, n, n_bits);
  if (code != cudaSuccess)
    return code;
  *groups = groups_of (a, n);
  const Key *keys = a.pairs.keys[a.pairs.current];
  code = each<4> (stream, n, MarkGroups<Key> { keys, a.numbers });
  if (code == cudaSuccess)
    code = sum_inclusive (stream, &a.temporary, a.numbers, n);
  if (code == cudaSuccess)
    code = each<4> (
        stream, n,
        FindGroups { *groups, a.starts, a.n_groups, request.unique_indices, request.n_unique });
  return code;
}

} /* namespace */

cudaError_t
group_ids (cudaStream_t stream, const GroupRequest &request, Scratch *scratch, Groups *groups)
{
  int n_bits = tps_cuda_geometry_id_bits (request.bound);

  if (request.n_ids > kMaxIds || (request.bags != nullptr && request.bags->n_bags > G_MAXUINT32))
    return cudaErrorInvalidValue;
  if (n_bits <= 32)
    return group<guint32> (stream, request, n_bits, scratch, groups);
  return group<guint64> (stream, request, n_bits, scratch, groups);
}

} /* namespace tps */
