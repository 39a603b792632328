/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Adam. If every row has a gradient at every step, it equals torch.optim.Adam (PyTorch 1.13, with
 * weight decay added to the gradient). If only some rows have a gradient, it follows
 * torch.optim.SparseAdam: the moments of the other rows do not change, and `step` counts the steps
 * of the whole table. From Kingma, Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015,
 * algorithm 1:
 *
 *   d           = g + weight_decay * v
 *   m           = beta1 * m + (1 - beta1) * d
 *   s           = beta2 * s + (1 - beta2) * (d * d)
 *   correction1 = learning_rate / (1 - beta1^step)
 *   correction2 = sqrt (1 - beta2^step)
 *   v          -= correction1 * (m / (sqrt (s) / correction2 + epsilon))
 *
 * The corrections and 1 - beta are computed in double and rounded once. SparseAdam divides epsilon
 * by correction2, which matters for tiny gradients only.
 *
 * State: m [dim], s [dim].
 */

#include <math.h>

#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

TPS_TARGET_CLONES void
tps_cpu_adam_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                  gfloat *state, gsize dim)
{
  gfloat beta1 = step->beta1, rest1 = (gfloat) (1 - step->spec->beta1);
  gfloat beta2 = step->beta2, rest2 = (gfloat) (1 - step->spec->beta2);
  gfloat correction1 = step->correction1, correction2 = step->correction2;
  gfloat weight_decay = step->weight_decay, epsilon = step->epsilon;
  gfloat *first = state, *second = state + dim;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat d = gradient[i] + weight_decay * values[i];
      gfloat m = beta1 * first[i] + rest1 * d;
      gfloat s = beta2 * second[i] + rest2 * (d * d);

      first[i] = m;
      second[i] = s;
      values[i] -= correction1 * (m / (sqrtf (s) / correction2 + epsilon));
    }
}
