/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Optimizers whose values do not depend on each other: a rule for one value. A thread updates V
 * neighbouring values of a row, with vector loads, and reads the index of the row once. */

#pragma once

#include <math.h>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.cuh"

namespace tps {

TPS_BODY gsize
row_of (const TpsRowUpdate &update, gsize i)
{
  return update.indices != nullptr ? (gsize) update.indices[i] : i;
}

/* Returns the number of rows that are updated, which only the device may know. */
TPS_BODY gsize
used_rows (const TpsRowUpdate &update)
{
  return update.n_used != nullptr ? (gsize) *update.n_used : update.n_rows;
}

/* One value with its gradient and its N numbers of state. */
template <int N> struct Value
{
  gfloat value, gradient, state[N > 0 ? N : 1];
};

/* Rule: void step (Value<N> *), constant. State k of column c lies at state[(row * N + k) * dim +
 * c]. */
template <int N, int V, typename Rule> struct UpdateRows
{
  struct Item
  {
    gsize row, pack;
    Pack<gfloat, V> value, gradient, state[N > 0 ? N : 1];
  };
  TpsRowUpdate update;
  gsize n_packs; /* of a row, > 0 */
  Rule rule;

  TPS_BODY Item
  load (gsize i) const
  {
    Item item = {};

    if (is_used (i))
      {
        find_place (i, &item);
        item.value = *value_of (item);
        item.gradient = ((const Pack<gfloat, V> *) update.gradients)[i];
        for (int k = 0; k < N; k++)
          item.state[k] = *state_of (item, k);
      }
    return item;
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    if (!is_used (i))
      return;
    for (int v = 0; v < V; v++)
      {
        Value<N> x;

        x.value = item.value.at[v];
        x.gradient = item.gradient.at[v];
        for (int k = 0; k < N; k++)
          x.state[k] = item.state[k].at[v];
        rule.step (&x);
        item.value.at[v] = x.value;
        for (int k = 0; k < N; k++)
          item.state[k].at[v] = x.state[k];
      }
    *value_of (item) = item.value;
    for (int k = 0; k < N; k++)
      *state_of (item, k) = item.state[k];
  }

private:
  TPS_BODY bool
  is_used (gsize i) const
  {
    return i < used_rows (update) * n_packs;
  }
  /* All rows in their order are one long row, without a division, if state lies like values. */
  TPS_BODY void
  find_place (gsize i, Item *item) const
  {
    Cell cell = update.indices == nullptr && N <= 1 ? Cell { 0, i } : cell_of (i, n_packs);

    item->row = row_of (update, cell.row);
    item->pack = cell.column;
  }
  TPS_BODY Pack<gfloat, V> *
  value_of (const Item &item) const
  {
    return (Pack<gfloat, V> *) update.values + item.row * n_packs + item.pack;
  }
  TPS_BODY Pack<gfloat, V> *
  state_of (const Item &item, int k) const
  {
    return (Pack<gfloat, V> *) update.state + (item.row * N + k) * n_packs + item.pack;
  }
};

template <int N, int V, typename Rule>
cudaError_t
update_packs (cudaStream_t stream, const TpsRowUpdate &update, const Rule &rule)
{
  gsize n_packs = update.dim / V;

  return each<2> (stream, update.n_rows * n_packs,
                  UpdateRows<N, V, Rule> { update, n_packs, rule });
}

template <int N, typename Rule>
cudaError_t
update_rows (cudaStream_t stream, const TpsRowUpdate *update, const Rule &rule)
{
  if (tps_cuda_geometry_columns (update->dim, update->values, update->gradients,
                                 N > 0 ? update->state : nullptr)
      == 4)
    return update_packs<N, 4> (stream, *update, rule);
  return update_packs<N, 1> (stream, *update, rule);
}

} /* namespace tps */
