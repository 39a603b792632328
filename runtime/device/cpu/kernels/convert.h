/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions of one element without branches, so that loops over them can be vectorised. For
 * float16 and bfloat16 they give the bits of the scalar functions in tests/float16.
 *
 * Every conversion rounds once, to nearest, ties to even. A conversion through an intermediate type
 * rounds to odd in the first step: it truncates, and sets the last bit if the truncation was
 * inexact. A second rounding to at least two bits fewer then gives the result of a single rounding
 * [Boldo, Melquiond: Emulation of FMA and correctly rounded sums, 2008]. A conversion from floating
 * point to an integer truncates towards zero and saturates; NaN gives 0.
 */

#pragma once

#include <glib.h>
#include <string.h>

#include "runtime/device/cpu/kernels/vectorize.h"

/* Returns the bits of a float. */
TPS_INLINE guint32
convert_bits_of_f32 (gfloat value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

/* Returns the float with these bits. */
TPS_INLINE gfloat
convert_f32_of_bits (guint32 bits)
{
  gfloat value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

/* Returns the bits of a double. */
TPS_INLINE guint64
convert_bits_of_f64 (gdouble value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

/* Returns the double with these bits. */
TPS_INLINE gdouble
convert_f64_of_bits (guint64 bits)
{
  gdouble value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

/* Returns the float of a bfloat16, which is exact. */
TPS_INLINE gfloat
convert_bf16_to_f32 (guint16 bits)
{
  return convert_f32_of_bits ((guint32) bits << 16);
}

/* Returns the bits of the nearest bfloat16. A NaN stays a NaN and becomes quiet. */
TPS_INLINE guint16
convert_f32_to_bf16 (gfloat value)
{
  guint32 bits = convert_bits_of_f32 (value);
  guint32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  guint32 quiet = (bits >> 16) | 0x40;

  return (guint16) ((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

/* Returns the float of a float16, which is exact. Changes the exponent to the bias of float. One
 * exact subtraction normalises subnormals. */
TPS_INLINE gfloat
convert_f16_to_f32 (guint16 half)
{
  guint32 sign = ((guint32) half & 0x8000) << 16;
  guint32 magnitude = ((guint32) half & 0x7fff) << 13;
  guint32 normal = magnitude + 0x38000000;
  guint32 special = (magnitude + 0x70000000) | (magnitude > 0x0f800000 ? 0x400000 : 0);
  guint32 subnormal = convert_bits_of_f32 (convert_f32_of_bits (magnitude + 0x38800000) - 0x1p-14f);
  guint32 bits = magnitude < 0x00800000 ? subnormal : normal;

  bits = magnitude >= 0x0f800000 ? special : bits;
  return convert_f32_of_bits (bits | sign);
}

/* Returns the bits of the nearest float16. Adding 0.5 makes the floating-point adder round a
 * subnormal result to a multiple of 2^-24. */
TPS_INLINE guint16
convert_f32_to_f16 (gfloat value)
{
  guint32 bits = convert_bits_of_f32 (value);
  guint32 sign = (bits >> 16) & 0x8000;
  guint32 magnitude = bits & 0x7fffffff;
  guint32 normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  guint32 subnormal = convert_bits_of_f32 (convert_f32_of_bits (magnitude) + 0.5f) - 0x3f000000;
  guint32 nan = 0x7e00 | ((magnitude >> 13) & 0x1ff);
  guint32 half = magnitude < 0x38800000 ? subnormal : normal;

  half = magnitude >= 0x47800000 ? 0x7c00 : half;
  half = magnitude > 0x7f800000 ? nan : half;
  return (guint16) (half | sign);
}

/* Rounds to odd. Below float's normal range, the value is truncated to an integer multiple of
 * 2^-149. NaN and infinity are not special cases: infinity has no bits to truncate, and NaN stays
 * NaN. */
TPS_INLINE gfloat
convert_f64_to_f32_odd (gdouble value)
{
  guint64 bits = convert_bits_of_f64 (value);
  guint64 magnitude = bits & G_GUINT64_CONSTANT (0x7fffffffffffffff);
  guint64 odd = (magnitude & ~G_GUINT64_CONSTANT (0x1fffffff))
                | (((magnitude & 0x1fffffff) + 0x1fffffff) & 0x20000000);
  guint32 normal = convert_bits_of_f32 ((gfloat) convert_f64_of_bits (odd));
  gdouble scaled = convert_f64_of_bits (magnitude) * 0x1p149;
  guint32 is_tiny = -(
      guint32) (scaled < 0x1p23); /* all bits or none: a choice by ?: would compile to a branch */
  gint32 whole = (gint32) MIN (scaled, 0x1p24);
  guint32 subnormal = (guint32) whole | (guint32) ((gdouble) whole != scaled);
  guint32 sign = (guint32) (bits >> 32) & 0x80000000;

  return convert_f32_of_bits ((subnormal & is_tiny) | (normal & ~is_tiny) | sign);
}

/* Returns the bits of the nearest float16, rounded once. */
TPS_INLINE guint16
convert_f64_to_f16 (gdouble value)
{
  return convert_f32_to_f16 (convert_f64_to_f32_odd (value));
}

/* Returns the bits of the nearest bfloat16, rounded once. */
TPS_INLINE guint16
convert_f64_to_bf16 (gdouble value)
{
  return convert_f32_to_bf16 (convert_f64_to_f32_odd (value));
}

/* Rounds to odd, to 53 bits. */
TPS_INLINE gdouble
convert_i64_to_f64_odd (gint64 value)
{
  guint64 magnitude = value < 0 ? -(guint64) value : (guint64) value;
  guint64 cut = magnitude & 0x7ff;
  guint64 odd = (magnitude - cut) | (cut != 0 ? 0x800 : 0);
  gdouble result = (gdouble) (magnitude >> 53 != 0 ? odd : magnitude);

  return value < 0 ? -result : result;
}

/* Truncates towards zero and saturates; NaN gives 0. */
TPS_INLINE gint32
convert_f64_to_i32 (gdouble value)
{
  gdouble bounded = value < -0x1p31 ? -0x1p31 : value;

  bounded = bounded > 2147483647.0 ? 2147483647.0 : bounded;
  return (gint32) (bounded == bounded ? bounded : 0);
}

/* Truncates towards zero and saturates; NaN gives 0. */
TPS_INLINE gint64
convert_f64_to_i64 (gdouble value)
{
  if (!(value >= -0x1p63))
    return value == value ? G_MININT64 : 0;
  return value >= 0x1p63 ? G_MAXINT64 : (gint64) value;
}

/* Saturates. */
TPS_INLINE gint32
convert_i64_to_i32 (gint64 value)
{
  return (gint32) CLAMP (value, (gint64) G_MININT32, (gint64) G_MAXINT32);
}
