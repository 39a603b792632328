/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The average of a sum, rounded once. The kernel is memory-bound: 8 bytes per element for FLOAT32,
 * 6 for half floats. A thread reads 16 bytes at once and writes 16 or 8 if the arrays permit it. A
 * store of a single half float would have an eighth of the bytes of a full access. */

#include <math.h>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/types.cuh"

namespace {

using namespace tps;

/* Returns the quotient, rounded to the type. A quotient in double has enough digits for this second
 * rounding to equal a single rounding; see runtime/device/cpu/kernels/accumulate.c. */
template <typename Type, typename Factor>
TPS_BODY typename Type::Bits
quotient (typename Type::Sum sum, Factor divisor)
{
  return Type::of ((Factor) sum / divisor);
}

/* GPUs divide doubles many times slower than floats. A half float is therefore rounded from a float
 * that is rounded to odd (runtime/device/cpu/kernels/convert.h). Of the two floats around the exact
 * quotient, this is the float with an odd last bit. The sign of the remainder shows on which side
 * of the rounded quotient the exact quotient lies. The remainder is exact except for tiny numbers,
 * which are divided as doubles. */
template <typename Type>
TPS_BODY typename Type::Bits
half_quotient (gfloat sum, gfloat divisor)
{
  gfloat q = sum / divisor;
  guint32 bits = convert_bits_of_f32 (q);
  guint32 exponent = bits & 0x7f800000;

  if (sum == 0 || exponent == 0x7f800000)
    return Type::of (q);
  if (exponent == 0 || fabsf (sum) < 0x1p-100f)
    return Type::of ((gdouble) sum / (gdouble) divisor);
  gfloat rest = fmaf (-q, divisor, sum);

  /* The exact quotient is q + rest / divisor. */
  if (rest != 0 && (bits & 1) == 0)
    bits += ((convert_bits_of_f32 (rest) ^ convert_bits_of_f32 (divisor) ^ bits) >> 31) == 0
                ? 1
                : (guint32) -1;
  return Type::of (convert_f32_of_bits (bits));
}

template <>
TPS_BODY guint16
quotient<Float16, gfloat> (gfloat sum, gfloat divisor)
{
  return half_quotient<Float16> (sum, divisor);
}

template <>
TPS_BODY guint16
quotient<BFloat16, gfloat> (gfloat sum, gfloat divisor)
{
  return half_quotient<BFloat16> (sum, divisor);
}

/* Computes V neighbouring averages. */
template <typename Type, typename Factor, int V> struct Divide
{
  using Item = Pack<typename Type::Sum, V>;
  using Averages = Pack<typename Type::Bits, V>;
  Averages *average;
  const Item *sum;
  Factor divisor;

  TPS_BODY Item
  load (gsize i) const
  {
    return sum[i];
  }
  TPS_BODY void
  store (gsize i, const Item &item) const
  {
    Averages averages;

    for (int v = 0; v < V; v++)
      averages.at[v] = quotient<Type, Factor> (item.at[v], divisor);
    average[i] = averages;
  }
};

template <typename Type, int V, typename Factor>
cudaError_t
divide_packs (cudaStream_t stream, gpointer average, gconstpointer sum, Factor divisor,
              gsize n_elems)
{
  using Body = Divide<Type, Factor, V>;
  Body body = { (typename Body::Averages *) average, (const typename Body::Item *) sum, divisor };

  return each < V == 1 ? 4 : 2 > (stream, n_elems / V, body);
}

template <typename Type, typename Factor>
cudaError_t
divide (cudaStream_t stream, gpointer average, gconstpointer sum, Factor divisor, gsize n_elems)
{
  if constexpr (sizeof (typename Type::Sum) == sizeof (gfloat))
    if (tps_cuda_geometry_columns (n_elems, average, sum, sum) == 4)
      return divide_packs<Type, 4> (stream, average, sum, divisor, n_elems);
  return divide_packs<Type, 1> (stream, average, sum, divisor, n_elems);
}

} /* namespace */

cudaError_t
tps_cuda_divide (cudaStream_t stream, TpsDType dtype, gpointer average, gconstpointer sum,
                 gdouble divisor, gsize n_elems)
{
  return for_float_type_and_factor (dtype, divisor, [&] (auto type, auto factor) {
    return divide<decltype (type)> (stream, average, sum, factor, n_elems);
  });
}
