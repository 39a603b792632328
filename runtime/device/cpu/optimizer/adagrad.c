/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Adagrad, as torch.optim.Adagrad (PyTorch 1.13) with lr_decay 0 and initial_accumulator_value 0;
 * from Duchi, Hazan, Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic
 * Optimization", JMLR 12 (2011):
 *
 *   d   = g + weight_decay * v
 *   sum = sum + d * d
 *   v  -= learning_rate * (d / (sqrt (sum) + epsilon))
 *
 * State: sum [dim].
 */

#include <math.h>

#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

TPS_TARGET_CLONES void
tps_cpu_adagrad_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                     gfloat *state, gsize dim)
{
  gfloat learning_rate = step->learning_rate;
  gfloat weight_decay = step->weight_decay;
  gfloat epsilon = step->epsilon;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat d = gradient[i] + weight_decay * values[i];
      gfloat sum = state[i] + d * d;

      state[i] = sum;
      values[i] -= learning_rate * (d / (sqrtf (sum) + epsilon));
    }
}
