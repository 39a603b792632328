/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stochastic rounding of one value, without branches. TpsRowRounding in runtime/device/backend.h
 * defines the results. Kernels for GPUs include this file too, so that they give the same bits. */

#pragma once

#include "runtime/device/cpu/kernels/convert.h"

#define STOCHASTIC_INCREMENT G_GUINT64_CONSTANT (0x9e3779b97f4a7c15)

/* The finalizer of SplitMix64. */
TPS_INLINE guint64
stochastic_mix (guint64 x)
{
  x = (x ^ (x >> 30)) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* Returns the key of a step, which all its rows share. */
TPS_INLINE guint64
stochastic_step_key (gint64 seed, gint64 step)
{
  guint64 key = stochastic_mix ((guint64) seed + STOCHASTIC_INCREMENT);

  return stochastic_mix ((key ^ (guint64) step) + STOCHASTIC_INCREMENT);
}

/* Returns the key of row number `number`. */
TPS_INLINE guint64
stochastic_row_key (guint64 step_key, gint64 number)
{
  return stochastic_mix ((step_key ^ (guint64) number) + STOCHASTIC_INCREMENT);
}

/* Returns the random bits of a column. */
TPS_INLINE guint32
stochastic_bits (guint64 row_key, gsize column)
{
  guint64 state = row_key + ((guint64) column + 1) * STOCHASTIC_INCREMENT;

  return (guint32) (stochastic_mix (state) >> 32);
}

/* Neighbours of bfloat16 are 2^16 bit patterns of float apart, even where the exponent changes and
 * for subnormals. */
TPS_INLINE guint16
stochastic_f32_to_bf16 (gfloat value, guint32 random)
{
  guint32 bits = convert_bits_of_f32 (value);
  guint16 cut = (guint16) ((bits + (random >> 16)) >> 16);

  return (bits & 0x7fffffff) > 0x7f7f0000 ? convert_f32_to_bf16 (value) : cut;
}

/* In the normal range of float16, its neighbours are 2^13 bit patterns of float apart. Below that
 * range, they are 2^-24 apart: the value is cut to a multiple of 2^-56, and the random bits are
 * added below 2^-24. */
TPS_INLINE guint16
stochastic_f32_to_f16 (gfloat value, guint32 random)
{
  guint32 bits = convert_bits_of_f32 (value);
  guint32 sign = (bits >> 16) & 0x8000;
  guint32 magnitude = bits & 0x7fffffff;
  guint32 normal = (magnitude - 0x38000000 + (random >> 19)) >> 13;
  guint32 exponent = magnitude >> 23;
  guint32 significand = (magnitude & 0x7fffff) | (exponent > 0 ? 0x800000 : 0);
  guint32 shift = MIN (112 - exponent, 63); /* not used in the normal range, where it is 63 */
  guint64 multiple = ((guint64) significand << 18) >> shift;
  guint32 subnormal = (guint32) ((multiple + random) >> 32);
  guint32 cut = (magnitude < 0x38800000 ? subnormal : normal) | sign;

  return magnitude > 0x477fe000 ? convert_f32_to_f16 (value) : (guint16) cut;
}
