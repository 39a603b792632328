/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of gradients. Bound: memory. FLOAT32 moves 12 bytes per element (two reads, one write),
 * scale 8. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

template <typename Type> struct Add
{
  using Item = typename Type::Sum;
  typename Type::Sum *sum;
  const typename Type::Bits *gradient;

  TPS_BODY Item
  load (gsize i) const
  {
    return sum[i] + Type::value (gradient[i]);
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    sum[i] = item;
  }
};

/* The product is rounded to the sum's type. Factor double: through a double. */
template <typename Type, typename Factor> struct Scale
{
  using Item = typename Type::Sum;
  typename Type::Sum *sum;
  const typename Type::Bits *gradient;
  Factor factor;

  TPS_BODY Item
  load (gsize i) const
  {
    return (Item) (factor * (Factor) Type::value (gradient[i]));
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    sum[i] = item;
  }
};

template <typename Type, typename Factor> struct ScaleAdd : Scale<Type, Factor>
{
  using Item = typename Type::Sum;

  TPS_BODY Item
  load (gsize i) const
  {
    return this->sum[i] + Scale<Type, Factor>::load (i);
  }
};

template <typename Type> using Sum = typename Type::Sum;
template <typename Type> using Bits = typename Type::Bits;

} /* namespace */

cudaError_t
tps_cuda_accumulate (cudaStream_t stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                     gsize n_elems)
{
  return for_float_type (dtype, [&] (auto type) {
    using Type = decltype (type);
    Add<Type> body = { (Sum<Type> *) sum, (const Bits<Type> *) gradient };

    return each<4> (stream, n_elems, body);
  });
}

cudaError_t
tps_cuda_scale (cudaStream_t stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                gdouble weight, gsize n_elems)
{
  return for_float_type_and_factor (dtype, weight, [&] (auto type, auto factor) {
    using Type = decltype (type);
    Scale<Type, decltype (factor)> body = { (Sum<Type> *) sum, (const Bits<Type> *) gradient,
                                            factor };

    return each<4> (stream, n_elems, body);
  });
}

cudaError_t
tps_cuda_scale_accumulate (cudaStream_t stream, TpsDType dtype, gpointer sum,
                           gconstpointer gradient, gdouble weight, gsize n_elems)
{
  return for_float_type_and_factor (dtype, weight, [&] (auto type, auto factor) {
    using Type = decltype (type);
    ScaleAdd<Type, decltype (factor)> body = { { (Sum<Type> *) sum, (const Bits<Type> *) gradient,
                                                 factor } };

    return each<4> (stream, n_elems, body);
  });
}
