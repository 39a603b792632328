/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/float16/float16.h"

#include <string.h>

static guint32
bits_of (gfloat value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

static gfloat
float_of (guint32 bits)
{
  gfloat value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

guint16
tps_bfloat16_from_float (gfloat value)
{
  guint32 bits = bits_of (value);

  if ((bits & 0x7fffffff) > 0x7f800000) /* a NaN; the quiet bit keeps it a NaN */
    return (guint16) ((bits >> 16) | 0x40);
  /* rounds to the nearest value, and a tie to the even value */
  bits += 0x7fff + ((bits >> 16) & 1);
  return (guint16) (bits >> 16);
}

gfloat
tps_bfloat16_to_float (guint16 bits)
{
  return float_of ((guint32) bits << 16);
}

guint16
tps_float16_from_float (gfloat value)
{
  guint32 bits = bits_of (value);
  guint16 sign = (guint16) ((bits >> 16) & 0x8000);
  guint32 magnitude = bits & 0x7fffffff;
  guint32 half, rest, unit;
  gint shift;

  if (magnitude > 0x7f800000) /* a NaN */
    return sign | 0x7e00 | (guint16) ((magnitude >> 13) & 0x1ff);
  if (magnitude >= 0x477ff000) /* rounds to 65536 or more, so to infinity */
    return sign | 0x7c00;
  if (magnitude >= 0x38800000) /* a normal float16 */
    {
      half = (magnitude - 0x38000000) >> 13;
      rest = magnitude & 0x1fff;
      unit = 0x1000;
    }
  else /* subnormal or 0 */
    {
      shift = 126 - (gint) (magnitude >> 23);
      if (shift > 24)
        return sign;
      magnitude = (magnitude & 0x7fffff) | 0x800000;
      half = magnitude >> shift;
      rest = magnitude & ((1u << shift) - 1);
      unit = 1u << (shift - 1);
    }
  if (rest > unit || (rest == unit && (half & 1)))
    half++;
  return sign | (guint16) half;
}

gfloat
tps_float16_to_float (guint16 bits)
{
  guint32 sign = (guint32) (bits & 0x8000) << 16;
  guint32 exponent = (bits >> 10) & 0x1f;
  guint32 mantissa = bits & 0x3ff;
  gfloat magnitude;

  if (exponent == 0x1f) /* infinity, or a NaN, which becomes quiet */
    return float_of (sign | 0x7f800000 | (mantissa << 13) | (mantissa ? 0x400000 : 0));
  if (exponent != 0)
    return float_of (sign | ((exponent + 112) << 23) | (mantissa << 13));
  magnitude = (gfloat) mantissa * 0x1p-24f; /* subnormal or 0 */
  return sign ? -magnitude : magnitude;
}
