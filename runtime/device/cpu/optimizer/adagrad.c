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

#include "runtime/device/cpu/optimizer/kinds.h"
#include "runtime/device/cpu/kernels/vectorize.h"

TPS_TARGET_CLONES static void
update_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient, gfloat *state,
            gsize dim)
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

const TpsCpuOptimizer tps_cpu_adagrad_optimizer = {
  .name = "ADAGRAD",
  .kind = TPS_OPTIMIZER_ADAGRAD,
  .state_per_row = tps_optimizer_state_per_row,
  .update_row = update_row,
};
