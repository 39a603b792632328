/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bags of rows into one row each. A thread has V neighbouring columns of one bag and walks its rows in their order, a few
 * of them under way at a time. Bound: memory; the rows read, the indices, the output. */

#include "cuda/kernels/bags.cuh"
#include "cuda/kernels/kernels.h"

namespace {

using namespace tps;

/* Rows that a thread asks for before it adds the first of them. */
constexpr int kAhead = 4;

template <int V> struct Pool
{
  using Item = Pack<gfloat, V>;
  TpsBags bags;
  gsize n_packs; /* of a row */
  const Item *table;
  Item *output;

  TPS_BODY Item
  row (gsize position, gsize column) const
  {
    Item values = table[(gsize) bags.indices[position] * n_packs + column];

    if (bags.weights != nullptr)
      for (int v = 0; v < V; v++)
        values.at[v] = bags.weights[position] * values.at[v];
    return values;
  }
  TPS_BODY void
  add (Item *sum, const Item &row) const
  {
    for (int v = 0; v < V; v++)
      sum->at[v] += row.at[v];
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
      {
        Item rows[kAhead];

        for (int a = 0; a < kAhead; a++)
          rows[a] = row (position + a, cell.column);
        for (int a = 0; a < kAhead; a++)
          add (&sum, rows[a]);
      }
    for (; position < end; position++)
      add (&sum, row (position, cell.column));
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

struct Max
{
  struct Item
  {
    gfloat value;
    gint64 id;
  };
  TpsBags bags;
  const gfloat *table;
  gfloat *output;
  gint64 *argmax;

  TPS_BODY Item
  load (gsize i) const
  {
    gsize dim = (gsize) bags.dim;
    Cell cell = cell_of (i, dim);
    gsize first = bag_start (bags, cell.row), end = bag_start (bags, cell.row + 1);
    Item largest = { 0, -1 };

    for (gsize position = first; position < end; position++)
      {
        gint64 id = bags.indices[position];
        gfloat x = table[(gsize) id * dim + cell.column];

        if (position == first || x > largest.value || (x != x && largest.value == largest.value))
          largest = { x, id };
      }
    return largest;
  }
  TPS_BODY void
  store (gsize i, const Item &item) const
  {
    output[i] = item.value;
    if (argmax != nullptr)
      argmax[i] = item.id;
  }
};

template <int V>
cudaError_t
pool (cudaStream_t stream, const TpsBags *bags, const gfloat *table, gfloat *output)
{
  using Values = Pack<gfloat, V>;
  gsize n_packs = (gsize) bags->dim / V;
  Pool<V> body = { *bags, n_packs, (const Values *) table, (Values *) output };

  return each<1> (stream, bags->n_bags * n_packs, body);
}

} /* namespace */

cudaError_t
tps_cuda_embedding_pool (cudaStream_t stream, const TpsBags *bags, const gfloat *table,
                         gfloat *output, gint64 *argmax)
{
  gsize dim = (gsize) bags->dim;

  if (bags->pooling == TPS_POOLING_MAX)
    return each<1> (stream, bags->n_bags * dim, Max { *bags, table, output, argmax });
  if (tps_cuda_geometry_columns (dim, table, output, NULL) == 4)
    return pool<4> (stream, bags, table, output);
  return pool<1> (stream, bags, table, output);
}
