/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Optimizers whose values do not depend on each other: a rule for one value, with one thread per
 * value. */

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

/* One value with its gradient and its N numbers of state. */
template <int N> struct Value
{
  gfloat value, gradient, state[N];
};

/* Rule: void step (Value<N> *), constant. State k of column c lies at state[(row * N + k) * dim +
 * c]. */
template <int N, typename Rule> struct UpdateRows
{
  using Item = Value<N>;
  TpsRowUpdate update;
  Rule rule;

  TPS_BODY Item
  load (gsize i) const
  {
    Cell cell = cell_of (i, update.dim);
    gsize row = row_of (update, cell.row);
    Item item;

    item.value = update.values[row * update.dim + cell.column];
    item.gradient = update.gradients[i];
    for (int k = 0; k < N; k++)
      item.state[k] = update.state[(row * N + k) * update.dim + cell.column];
    return item;
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    Cell cell = cell_of (i, update.dim);
    gsize row = row_of (update, cell.row);

    rule.step (&item);
    update.values[row * update.dim + cell.column] = item.value;
    for (int k = 0; k < N; k++)
      update.state[(row * N + k) * update.dim + cell.column] = item.state[k];
  }
};

template <int N, typename Rule>
cudaError_t
update_rows (cudaStream_t stream, const TpsRowUpdate *update, const Rule &rule)
{
  return each<2> (stream, update->n_rows * update->dim, UpdateRows<N, Rule> { *update, rule });
}

} /* namespace tps */
