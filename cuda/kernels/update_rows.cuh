/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Optimizers that update each value independently, by a rule for one value. A thread updates V
 * neighbouring values of a row, with vector loads, and reads the indices of its rows before their
 * values. The types and roundings of rows are template parameters, so that FLOAT32 rows need no
 * code for them. */

#pragma once

#include <math.h>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/types.cuh"

namespace tps {

/* A Rounding describes the storage of rows: Bits, value(), and the rounding of updated values. Its
 * Row contains the data that the columns of one row share. */

template <typename Type> struct Nearest
{
  using Bits = typename Type::Bits;
  struct Row
  {
  };
  static constexpr bool kNeedsPlace = false; /* true if round() uses the row and the column */

  static TPS_BODY gfloat
  value (Bits bits)
  {
    return Type::value (bits);
  }
  TPS_BODY Row
  row (gsize) const
  {
    return {};
  }
  TPS_BODY Bits
  round (Row, gsize, gfloat x) const
  {
    return Type::of (x);
  }
};

template <typename Type> struct Stochastic
{
  using Bits = typename Type::Bits;
  using Row = guint64; /* the key of the random bits of a row */
  static constexpr bool kNeedsPlace = true;

  guint64 step_key;
  gint64 first, stride;

  static TPS_BODY gfloat
  value (Bits bits)
  {
    return Type::value (bits);
  }
  TPS_BODY Row
  row (gsize row) const
  {
    return stochastic_row_key (step_key, first + (gint64) row * stride);
  }
  TPS_BODY Bits
  round (Row key, gsize column, gfloat x) const
  {
    return Type::of (x, stochastic_bits (key, column));
  }
};

/* Calls f (rounding) for the rows of step `step`. Any other dtype is a bug in the caller. */

template <typename Type, typename F>
cudaError_t
for_half_rows (const TpsRowRounding &rounding, gint64 step, F f)
{
  guint64 step_key = stochastic_step_key (rounding.seed, step);

  return rounding.is_stochastic ? f (Stochastic<Type> { step_key, rounding.first, rounding.stride })
                                : f (Nearest<Type> {});
}

template <typename F>
cudaError_t
for_rows (const TpsRowUpdate &update, gint64 step, F f)
{
  switch (update.dtype)
    {
    case TPS_DTYPE_FLOAT32:
      return f (Nearest<Float32> {});
    case TPS_DTYPE_FLOAT16:
      return for_half_rows<Float16> (update.rounding, step, f);
    case TPS_DTYPE_BFLOAT16:
      return for_half_rows<BFloat16> (update.rounding, step, f);
    default:
      return cudaErrorInvalidValue;
    }
}

/* Returns the row of the table that update number `i` changes. */
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

/* A value with its gradient and its N numbers of state. */
template <int N> struct Value
{
  gfloat value, gradient, state[N > 0 ? N : 1];
};

/* Updates rows by a Rule, which must have the function void step (Value<N> *) const. State k of
 * column c lies at state[(row * N + k) * dim + c]. */
template <int N, int V, typename Rule, typename Rounding> struct UpdateRows
{
  using Bits = typename Rounding::Bits;
  struct Item
  {
    gsize row, pack;
    Pack<Bits, V> value;
    Pack<gfloat, V> gradient, state[N > 0 ? N : 1];
  };
  TpsRowUpdate update;
  gsize n_packs; /* of a row, > 0 */
  Rule rule;
  Rounding rounding;

  TPS_BODY gsize
  count (gsize n) const
  {
    gsize n_used = used_rows (update) * n_packs;

    return MIN (n, n_used);
  }
  /* Finds the place of an item. If all rows are updated in their order, and the state has the
   * layout of the values, they are handled as one long row. This saves a division. */
  TPS_BODY Item
  find (gsize i) const
  {
    bool is_one_row = update.indices == nullptr && N <= 1 && !Rounding::kNeedsPlace;
    Cell cell = is_one_row ? Cell { 0, i } : cell_of (i, n_packs);
    Item item;

    item.row = row_of (update, cell.row);
    item.pack = cell.column;
    return item;
  }
  TPS_BODY void
  load (gsize i, Item *item) const
  {
    item->value = *value_of (*item);
    item->gradient = ((const Pack<gfloat, V> *) update.gradients)[i];
    for (int k = 0; k < N; k++)
      item->state[k] = *state_of (*item, k);
  }
  TPS_BODY void
  store (gsize, Item item) const
  {
    typename Rounding::Row row = rounding.row (item.row);

    for (int v = 0; v < V; v++)
      {
        Value<N> x;

        x.value = Rounding::value (item.value.at[v]);
        x.gradient = item.gradient.at[v];
        for (int k = 0; k < N; k++)
          x.state[k] = item.state[k].at[v];
        rule.step (&x);
        item.value.at[v] = rounding.round (row, item.pack * V + v, x.value);
        for (int k = 0; k < N; k++)
          item.state[k].at[v] = x.state[k];
      }
    *value_of (item) = item.value;
    for (int k = 0; k < N; k++)
      *state_of (item, k) = item.state[k];
  }

private:
  TPS_BODY Pack<Bits, V> *
  value_of (const Item &item) const
  {
    return (Pack<Bits, V> *) update.values + item.row * n_packs + item.pack;
  }
  TPS_BODY Pack<gfloat, V> *
  state_of (const Item &item, int k) const
  {
    return (Pack<gfloat, V> *) update.state + (item.row * N + k) * n_packs + item.pack;
  }
};

template <int N, int V, typename Rule>
cudaError_t
update_packs (cudaStream_t stream, const TpsRowUpdate &update, gint64 step, const Rule &rule)
{
  gsize n_packs = update.dim / V;

  return for_rows (update, step, [&] (auto rounding) {
    return placed<2> (
        stream, update.n_rows * n_packs,
        UpdateRows<N, V, Rule, decltype (rounding)> { update, n_packs, rule, rounding });
  });
}

/* Enqueues step number `step` of `rule` for the rows of `update`. */
template <int N, typename Rule>
cudaError_t
update_rows (cudaStream_t stream, const TpsRowUpdate *update, gint64 step, const Rule &rule)
{
  if (tps_cuda_geometry_columns (update->dim, update->values, update->gradients,
                                 N > 0 ? update->state : nullptr)
      == 4)
    return update_packs<N, 4> (stream, *update, step, rule);
  return update_packs<N, 1> (stream, *update, step, rule);
}

} /* namespace tps */
