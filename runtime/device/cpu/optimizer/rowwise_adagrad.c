/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Row-wise Adagrad: one accumulator for each row instead of one for each value, as FBGEMM's
 * EXACT_ROWWISE_ADAGRAD with L2 weight decay (also used by facebookresearch's DLRM):
 *
 *   d    = g + weight_decay * v
 *   sum  = sum + (d[0]^2 + ... + d[dim - 1]^2) / dim
 *   rate = learning_rate / (sqrt (sum) + epsilon)
 *   v   -= rate * d
 *
 * Order of the squares: there are LANES partial sums, and square i is added to sum i % LANES in
 * ascending order. Then the upper half of the partial sums is added to the lower half until one is
 * left.
 *
 * State: sum [1].
 */

#include <math.h>

#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

#define LANES 16

TPS_TARGET_CLONES void
tps_cpu_rowwise_adagrad_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                             gfloat *state, gsize dim)
{
  gfloat weight_decay = step->weight_decay;
  gfloat squares[LANES] = { 0 };
  gsize n_whole = dim - dim % LANES;
  gfloat rate;

  for (gsize i = 0; i < n_whole; i += LANES)
    for (gsize lane = 0; lane < LANES; lane++)
      {
        gfloat d = gradient[i + lane] + weight_decay * values[i + lane];

        squares[lane] += d * d;
      }
  for (gsize i = n_whole; i < dim; i++)
    {
      gfloat d = gradient[i] + weight_decay * values[i];

      squares[i - n_whole] += d * d;
    }
  for (gsize half = LANES / 2; half > 0; half /= 2)
    for (gsize lane = 0; lane < half; lane++)
      squares[lane] += squares[lane + half];
  state[0] += squares[0] / (gfloat) dim;
  rate = step->learning_rate / (sqrtf (state[0]) + step->epsilon);
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    values[i] -= rate * (gradient[i] + weight_decay * values[i]);
}
