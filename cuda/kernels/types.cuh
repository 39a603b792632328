/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Element types and their conversions. They use the source of the CPU
 * (runtime/device/cpu/kernels/convert.h and stochastic_bits.h), which is compiled for the GPU too,
 * so that the bits are the same. */

#pragma once

#include "cuda/kernels/launch.cuh"
#include "runtime/device/backend.h"
#include "runtime/device/cpu/kernels/vectorize.h"

#undef TPS_INLINE
#define TPS_INLINE static TPS_BODY
#include "runtime/device/cpu/kernels/stochastic_bits.h"

namespace tps {

/* Bits is the representation of an element in memory. Value is an arithmetic type that represents
 * every element exactly. Sum is the type of sums of gradients. of() rounds once, to nearest; with
 * random bits it rounds stochastically. */

struct Float32
{
  using Bits = gfloat;
  using Value = gfloat;
  using Sum = gfloat;
  static TPS_BODY Value
  value (Bits bits)
  {
    return bits;
  }
  static TPS_BODY Bits
  of (gfloat x)
  {
    return x;
  }
  static TPS_BODY Bits
  of (gdouble x)
  {
    return (gfloat) x;
  }
  static TPS_BODY Bits
  of (gint32 x)
  {
    return (gfloat) x;
  }
  static TPS_BODY Bits
  of (gint64 x)
  {
    return (gfloat) x;
  }
};

struct Float64
{
  using Bits = gdouble;
  using Value = gdouble;
  using Sum = gdouble;
  static TPS_BODY Value
  value (Bits bits)
  {
    return bits;
  }
  template <typename T>
  static TPS_BODY Bits
  of (T x)
  {
    return (gdouble) x;
  }
};

struct Float16
{
  using Bits = guint16;
  using Value = gfloat;
  using Sum = gfloat;
  static TPS_BODY Value
  value (Bits bits)
  {
    return convert_f16_to_f32 (bits);
  }
  static TPS_BODY Bits
  of (gfloat x)
  {
    return convert_f32_to_f16 (x);
  }
  static TPS_BODY Bits
  of (gfloat x, guint32 random)
  {
    return stochastic_f32_to_f16 (x, random);
  }
  static TPS_BODY Bits
  of (gdouble x)
  {
    return convert_f64_to_f16 (x);
  }
  static TPS_BODY Bits
  of (gint32 x)
  {
    return convert_f64_to_f16 ((gdouble) x);
  }
  static TPS_BODY Bits
  of (gint64 x)
  {
    return convert_f64_to_f16 (convert_i64_to_f64_odd (x));
  }
};

struct BFloat16
{
  using Bits = guint16;
  using Value = gfloat;
  using Sum = gfloat;
  static TPS_BODY Value
  value (Bits bits)
  {
    return convert_bf16_to_f32 (bits);
  }
  static TPS_BODY Bits
  of (gfloat x)
  {
    return convert_f32_to_bf16 (x);
  }
  static TPS_BODY Bits
  of (gfloat x, guint32 random)
  {
    return stochastic_f32_to_bf16 (x, random);
  }
  static TPS_BODY Bits
  of (gdouble x)
  {
    return convert_f64_to_bf16 (x);
  }
  static TPS_BODY Bits
  of (gint32 x)
  {
    return convert_f64_to_bf16 ((gdouble) x);
  }
  static TPS_BODY Bits
  of (gint64 x)
  {
    return convert_f64_to_bf16 (convert_i64_to_f64_odd (x));
  }
};

struct Int32
{
  using Bits = gint32;
  using Value = gint32;
  static TPS_BODY Value
  value (Bits bits)
  {
    return bits;
  }
  static TPS_BODY Bits
  of (gfloat x)
  {
    return convert_f64_to_i32 ((gdouble) x);
  }
  static TPS_BODY Bits
  of (gdouble x)
  {
    return convert_f64_to_i32 (x);
  }
  static TPS_BODY Bits
  of (gint32 x)
  {
    return x;
  }
  static TPS_BODY Bits
  of (gint64 x)
  {
    return convert_i64_to_i32 (x);
  }
};

struct Int64
{
  using Bits = gint64;
  using Value = gint64;
  static TPS_BODY Value
  value (Bits bits)
  {
    return bits;
  }
  static TPS_BODY Bits
  of (gfloat x)
  {
    return convert_f64_to_i64 ((gdouble) x);
  }
  static TPS_BODY Bits
  of (gdouble x)
  {
    return convert_f64_to_i64 (x);
  }
  static TPS_BODY Bits
  of (gint32 x)
  {
    return x;
  }
  static TPS_BODY Bits
  of (gint64 x)
  {
    return x;
  }
};

/* Calls f (Type {}) for the type of `dtype`. Any other dtype is a bug in the caller. */

template <typename F>
cudaError_t
for_float_type (TpsDType dtype, F f)
{
  switch (dtype)
    {
    case TPS_DTYPE_FLOAT32:
      return f (Float32 ());
    case TPS_DTYPE_FLOAT64:
      return f (Float64 ());
    case TPS_DTYPE_FLOAT16:
      return f (Float16 ());
    case TPS_DTYPE_BFLOAT16:
      return f (BFloat16 ());
    default:
      return cudaErrorInvalidValue;
    }
}

template <typename F>
cudaError_t
for_type (TpsDType dtype, F f)
{
  switch (dtype)
    {
    case TPS_DTYPE_INT32:
      return f (Int32 ());
    case TPS_DTYPE_INT64:
      return f (Int64 ());
    default:
      return for_float_type (dtype, f);
    }
}

/* Calls f (type, factor). A factor that a float can represent is passed as a float, which gives the
 * same bits (see runtime/device/cpu/kernels/accumulate.c). FLOAT64 always uses a double. */
template <typename F>
cudaError_t
for_float_type_and_factor (TpsDType dtype, gdouble factor, F f)
{
  bool is_exact = (gdouble) (gfloat) factor == factor;

  return for_float_type (dtype, [&] (auto type) {
    return is_exact ? f (type, (typename decltype (type)::Sum) factor) : f (type, factor);
  });
}

} /* namespace tps */
