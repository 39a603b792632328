/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The formula is in runtime/device/cpu/optimizer/optimizer.c. The kernel is memory-bound: 20 bytes
 * per value. */

#include "cuda/kernels/update_rows.cuh"

namespace {

struct Adagrad
{
  gfloat learning_rate, weight_decay, epsilon;

  TPS_BODY void
  step (tps::Value<1> *x) const
  {
    gfloat d = x->gradient + weight_decay * x->value;
    gfloat sum = x->state[0] + d * d;

    x->state[0] = sum;
    x->value -= learning_rate * (d / (sqrtf (sum) + epsilon));
  }
};

} /* namespace */

cudaError_t
tps_cuda_adagrad_rows (cudaStream_t stream, const TpsOptimizerStep *step,
                       const TpsRowUpdate *update)
{
  return tps::update_rows<1> (stream, update, step->step,
                              Adagrad { step->learning_rate, step->weight_decay, step->epsilon });
}
