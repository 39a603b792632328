/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The formula is in runtime/device/cpu/optimizer/optimizer.c. The kernel is memory-bound: 28 bytes
 * per value. */

#include "cuda/kernels/update_rows.cuh"

namespace {

struct Ftrl
{
  gfloat alpha, beta, l1, l2, weight_decay, first_slope;

  TPS_BODY void
  step (tps::Value<2> *x) const
  {
    gfloat v = x->value, z = x->state[0], n = x->state[1];
    gfloat d = x->gradient + weight_decay * v;
    gfloat new_n = n + d * d;
    gfloat sigma = (sqrtf (new_n) - sqrtf (n)) / alpha;
    gfloat z_of_v = -(v * first_slope + (v == 0 ? 0 : copysignf (l1, v)));
    gfloat new_z = ((n == 0 ? z_of_v : z) + d) - sigma * v;
    gfloat new_v = (copysignf (l1, new_z) - new_z) / ((beta + sqrtf (new_n)) / alpha + l2);

    new_v = fabsf (new_z) <= l1 ? 0 : new_v;
    x->state[0] = new_z;
    x->state[1] = new_n;
    x->value = new_n == 0 ? v : new_v;
  }
};

} /* namespace */

cudaError_t
tps_cuda_ftrl_rows (cudaStream_t stream, const TpsOptimizerStep *step, const TpsRowUpdate *update)
{
  gfloat alpha = step->learning_rate;

  return tps::update_rows<2> (stream, update, step->step,
                              Ftrl { alpha, step->beta, step->l1, step->l2, step->weight_decay,
                                     step->beta / alpha + step->l2 });
}
