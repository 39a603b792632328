/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions and fills. The kernels are memory-bound: conversions move the bytes of both elements,
 * fills the bytes of one. A thread converts V neighbouring elements of at most 4 bytes at once if
 * the arrays permit it. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

template <typename To, typename From, int V> struct Cast
{
  using Item = Pack<typename From::Bits, V>;
  using Output = Pack<typename To::Bits, V>;
  Output *to;
  const Item *from;

  TPS_BODY Item
  load (gsize i) const
  {
    return from[i];
  }
  TPS_BODY void
  store (gsize i, const Item &item) const
  {
    Output output;

    for (int v = 0; v < V; v++)
      output.at[v] = To::of (From::value (item.at[v]));
    to[i] = output;
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

template <int V, typename To, typename From>
cudaError_t
cast_packs (cudaStream_t stream, gpointer to, gconstpointer from, gsize n_elems)
{
  using Body = Cast<To, From, V>;
  Body body = { (typename Body::Output *) to, (const typename Body::Item *) from };

  return each < V == 1 ? 4 : 2 > (stream, n_elems / V, body);
}

template <typename To>
cudaError_t
cast_to (cudaStream_t stream, gpointer to, TpsDType from_dtype, gconstpointer from, gsize n_elems)
{
  return for_type (from_dtype, [&] (auto type) {
    using From = decltype (type);

    if constexpr (sizeof (typename To::Bits) <= 4 && sizeof (typename From::Bits) <= 4)
      if (tps_cuda_geometry_columns (n_elems, to, from, nullptr) == 4)
        return cast_packs<4, To, From> (stream, to, from, n_elems);
    return cast_packs<1, To, From> (stream, to, from, n_elems);
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
