/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Element types and the conversion of 16-bit floats: all 65,536 values, and every float near a
 * midpoint. */

#include "runtime/tensor/tensor.h"
#include "tests/float16/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace {

uint32_t
bits_of (float value)
{
  uint32_t bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

float
float_of (uint32_t bits)
{
  float value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

// Returns the value of a half float with these bits, computed from the definition.
double
half_value (uint16_t bits)
{
  int exponent = (bits >> 10) & 31;
  int mantissa = bits & 1023;
  double magnitude = exponent == 0    ? std::ldexp (mantissa, -24)
                     : exponent == 31 ? (mantissa != 0 ? NAN : INFINITY)
                                      : std::ldexp (1024 + mantissa, exponent - 25);

  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST (Float16, EveryValueIsExactAsAFloat)
{
  for (uint32_t bits = 0; bits < 65536; bits++)
    {
      double wanted = half_value ((uint16_t) bits);
      float value = tps_float16_to_float ((uint16_t) bits);

      if (std::isnan (wanted))
        EXPECT_TRUE (std::isnan (value)) << bits;
      else
        {
          EXPECT_EQ ((double) value, wanted) << bits;
          EXPECT_EQ (std::signbit (value), bits >= 0x8000) << bits;
        }
    }
}

TEST (Float16, EveryValueSurvivesTheWayThroughAFloat)
{
  for (uint32_t bits = 0; bits < 65536; bits++)
    {
      uint16_t back = tps_float16_from_float (tps_float16_to_float ((uint16_t) bits));
      bool is_nan = (bits & 0x7fff) > 0x7c00;

      EXPECT_EQ (back, is_nan ? (bits | 0x200) : bits) << bits; /* a NaN becomes quiet */
    }
}

TEST (Float16, RoundsToTheNearestTiesToEven)
{
  for (uint32_t bits = 0; bits < 0x7c00; bits++)
    {
      double low = half_value ((uint16_t) bits);
      double high = bits == 0x7bff ? 65536 : half_value ((uint16_t) (bits + 1));
      float middle = (float) ((low + high) / 2);
      uint16_t even = (uint16_t) (bits + (bits & 1));

      EXPECT_EQ ((double) middle, (low + high) / 2);
      EXPECT_EQ (tps_float16_from_float (middle), even) << bits;
      EXPECT_EQ (tps_float16_from_float (std::nextafter (middle, 0.0f)), bits) << bits;
      EXPECT_EQ (tps_float16_from_float (std::nextafter (middle, INFINITY)), bits + 1) << bits;
      EXPECT_EQ (tps_float16_from_float (-middle), even | 0x8000) << bits;
    }
}

TEST (Float16, OverflowsToInfinityAndUnderflowsToZero)
{
  EXPECT_EQ (tps_float16_from_float (INFINITY), 0x7c00);
  EXPECT_EQ (tps_float16_from_float (-INFINITY), 0xfc00);
  EXPECT_EQ (tps_float16_from_float (3e38f), 0x7c00);
  EXPECT_EQ (tps_float16_from_float (65504), 0x7bff);
  EXPECT_EQ (tps_float16_from_float (1e-45f), 0);
  EXPECT_EQ (tps_float16_from_float (-1e-30f), 0x8000);
  EXPECT_EQ (tps_float16_from_float (-0.0f), 0x8000);
}

TEST (BFloat16, IsTheUpperHalfOfAFloat)
{
  for (uint32_t bits = 0; bits < 65536; bits++)
    {
      bool is_nan = (bits & 0x7fff) > 0x7f80;

      EXPECT_EQ (bits_of (tps_bfloat16_to_float ((uint16_t) bits)), bits << 16);
      EXPECT_EQ (tps_bfloat16_from_float (float_of (bits << 16)), is_nan ? (bits | 0x40) : bits);
    }
}

TEST (BFloat16, RoundsToTheNearestTiesToEven)
{
  for (uint32_t bits = 0; bits < 0x7f80; bits++)
    for (uint32_t sign : { 0u, 0x8000u })
      {
        uint32_t wide = (bits | sign) << 16;
        uint16_t even = (uint16_t) ((bits | sign) + (bits & 1));

        EXPECT_EQ (tps_bfloat16_from_float (float_of (wide | 0x8000)), even);
        EXPECT_EQ (tps_bfloat16_from_float (float_of (wide | 0x7fff)), bits | sign);
        EXPECT_EQ (tps_bfloat16_from_float (float_of (wide | 0x8001)), (bits | sign) + 1);
      }
}

TEST (BFloat16, ANotANumberNeverBecomesInfinity)
{
  EXPECT_EQ (tps_bfloat16_from_float (float_of (0x7f800001)), 0x7fc0);
  EXPECT_EQ (tps_bfloat16_from_float (float_of (0xffffffff)), 0xffff);
}

} // namespace
