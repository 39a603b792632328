/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stochastic gradient descent, as torch.optim.SGD (PyTorch 1.13) without dampening and Nesterov
 * momentum:
 *
 *   d        = g + weight_decay * v
 *   velocity = momentum * velocity + d
 *   v       -= learning_rate * velocity
 *
 * State: velocity [dim]. Without momentum there is no state, and v -= learning_rate * d. The loops
 * are in runtime/device/cpu/kernels/descent.c, which the SGD of layers also uses.
 */

#include "runtime/device/cpu/kernels/descent.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

void
tps_cpu_sgd_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                 gfloat *state, gsize dim)
{
  TpsSgdFactors factors = {
    .learning_rate = step->spec->learning_rate,
    .momentum = step->spec->momentum,
    .weight_decay = step->spec->weight_decay,
  };

  tps_cpu_sgd (&factors, values, gradient, step->momentum != 0 ? state : NULL, dim);
}
