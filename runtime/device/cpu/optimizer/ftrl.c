/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* FTRL-Proximal, per coordinate: McMahan et al., "Ad Click Prediction: a View from the Trenches",
 * KDD 2013, algorithm 1, with alpha = learning_rate:
 *
 *   d     = g + weight_decay * v
 *   sigma = (sqrt (n + d * d) - sqrt (n)) / alpha
 *   z     = (z + d) - sigma * v
 *   n     = n + d * d
 *   v     = 0                                                          where |z| <= l1
 *           (sign (z) * l1 - z) / ((beta + sqrt (n)) / alpha + l2)     elsewhere
 *
 * The paper stores only z and n and computes v on demand. Here lookups read v, so it is computed
 * after each update.
 *
 * Initial values: in the paper v is a function of z and n, so z = n = 0 implies v = 0. A row with a
 * different initial value and n = 0 gets the z that gives this v:
 *
 *   z = - (v * (beta / alpha + l2) + sign (v) * l1)
 *
 * Its first update then continues from v: without l1 and l2, v -= alpha / (beta + |d|) * d. Rows of
 * zeros behave as in the paper. (TensorFlow leaves z at 0 in this case, and its first update
 * shrinks v towards 0.) While every d of a value has been 0, n is 0 and the value does not change.
 *
 * State: z [dim], n [dim].
 */

#include <math.h>

#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

TPS_TARGET_CLONES void
tps_cpu_ftrl_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                  gfloat *state, gsize dim)
{
  gfloat alpha = step->learning_rate, beta = step->beta;
  gfloat l1 = step->l1, l2 = step->l2, weight_decay = step->weight_decay;
  gfloat first_slope = beta / alpha + l2;
  gfloat *zs = state, *ns = state + dim;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat v = values[i], n = ns[i], z = zs[i];
      gfloat d = gradient[i] + weight_decay * v;
      gfloat new_n = n + d * d;
      gfloat sigma = (sqrtf (new_n) - sqrtf (n)) / alpha;
      gfloat z_of_v = -(v * first_slope + (v == 0 ? 0 : copysignf (l1, v)));
      gfloat new_z = ((n == 0 ? z_of_v : z) + d) - sigma * v;
      gfloat new_v = (copysignf (l1, new_z) - new_z) / ((beta + sqrtf (new_n)) / alpha + l2);

      new_v = fabsf (new_z) <= l1 ? 0 : new_v;
      zs[i] = new_z;
      ns[i] = new_n;
      values[i] = new_n == 0 ? v : new_v;
    }
}
