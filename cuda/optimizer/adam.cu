/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The formula is in runtime/device/cpu/optimizer/optimizer.c. The kernel is memory-bound: 28 bytes
 * per value. */

#include "cuda/kernels/update_rows.cuh"

namespace {

struct Adam
{
  gfloat beta1, rest1, beta2, rest2, correction1, correction2, weight_decay, epsilon;

  TPS_BODY void
  step (tps::Value<2> *x) const
  {
    gfloat d = x->gradient + weight_decay * x->value;
    gfloat m = beta1 * x->state[0] + rest1 * d;
    gfloat s = beta2 * x->state[1] + rest2 * (d * d);

    x->state[0] = m;
    x->state[1] = s;
    x->value -= correction1 * (m / (sqrtf (s) / correction2 + epsilon));
  }
};

} /* namespace */

cudaError_t
tps_cuda_adam_rows (cudaStream_t stream, const TpsOptimizerStep *step, const TpsRowUpdate *update)
{
  Adam rule = {
    step->beta1,        (gfloat) (1 - step->spec->beta1),
    step->beta2,        (gfloat) (1 - step->spec->beta2),
    step->correction1,  step->correction2,
    step->weight_decay, step->epsilon,
  };

  return tps::update_rows<2> (stream, update, step->step, rule);
}
