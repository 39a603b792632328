/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stochastic gradient descent, dense and by rows; formula: runtime/device/cpu/kernels/descent.c.
 * Bound: memory, 12 bytes per element, 20 with momentum. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.cuh"

namespace {

using namespace tps;

struct Factors
{
  gfloat learning_rate, momentum, weight_decay;
};

/* Unused terms are not computed, so that -0 and infinities give the CPU's bits. */
template <bool HasMomentum, bool HasDecay> struct Sgd
{
  struct Item
  {
    gfloat value, gradient, velocity;
  };
  Factors f;
  gfloat *values;
  const gint64 *indices; /* NULL: gradient i belongs to value i */
  const gfloat *gradient;
  gfloat *velocity;
  gsize dim;

  TPS_BODY gsize
  place (gsize i) const
  {
    if (indices == nullptr)
      return i;
    Cell cell = cell_of (i, dim);
    return (gsize) indices[cell.row] * dim + cell.column;
  }
  TPS_BODY Item
  load (gsize i) const
  {
    gsize to = place (i);

    return { values[to], gradient[i], HasMomentum ? velocity[to] : 0.0f };
  }
  TPS_BODY void
  store (gsize i, const Item &item) const
  {
    gsize to = place (i);
    gfloat d = item.gradient;

    if (HasDecay)
      d = d + f.weight_decay * item.value;
    if (HasMomentum)
      velocity[to] = d = f.momentum * item.velocity + d;
    values[to] = item.value - f.learning_rate * d;
  }
};

struct Arrays
{
  gfloat *values;
  const gint64 *indices;
  const gfloat *gradient;
  gfloat *velocity;
  gsize n_elems, dim;
};

template <bool HasMomentum, bool HasDecay>
cudaError_t
run (cudaStream_t stream, Factors f, const Arrays &a)
{
  Sgd<HasMomentum, HasDecay> body = { f, a.values, a.indices, a.gradient, a.velocity, a.dim };

  return each<4> (stream, a.n_elems, body);
}

cudaError_t
choose (cudaStream_t stream, const TpsSgdFactors *factors, const Arrays &a)
{
  Factors f = { (gfloat) factors->learning_rate, (gfloat) factors->momentum,
                (gfloat) factors->weight_decay };
  bool has_momentum = a.velocity != nullptr && f.momentum != 0;

  if (has_momentum)
    return f.weight_decay != 0 ? run<true, true> (stream, f, a) : run<true, false> (stream, f, a);
  return f.weight_decay != 0 ? run<false, true> (stream, f, a) : run<false, false> (stream, f, a);
}

} /* namespace */

cudaError_t
tps_cuda_sgd (cudaStream_t stream, const TpsSgdFactors *factors, gfloat *values,
              const gfloat *gradient, gfloat *velocity, gsize n_elems)
{
  return choose (stream, factors, { values, NULL, gradient, velocity, n_elems, 1 });
}

cudaError_t
tps_cuda_sgd_rows (cudaStream_t stream, const TpsSgdFactors *factors, gfloat *values,
                   const gint64 *indices, const gfloat *gradients, gfloat *velocity, gsize n_rows,
                   gsize dim)
{
  return choose (stream, factors, { values, indices, gradients, velocity, n_rows * dim, dim });
}
