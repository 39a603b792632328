/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The average of a sum, rounded once. Bound: memory, 8 bytes per element for FLOAT32. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

/* Half floats go through a double, which keeps enough of the quotient for a single rounding; see
 * runtime/device/cpu/kernels/accumulate.c. */
template <typename Type, typename Factor> struct Divide
{
  using Item = typename Type::Bits;
  typename Type::Bits *average;
  const typename Type::Sum *sum;
  Factor divisor;

  TPS_BODY Item
  load (gsize i) const
  {
    return Type::of ((Factor) sum[i] / divisor);
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    average[i] = item;
  }
};

template <typename Type, typename Factor>
cudaError_t
divide (cudaStream_t stream, gpointer average, gconstpointer sum, Factor divisor, gsize n_elems)
{
  Divide<Type, Factor> body = { (typename Type::Bits *) average, (const typename Type::Sum *) sum,
                                divisor };

  return each<4> (stream, n_elems, body);
}

} /* namespace */

cudaError_t
tps_cuda_divide (cudaStream_t stream, TpsDType dtype, gpointer average, gconstpointer sum,
                 gdouble divisor, gsize n_elems)
{
  if (dtype == TPS_DTYPE_FLOAT32 && (gdouble) (gfloat) divisor == divisor)
    return divide<Float32> (stream, average, sum, (gfloat) divisor, n_elems);
  return for_float_type (dtype, [&] (auto type) {
    return divide<decltype (type)> (stream, average, sum, divisor, n_elems);
  });
}
