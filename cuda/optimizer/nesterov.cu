/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The formula is in runtime/device/cpu/optimizer/optimizer.c. The kernel is memory-bound: 20 bytes
 * per value. */

#include "cuda/kernels/update_rows.cuh"

namespace {

struct Nesterov
{
  gfloat learning_rate, momentum, weight_decay;

  TPS_BODY void
  step (tps::Value<1> *x) const
  {
    gfloat d = weight_decay != 0 ? x->gradient + weight_decay * x->value : x->gradient;
    gfloat velocity = momentum * x->state[0] + d;

    x->state[0] = velocity;
    x->value -= learning_rate * (d + momentum * velocity);
  }
};

} /* namespace */

cudaError_t
tps_cuda_nesterov_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                        const TpsRowUpdate *update)
{
  Nesterov rule = { step->learning_rate, step->momentum, step->weight_decay };

  return tps::update_rows<1> (stream, update, step->step, rule);
}
