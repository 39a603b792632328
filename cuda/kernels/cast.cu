/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions and fills. Bound: memory, the bytes of both elements; for fills, of one. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

template <typename To, typename From> struct Cast
{
  using Item = typename To::Bits;
  typename To::Bits *to;
  const typename From::Bits *from;

  TPS_BODY Item
  load (gsize i) const
  {
    return To::of (From::value (from[i]));
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    to[i] = item;
  }
};

template <typename T> struct Fill
{
  using Item = T;
  T *values;
  T value;

  TPS_BODY Item
  load (gsize i) const
  {
    return value;
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    values[i] = item;
  }
};

template <typename To>
cudaError_t
cast_to (cudaStream_t stream, gpointer to, TpsDType from_dtype, gconstpointer from, gsize n_elems)
{
  return for_type (from_dtype, [&] (auto type) {
    using From = decltype (type);
    Cast<To, From> body = { (typename To::Bits *) to, (const typename From::Bits *) from };

    return each<4> (stream, n_elems, body);
  });
}

} /* namespace */

cudaError_t
tps_cuda_cast (cudaStream_t stream, TpsDType to_dtype, gpointer to, TpsDType from_dtype,
               gconstpointer from, gsize n_elems)
{
  if (n_elems == 0 || to == from)
    return cudaSuccess;
  return for_type (to_dtype, [&] (auto type) {
    return cast_to<decltype (type)> (stream, to, from_dtype, from, n_elems);
  });
}

cudaError_t
tps_cuda_fill (cudaStream_t stream, TpsDType dtype, gpointer values, gdouble value, gsize n_elems)
{
  return for_type (dtype, [&] (auto type) {
    using Bits = typename decltype (type)::Bits;
    Fill<Bits> body = { (Bits *) values, decltype (type)::of (value) };

    return each<4> (stream, n_elems, body);
  });
}
