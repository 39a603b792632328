/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* AdamW: Adam with decoupled weight decay, as torch.optim.AdamW (PyTorch 2.14, foreach=False), bit
 * for bit if sqrt() rounds correctly and products and sums are not fused. From Loshchilov, Hutter,
 * "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2:
 *
 *   v           = v * (1 - learning_rate * weight_decay)
 *   m           = m + (1 - beta1) * (g - m)                  if 1 - beta1 < 0.5
 *                 g - (g - m) * (1 - (1 - beta1))            otherwise
 *   s           = beta2 * s + ((1 - beta2) * g) * g
 *   correction1 = learning_rate / (1 - beta1^step)
 *   correction2 = sqrt (1 - beta2^step)
 *   v          -= (correction1 * m) / (sqrt (s) / correction2 + epsilon)
 *
 * The factor of v, 1 - beta and the corrections are computed in double and rounded once. Like ADAM,
 * a step changes only rows with a gradient, and `step` counts the steps of the whole table.
 *
 * State: m [dim], s [dim].
 */

#include <math.h>

#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

TPS_TARGET_CLONES void
tps_cpu_adamw_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                   gfloat *state, gsize dim)
{
  const TpsOptimizerSpec *spec = step->spec;
  gfloat keep = (gfloat) (1 - spec->learning_rate * spec->weight_decay);
  gfloat weight = (gfloat) (1 - spec->beta1), rest2 = (gfloat) (1 - spec->beta2);
  gfloat beta2 = step->beta2, epsilon = step->epsilon;
  gfloat correction1 = step->correction1, correction2 = step->correction2;
  gfloat *first = state, *second = state + dim;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat g = gradient[i], to_go = g - first[i];
      gfloat m = weight < 0.5f ? first[i] + weight * to_go : g - to_go * (1 - weight);
      gfloat s = second[i] * beta2 + rest2 * g * g;

      first[i] = m;
      second[i] = s;
      values[i] = values[i] * keep - correction1 * m / (sqrtf (s) / correction2 + epsilon);
    }
}
