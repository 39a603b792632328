/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The formula is in runtime/device/cpu/optimizer/optimizer.c. The kernel is memory-bound: 28 bytes
 * per value. */

#include "cuda/kernels/update_rows.cuh"

namespace {

struct AdamW
{
  gfloat keep, weight, beta2, rest2, correction1, correction2, epsilon;

  TPS_BODY void
  step (tps::Value<2> *x) const
  {
    gfloat g = x->gradient, to_go = g - x->state[0];
    gfloat m = weight < 0.5f ? x->state[0] + weight * to_go : g - to_go * (1 - weight);
    gfloat s = x->state[1] * beta2 + rest2 * g * g;

    x->state[0] = m;
    x->state[1] = s;
    x->value = x->value * keep - correction1 * m / (sqrtf (s) / correction2 + epsilon);
  }
};

} /* namespace */

cudaError_t
tps_cuda_adamw_rows (cudaStream_t stream, const TpsOptimizerStep *step, const TpsRowUpdate *update)
{
  const TpsOptimizerSpec *spec = step->spec;
  AdamW rule = {
    (gfloat) (1 - spec->learning_rate * spec->weight_decay),
    (gfloat) (1 - spec->beta1),
    step->beta2,
    (gfloat) (1 - spec->beta2),
    step->correction1,
    step->correction2,
    step->epsilon,
  };

  return tps::update_rows<2> (stream, update, step->step, rule);
}
