/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The formula and the order of the squares are in runtime/device/cpu/optimizer/optimizer.c.
 *
 * A team has 16 partial sums. Each of its threads holds V neighbouring sums, and thus reads V
 * neighbouring values at once. Every step of the reduction, first in the team and then in a thread,
 * adds the upper half of the sums to the lower half. A team updates two rows, whose reads are in
 * flight together. The kernel is memory-bound: 12 bytes per value and 8 per row. The second read of
 * a row comes from the cache. */

#include "cuda/kernels/update_rows.cuh"

namespace {

using namespace tps;

constexpr int kLanes = 16;
constexpr int kRows = 2;

template <int V, typename Rounding> struct RowwiseAdagrad
{
  static constexpr int kThreads = kLanes / V;
  using Values = Pack<typename Rounding::Bits, V>;
  using Gradient = Pack<gfloat, V>;
  using Sums = Pack<gfloat, kRows * V>; /* the sums of row r begin at r * V */
  struct Row
  {
    gsize index;
    Values *values;
    const Gradient *gradient;
    gfloat *state;
  };
  TpsRowUpdate update;
  gsize n_packs; /* of a row */
  gfloat learning_rate, weight_decay, epsilon;
  Rounding rounding;

  template <typename Team>
  TPS_BODY void
  run (gsize i, const Team &team) const
  {
    gsize first = i * kRows, n_used = used_rows (update);

    if (first >= n_used)
      return;
    /* If there is no second row, the first row is read twice and updated once. */
    int n_rows = n_used - first < kRows ? (int) (n_used - first) : kRows;
    Row rows[kRows];
    gfloat sums[kRows];

    for (int r = 0; r < kRows; r++)
      rows[r] = find_row (first + (gsize) (r < n_rows ? r : 0));
    for (int r = 0; r < kRows; r++) /* these loads are in flight together with the values */
      sums[r] = *rows[r].state;
    Sums squares = team.reduce ([&] (int lane) { return add_squares (rows, (gsize) lane); },
                                [] (const Sums &a, const Sums &b) { return add (a, b); });
    for (int r = 0; r < kRows; r++)
      sums[r] = sums[r] + combine (squares, r) / (gfloat) update.dim;
    team.sync ();                   /* all threads have read the states */
    for (int r = 0; r < kRows; r++) /* a constant bound keeps the rows in registers */
      if (r < n_rows)
        {
          gfloat rate = learning_rate / (sqrtf (sums[r]) + epsilon);
          typename Rounding::Row place = rounding.row (rows[r].index);

          team.each (1, [&] (gsize) { *rows[r].state = sums[r]; });
          team.each (n_packs, [&] (gsize pack) { step (rows[r], place, pack, rate); });
        }
  }

private:
  TPS_BODY Row
  find_row (gsize i) const
  {
    gsize row = row_of (update, i);

    return { row, (Values *) update.values + row * n_packs,
             (const Gradient *) update.gradients + i * n_packs, update.state + row };
  }

  TPS_BODY gfloat
  difference (gfloat value, gfloat gradient) const
  {
    return gradient + weight_decay * value;
  }

  /* Returns the partial sums of the squares of thread `lane`, for all rows. */
  TPS_BODY Sums
  add_squares (const Row *rows, gsize lane) const
  {
    Sums sums = {};

    for (gsize pack = lane; pack < n_packs; pack += kThreads)
      {
        Values values[kRows];
        Gradient gradient[kRows];

        for (int r = 0; r < kRows; r++)
          {
            values[r] = rows[r].values[pack];
            gradient[r] = rows[r].gradient[pack];
          }
        for (int r = 0; r < kRows; r++)
          for (int v = 0; v < V; v++)
            {
              gfloat d = difference (Rounding::value (values[r].at[v]), gradient[r].at[v]);

              sums.at[r * V + v] += d * d;
            }
      }
    return sums;
  }

  static TPS_BODY Sums
  add (const Sums &a, const Sums &b)
  {
    Sums sums;

    for (int k = 0; k < kRows * V; k++)
      sums.at[k] = a.at[k] + b.at[k];
    return sums;
  }

  /* Returns the sum of the partial sums of row `r`. */
  static TPS_BODY gfloat
  combine (const Sums &all, int r)
  {
    Sums sums = all;

    for (int half = V / 2; half > 0; half /= 2)
      for (int v = 0; v < half; v++)
        sums.at[r * V + v] += sums.at[r * V + v + half];
    return sums.at[r * V];
  }

  TPS_BODY void
  step (const Row &row, typename Rounding::Row place, gsize pack, gfloat rate) const
  {
    Values values = row.values[pack];
    Gradient gradient = row.gradient[pack];

    for (int v = 0; v < V; v++)
      {
        gfloat value = Rounding::value (values.at[v]);

        value -= rate * difference (value, gradient.at[v]);
        values.at[v] = rounding.round (place, pack * V + v, value);
      }
    row.values[pack] = values;
  }
};

template <int V>
cudaError_t
update_teams (cudaStream_t stream, const TpsOptimizerStep *step, const TpsRowUpdate *update)
{
  return for_rows (*update, step->step, [&] (auto rounding) {
    using Body = RowwiseAdagrad<V, decltype (rounding)>;

    return teams<Body::kThreads> (stream, update->n_rows / kRows + update->n_rows % kRows,
                                  Body { *update, update->dim / V, step->learning_rate,
                                         step->weight_decay, step->epsilon, rounding });
  });
}

} /* namespace */

cudaError_t
tps_cuda_rowwise_adagrad_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                               const TpsRowUpdate *update)
{
  if (tps_cuda_geometry_columns (update->dim, update->values, update->gradients, nullptr) == 4)
    return update_teams<4> (stream, step, update);
  return update_teams<1> (stream, step, update);
}
