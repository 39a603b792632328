/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stochastic gradient descent, dense and by rows. The formula is in
 * runtime/device/cpu/kernels/descent.c. The kernel is memory-bound: 12 bytes per element, 20 with
 * momentum. */

#include "cuda/kernels/update_rows.cuh"

namespace {

using namespace tps;

/* Unused terms are not computed, so that -0 and infinities give the same bits as on the CPU. */
template <bool HasMomentum, bool HasDecay> struct Sgd
{
  gfloat learning_rate, momentum, weight_decay;

  TPS_BODY void
  step (Value<HasMomentum ? 1 : 0> *x) const
  {
    gfloat d = x->gradient;

    if (HasDecay)
      d = d + weight_decay * x->value;
    if (HasMomentum)
      x->state[0] = d = momentum * x->state[0] + d;
    x->value -= learning_rate * d;
  }
};

template <bool HasMomentum, bool HasDecay>
cudaError_t
run (cudaStream_t stream, const TpsOptimizerStep *step, const TpsRowUpdate *update)
{
  Sgd<HasMomentum, HasDecay> rule = { step->learning_rate, step->momentum, step->weight_decay };

  return update_rows < HasMomentum ? 1 : 0 > (stream, update, step->step, rule);
}

} /* namespace */

cudaError_t
tps_cuda_sgd_rows (cudaStream_t stream, const TpsOptimizerStep *step, const TpsRowUpdate *update)
{
  bool has_momentum = update->state != nullptr && step->momentum != 0;
  bool has_decay = step->weight_decay != 0;

  if (has_momentum)
    return has_decay ? run<true, true> (stream, step, update)
                     : run<true, false> (stream, step, update);
  return has_decay ? run<false, true> (stream, step, update)
                   : run<false, false> (stream, step, update);
}

cudaError_t
tps_cuda_sgd (cudaStream_t stream, const TpsOptimizerStep *step, gfloat *values,
              const gfloat *gradient, gfloat *velocity, gsize n_elems)
{
  TpsRowUpdate one_row = { nullptr,  1,       n_elems,           values, velocity,
                           gradient, nullptr, TPS_DTYPE_FLOAT32, {} };

  return tps_cuda_sgd_rows (stream, step, &one_row);
}
