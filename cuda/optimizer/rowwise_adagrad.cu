/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Formula and order of the squares: runtime/device/cpu/optimizer/rowwise_adagrad.c. Its 16 partial
 * sums are 16 threads here, and the team's reduction combines the upper half with the lower half.
 * Bound: memory, 12 bytes per value and 8 per row; the second read of a row comes from the
 * cache. */

#include "cuda/kernels/update_rows.cuh"

namespace {

using namespace tps;

constexpr int kLanes = 16;

struct RowwiseAdagrad
{
  TpsRowUpdate update;
  gfloat learning_rate, weight_decay, epsilon;

  template <typename Team>
  TPS_BODY void
  run (gsize i, const Team &team) const
  {
    if (i >= used_rows (update))
      return;
    gsize row = row_of (update, i), dim = update.dim;
    gfloat *values = update.values + row * dim;
    const gfloat *gradient = update.gradients + i * dim;
    gfloat decay = weight_decay;
    gfloat squares = team.reduce (
        [&] (int lane) {
          gfloat sum = 0;

          for (gsize c = (gsize) lane; c < dim; c += kLanes)
            {
              gfloat d = gradient[c] + decay * values[c];

              sum += d * d;
            }
          return sum;
        },
        [] (gfloat a, gfloat b) { return a + b; });
    gfloat sum = update.state[row] + squares / (gfloat) dim;
    gfloat rate = learning_rate / (sqrtf (sum) + epsilon);

    team.sync (); /* all threads have read the row's state */
    team.each (1, [&] (gsize) { update.state[row] = sum; });
    team.each (dim, [&] (gsize c) { values[c] -= rate * (gradient[c] + decay * values[c]); });
  }
};

} /* namespace */

cudaError_t
tps_cuda_rowwise_adagrad_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                               const TpsRowUpdate *update)
{
  return teams<kLanes> (
      stream, update->n_rows,
      RowwiseAdagrad { *update, step->learning_rate, step->weight_decay, step->epsilon });
}
