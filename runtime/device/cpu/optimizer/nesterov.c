/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stochastic gradient descent with Nesterov momentum, as torch.optim.SGD (PyTorch 2.14,
 * nesterov=True, foreach=False), bit for bit if products and sums are not fused. From Sutskever et
 * al., "On the importance of initialization and momentum in deep learning", ICML 2013:
 *
 *   d        = g + weight_decay * v
 *   velocity = momentum * velocity + d
 *   v       -= learning_rate * (d + momentum * velocity)
 *
 * State: velocity [dim].
 */

#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/device/cpu/optimizer/optimizer.h"

TPS_TARGET_CLONES void
tps_cpu_nesterov_row (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                      gfloat *state, gsize dim)
{
  gfloat learning_rate = step->learning_rate, momentum = step->momentum;
  gfloat weight_decay = step->weight_decay;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < dim; i++)
    {
      gfloat d = weight_decay != 0 ? gradient[i] + weight_decay * values[i] : gradient[i];
      gfloat velocity = momentum * state[i] + d;

      state[i] = velocity;
      values[i] -= learning_rate * (d + momentum * velocity);
    }
}
