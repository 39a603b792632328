/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of groups by the fixed tree of runtime/device/backend.h: chunks of 32 terms, whose sums are
 * the terms of the next level. There are three steps:
 *
 *   step         threads                                                  destination
 *   Chunks       one for each group of one chunk                          sum of the group
 *                one for each chunk of the longer groups                  slot of the chunk
 *   Supers       one for each 32 chunks of a group, but not the first 32  slot of the first chunk
 *   LongGroups   one for each longer group, for the remaining sums        sum of the group
 *
 * Each thread handles V neighbouring columns. The sum of an id with 100,000 duplicates thus takes
 * 3,125 threads, then 97 threads, and then one thread that adds 32 + 98 + 4 numbers. Groups are
 * found from sorted positions, without a search, and their number need not be known:
 *
 *   - A group of more than 32 terms that begins in the window [32 w, 32 w + 32) covers position
 *     32 (w + 1), so there is at most one.
 *   - A later chunk that begins in the window belongs to the group that covers position 32 w, so
 *     there is at most one.
 *
 * A window therefore has two slots: one for a chunk that is the first of its group, and one for a
 * chunk that is not. */

#pragma once

#include "cuda/kernels/groups.cuh"
#include "runtime/device/backend.h"

namespace tps {

constexpr gsize kChunk = TPS_SUM_CHUNK;
constexpr gsize kSuper = kChunk * kChunk;

/* The number of terms that a thread loads before it adds the first of them. */
constexpr int kTermsAhead = 4;

/* Returns the number of windows of `window` positions for `n` positions. */
TPS_BODY gsize
windows_of (gsize n, gsize window)
{
  return n / window + (n % window != 0 ? 1 : 0);
}

/* Returns the number of slots for the sums of chunks of `n` terms. */
inline gsize
tree_slots (gsize n)
{
  return n > kChunk ? 2 * windows_of (n, kChunk) : 0;
}

/* The inputs of all steps. Terms must have the types Sum, Place and Loaded, and the functions Place
 * find (position), Loaded load (place, pack) and Pack<Sum, V> value (place, loaded). A thread first
 * finds several terms, then loads all of them, and then computes their values. Sink must have the
 * function store (group, pack, sum). */
template <int V, typename Terms, typename Sink> struct Tree
{
  using Sums = Pack<typename Terms::Sum, V>;
  Groups groups;
  Terms terms;
  Sink sink;
  gsize n_packs; /* of a row, > 0 */
  Sums *slots;   /* [tree_slots (n), n_packs] */

  /* A group: its number, from 0, and its sorted positions [begin, end). */
  struct Span
  {
    gsize number, begin, end;
  };

  /* Returns the group that covers sorted position `i`. */
  TPS_BODY Span
  group_at (gsize i) const
  {
    gsize number = groups.numbers[i] - 1;

    return { number, groups.starts[number], groups.starts[number + 1] };
  }
  /* Returns true if `group` is a group, not the positions without a group, and has more than one
   * chunk. */
  TPS_BODY bool
  is_long (const Span &group) const
  {
    return group.end - group.begin > kChunk && group.number < *groups.n_groups;
  }
  /* Finds the long group that begins in window `w`. Returns false if there is none. */
  TPS_BODY bool
  find_long (gsize w, Span *group) const
  {
    gsize after = (w + 1) * kChunk;

    if (after >= groups.n)
      return false;
    *group = group_at (after);
    return group->begin / kChunk == w && is_long (*group);
  }
  /* Finds the part of `size` terms that begins in window `w` of that size, other than the first
   * part of its group. Returns false if there is none. */
  TPS_BODY bool
  find_later (gsize w, gsize size, Span *group, gsize *begin) const
  {
    gsize first = w * size;

    *group = group_at (first);
    *begin = first + (size - (first - group->begin) % size) % size;
    return *begin > group->begin && *begin < group->end && is_long (*group);
  }
  /* Returns the slot of chunk `k` of a group that begins at `begin`. */
  TPS_BODY Sums *
  slot (gsize begin, gsize k, gsize pack) const
  {
    return &slots[(2 * (begin / kChunk + k) + (k == 0 ? 1 : 0)) * n_packs + pack];
  }
  TPS_BODY static void
  add (Sums *sum, const Sums &term)
  {
    for (int v = 0; v < V; v++)
      sum->at[v] += term.at[v];
  }
  /* Adds the terms of sorted positions [i, end), at least one, one after another. */
  TPS_BODY Sums
  add_terms (gsize i, gsize end, gsize pack) const
  {
    typename Terms::Place first = terms.find (groups.order[i]);
    Sums sum = terms.value (first, terms.load (first, pack));

    for (i++; i < end; i += kTermsAhead)
      {
        typename Terms::Place places[kTermsAhead];
        typename Terms::Loaded ahead[kTermsAhead];

        for (int a = 0; a < kTermsAhead; a++)
          if (i + a < end)
            places[a] = terms.find (groups.order[i + a]);
        for (int a = 0; a < kTermsAhead; a++)
          if (i + a < end)
            ahead[a] = terms.load (places[a], pack);
        for (int a = 0; a < kTermsAhead; a++)
          if (i + a < end)
            add (&sum, terms.value (places[a], ahead[a]));
      }
    return sum;
  }
  /* Adds the slots of chunks k, k + stride, … below `end`, at most 32 of them, of a group that
   * begins at `begin`. */
  TPS_BODY Sums
  add_slots (gsize begin, gsize k, gsize stride, gsize end, gsize pack) const
  {
    gsize last = MIN (end, k + kChunk * stride);
    Sums sum = *slot (begin, k, pack);

    for (k += stride; k < last; k += kTermsAhead * stride)
      {
        Sums ahead[kTermsAhead];

        for (int a = 0; a < kTermsAhead; a++)
          if (k + a * stride < last)
            ahead[a] = *slot (begin, k + a * stride, pack);
        for (int a = 0; a < kTermsAhead; a++)
          if (k + a * stride < last)
            add (&sum, ahead[a]);
      }
    return sum;
  }
};

/* Adds chunks of long groups and whole short groups, both in one launch. The first items are slots,
 * the others are groups. */
template <typename T> struct Chunks
{
  using Item = int;
  T tree;
  gsize n_slots;

  TPS_BODY Item
  load (gsize) const
  {
    return 0;
  }
  TPS_BODY void
  store (gsize i, Item) const
  {
    Cell cell = cell_of (i, tree.n_packs);

    if (cell.row < n_slots)
      add_chunk (i, cell);
    else
      add_short (cell.row - n_slots, cell.column);
  }

private:
  TPS_BODY void
  add_chunk (gsize i, const Cell &cell) const
  {
    typename T::Span group;
    gsize begin;

    if (cell.row % 2 == 1 && tree.find_long (cell.row / 2, &group))
      tree.slots[i] = tree.add_terms (group.begin, group.begin + kChunk, cell.column);
    else if (cell.row % 2 == 0 && tree.find_later (cell.row / 2, kChunk, &group, &begin))
      tree.slots[i] = tree.add_terms (begin, MIN (begin + kChunk, group.end), cell.column);
  }
  TPS_BODY void
  add_short (gsize group, gsize pack) const
  {
    if (group >= *tree.groups.n_groups)
      return;
    gsize begin = tree.groups.starts[group], end = tree.groups.starts[group + 1];
    if (end - begin <= kChunk)
      tree.sink.store (group, pack, tree.add_terms (begin, end, pack));
  }
};

/* Adds parts of 32 chunks, other than the first part of a group. Items are windows of kSuper. */
template <typename T> struct Supers
{
  using Item = int;
  T tree;

  TPS_BODY Item
  load (gsize) const
  {
    return 0;
  }
  TPS_BODY void
  store (gsize i, Item) const
  {
    Cell cell = cell_of (i, tree.n_packs);
    typename T::Span group;
    gsize begin;

    if (!tree.find_later (cell.row, kSuper, &group, &begin))
      return;
    gsize k = (begin - group.begin) / kChunk;
    *tree.slot (group.begin, k, cell.column) = tree.add_slots (
        group.begin, k, 1, windows_of (group.end - group.begin, kChunk), cell.column);
  }
};

/* Adds the remaining sums of long groups. Items are windows. */
template <typename T> struct LongGroups
{
  using Item = int;
  T tree;

  TPS_BODY Item
  load (gsize) const
  {
    return 0;
  }
  TPS_BODY void
  store (gsize i, Item) const
  {
    Cell cell = cell_of (i, tree.n_packs);
    typename T::Span group;

    if (!tree.find_long (cell.row, &group))
      return;
    gsize n_chunks = windows_of (group.end - group.begin, kChunk);
    typename T::Sums sum = tree.add_slots (group.begin, 0, 1, n_chunks, cell.column);

    /* Each level works in place: the sum of 32 slots replaces the first of them. */
    for (gsize stride = kChunk; stride < n_chunks; stride *= kChunk)
      {
        *tree.slot (group.begin, 0, cell.column) = sum;
        for (gsize k = kChunk * stride; k < n_chunks; k += kChunk * stride)
          *tree.slot (group.begin, k, cell.column) = tree.add_slots (group.begin, k, stride,
                                                                     n_chunks, cell.column);
        sum = tree.add_slots (group.begin, 0, stride, n_chunks, cell.column);
      }
    tree.sink.store (group.number, cell.column, sum);
  }
};

/* Enqueues the sums of all groups. */
template <int V, typename Terms, typename Sink>
cudaError_t
sum_groups (cudaStream_t stream, const Tree<V, Terms, Sink> &tree)
{
  using T = Tree<V, Terms, Sink>;
  gsize n = tree.groups.n, n_slots = tree_slots (n);
  cudaError_t code = each<1> (stream, (n_slots + n) * tree.n_packs, Chunks<T> { tree, n_slots });

  if (code == cudaSuccess && n > kSuper)
    code = each<1> (stream, windows_of (n, kSuper) * tree.n_packs, Supers<T> { tree });
  if (code == cudaSuccess && n > kChunk)
    code = each<1> (stream, windows_of (n, kChunk) * tree.n_packs, LongGroups<T> { tree });
  return code;
}

} /* namespace tps */
