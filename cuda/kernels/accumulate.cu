/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of gradients. The kernels are memory-bound: for FLOAT32 they move 12 bytes per element (two
 * reads, one write), and `scale` moves 8. A thread handles V neighbouring elements at once if the
 * arrays permit it. */

#include <type_traits>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

template <typename Type, int V> struct Add
{
  using Sums = Pack<typename Type::Sum, V>;
  using Gradient = Pack<typename Type::Bits, V>;
  struct Item
  {
    Sums sum;
    Gradient gradient;
  };
  Sums *sum;
  const Gradient *gradient;

  TPS_BODY Item
  load (gsize i) const
  {
    return { sum[i], gradient[i] };
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    for (int v = 0; v < V; v++)
      item.sum.at[v] = item.sum.at[v] + Type::value (item.gradient.at[v]);
    sum[i] = item.sum;
  }
};

/* Multiplies and rounds to the type of the sum. If Factor is gdouble, the product is computed in
 * double. */
template <typename Type, typename Factor, int V> struct Scale
{
  using Sum = typename Type::Sum;
  using Sums = Pack<Sum, V>;
  using Gradient = Pack<typename Type::Bits, V>;
  using Item = Gradient;
  Sums *sum;
  const Gradient *gradient;
  Factor factor;

  TPS_BODY Item
  load (gsize i) const
  {
    return gradient[i];
  }
  TPS_BODY void
  store (gsize i, const Item &item) const
  {
    Sums scaled;

    for (int v = 0; v < V; v++)
      scaled.at[v] = product (item.at[v]);
    sum[i] = scaled;
  }
  TPS_BODY Sum
  product (typename Type::Bits bits) const
  {
    return (Sum) (factor * (Factor) Type::value (bits));
  }
};

template <typename Type, typename Factor, int V> struct ScaleAdd
{
  using Sums = Pack<typename Type::Sum, V>;
  using Gradient = Pack<typename Type::Bits, V>;
  using Item = typename Add<Type, V>::Item;
  Scale<Type, Factor, V> scale;

  TPS_BODY Item
  load (gsize i) const
  {
    return { scale.sum[i], scale.gradient[i] };
  }
  TPS_BODY void
  store (gsize i, Item item) const
  {
    for (int v = 0; v < V; v++)
      item.sum.at[v] = item.sum.at[v] + scale.product (item.gradient.at[v]);
    scale.sum[i] = item.sum;
  }
};

template <int V> using Width = std::integral_constant<int, V>;

/* Enqueues the body that body_of (type, width) returns, for all elements. */
template <typename Type, typename BodyOf>
cudaError_t
each_pack (cudaStream_t stream, Type type, gconstpointer sum, gconstpointer gradient, gsize n_elems,
           BodyOf body_of)
{
  if constexpr (sizeof (typename Type::Sum) == sizeof (gfloat))
    if (tps_cuda_geometry_columns (n_elems, sum, gradient, nullptr) == 4)
      return each<2> (stream, n_elems / 4, body_of (type, Width<4> ()));
  return each<4> (stream, n_elems, body_of (type, Width<1> ()));
}

} /* namespace */

cudaError_t
tps_cuda_accumulate (cudaStream_t stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                     gsize n_elems)
{
  return for_float_type (dtype, [&] (auto type) {
    return each_pack (stream, type, sum, gradient, n_elems, [&] (auto of, auto width) {
      using Body = Add<decltype (of), decltype (width)::value>;

      return Body { (typename Body::Sums *) sum, (const typename Body::Gradient *) gradient };
    });
  });
}

cudaError_t
tps_cuda_scale (cudaStream_t stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                gdouble weight, gsize n_elems)
{
  return for_float_type_and_factor (dtype, weight, [&] (auto type, auto factor) {
    return each_pack (stream, type, sum, gradient, n_elems, [&] (auto of, auto width) {
      using Body = Scale<decltype (of), decltype (factor), decltype (width)::value>;

      return Body { (typename Body::Sums *) sum, (const typename Body::Gradient *) gradient,
                    factor };
    });
  });
}

cudaError_t
tps_cuda_scale_accumulate (cudaStream_t stream, TpsDType dtype, gpointer sum,
                           gconstpointer gradient, gdouble weight, gsize n_elems)
{
  return for_float_type_and_factor (dtype, weight, [&] (auto type, auto factor) {
    return each_pack (stream, type, sum, gradient, n_elems, [&] (auto of, auto width) {
      using Body = ScaleAdd<decltype (of), decltype (factor), decltype (width)::value>;

      return Body { { (typename Body::Sums *) sum, (const typename Body::Gradient *) gradient,
                      factor } };
    });
  });
}
