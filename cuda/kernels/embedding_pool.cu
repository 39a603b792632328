/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pools the rows of each bag into one row. The kernels are memory-bound: they move the rows, the
 * indices and the output.
 *
 * A thread handles V neighbouring columns of one bag. It reads the rows of the bag in order, with
 * several loads in flight. If each index is a bag of its own, rows are only copied: a team handles
 * a few of them, with all loads in flight. */

#include "cuda/kernels/bags.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

/* The number of rows that a thread loads before it adds the first of them. */
constexpr int kAhead = 4;

/* Returns V elements of a row as floats. */
template <typename Type, int V>
TPS_BODY Pack<gfloat, V>
values_of (const Pack<typename Type::Bits, V> &elements)
{
  Pack<gfloat, V> values;

  for (int v = 0; v < V; v++)
    values.at[v] = Type::value (elements.at[v]);
  return values;
}

template <typename Type, int V> struct Pool
{
  using Elements = Pack<typename Type::Bits, V>;
  using Item = Pack<gfloat, V>;
  TpsBags bags;
  gsize n_packs; /* of a row */
  const Elements *table;
  Item *output;

  TPS_BODY void
  add (Item *sum, const Elements &row, gfloat weight) const
  {
    Item values = values_of<Type, V> (row);

    for (int v = 0; v < V; v++)
      sum->at[v] += bags.weights != nullptr ? weight * values.at[v] : values.at[v];
  }
  /* Adds `n` rows, at most kAhead. All of them are loaded before the first is added. */
  TPS_BODY void
  add_rows (gsize position, int n, gsize column, Item *sum) const
  {
    Elements rows[kAhead];
    gfloat weights[kAhead] = {};

    for (int a = 0; a < kAhead; a++)
      if (a < n)
        rows[a] = table[(gsize) bags.indices[position + a] * n_packs + column];
    for (int a = 0; a < kAhead; a++)
      if (a < n && bags.weights != nullptr)
        weights[a] = bags.weights[position + a];
    for (int a = 0; a < kAhead; a++)
      if (a < n)
        add (sum, rows[a], weights[a]);
  }
  TPS_BODY Item
  load (gsize i) const
  {
    Cell cell = cell_of (i, n_packs);
    gsize first = bag_start (bags, cell.row), end = bag_start (bags, cell.row + 1);
    gsize position = first;
    Item sum;

    for (int v = 0; v < V; v++)
      sum.at[v] = first < end ? -0.0f : 0.0f; /* -0 + x is x, for x = -0 too */
    for (; position + kAhead <= end; position += kAhead)
      add_rows (position, kAhead, cell.column, &sum);
    if (position < end)
      add_rows (position, (int) (end - position), cell.column, &sum);
    if (bags.pooling == TPS_POOLING_MEAN && first < end)
      for (int v = 0; v < V; v++)
        sum.at[v] = sum.at[v] / (gfloat) (end - first);
    return sum;
  }
  TPS_BODY void
  store (gsize i, const Item &item) const
  {
    output[i] = item;
  }
};

/* Copies the rows `indices` of the table. An item is kAhead rows. If the last item has fewer, its
 * first row is loaded again and not stored. */
template <typename Type, int V> struct Gather
{
  using Elements = Pack<typename Type::Bits, V>;
  const gint64 *indices;
  gsize n_rows;
  gsize n_packs; /* of a row */
  const Elements *table;
  Pack<gfloat, V> *output;

  template <typename Team>
  TPS_BODY void
  run (gsize item, const Team &team) const
  {
    gsize first = item * kAhead;
    int n = n_rows - first < kAhead ? (int) (n_rows - first) : kAhead;
    const Elements *from[kAhead];

    for (int a = 0; a < kAhead; a++)
      from[a] = table + (gsize) indices[first + (a < n ? a : 0)] * n_packs;
    team.each (n_packs, [&] (gsize column) {
      Elements rows[kAhead];

      for (int a = 0; a < kAhead; a++)
        rows[a] = from[a][column];
      for (int a = 0; a < kAhead; a++)
        if (a < n)
          output[(first + a) * n_packs + column] = values_of<Type, V> (rows[a]);
    });
  }
};

/* The width of a team is the number of packs of a row, rounded up to 8, 16 or 32 threads. */
template <typename Type, int V>
cudaError_t
gather (cudaStream_t stream, const TpsBags *bags, const Pack<typename Type::Bits, V> *table,
        Pack<gfloat, V> *output)
{
  gsize n_packs = (gsize) bags->dim / V;
  gsize n_items = bags->n_bags / kAhead + (bags->n_bags % kAhead != 0 ? 1 : 0);
  Gather<Type, V> body = { bags->indices, bags->n_bags, n_packs, table, output };

  if (n_packs == 0)
    return cudaSuccess;
  if (n_packs <= 8)
    return teams<8> (stream, n_items, body);
  if (n_packs <= 16)
    return teams<16> (stream, n_items, body);
  return teams<32> (stream, n_items, body);
}

template <typename Type, int V>
cudaError_t
pool (cudaStream_t stream, const TpsBags *bags, gconstpointer table, gfloat *output)
{
  gsize n_packs = (gsize) bags->dim / V;
  auto from = (const Pack<typename Type::Bits, V> *) table;
  auto to = (Pack<gfloat, V> *) output;

  if (bags->offsets == nullptr && bags->n_indices == bags->n_bags && bags->weights == nullptr)
    return gather<Type, V> (stream, bags, from, to);
  return each<1> (stream, bags->n_bags * n_packs, Pool<Type, V> { *bags, n_packs, from, to });
}

template <typename Type>
cudaError_t
pool_rows (cudaStream_t stream, const TpsBags *bags, gconstpointer table, gfloat *output)
{
  if (tps_cuda_geometry_columns ((gsize) bags->dim, table, output, NULL) == 4)
    return pool<Type, 4> (stream, bags, table, output);
  return pool<Type, 1> (stream, bags, table, output);
}

} /* namespace */

cudaError_t
tps_cuda_embedding_pool (cudaStream_t stream, const TpsBags *bags, TpsDType dtype,
                         gconstpointer table, gfloat *output)
{
  switch (dtype)
    {
    case TPS_DTYPE_FLOAT32:
      return pool_rows<Float32> (stream, bags, table, output);
    case TPS_DTYPE_FLOAT16:
      return pool_rows<Float16> (stream, bags, table, output);
    case TPS_DTYPE_BFLOAT16:
      return pool_rows<BFloat16> (stream, bags, table, output);
    default:
      return cudaErrorInvalidValue;
    }
}
