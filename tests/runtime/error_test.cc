/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/error.h"

#include <gtest/gtest.h>

namespace {

TEST (Error, DamageFollowsTheRangeOfTheCode)
{
  const struct
  {
    TpsErrorCode code;
    TpsDamage damage;
  } cases[] = { { TPS_ERROR_INVALID_ARGUMENT, TPS_DAMAGE_REQUEST },
                { TPS_ERROR_INTERNAL, TPS_DAMAGE_REQUEST },
                { TPS_ERROR_CONNECTION_LOST, TPS_DAMAGE_CONNECTION },
                { TPS_ERROR_PROTOCOL, TPS_DAMAGE_CONNECTION },
                { TPS_ERROR_GROUP_BROKEN, TPS_DAMAGE_GROUP },
                { TPS_ERROR_DEVICE_LOST, TPS_DAMAGE_DEVICE } };

  for (const auto &test : cases)
    {
      g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, test.code, "x");
      EXPECT_EQ (tps_error_damage (error), test.damage) << test.code;
    }
  g_autoptr (GError) foreign = g_error_new_literal (g_quark_from_string ("foreign"), 401, "x");
  EXPECT_EQ (tps_error_damage (foreign), TPS_DAMAGE_REQUEST);
}

TEST (Error, WireCodesGoThereAndBack)
{
  for (gint wire = 1; wire <= 12; wire++)
    {
      g_autoptr (GError)
          error = g_error_new_literal (TPS_ERROR, tps_error_from_wire_code (wire), "x");
      EXPECT_EQ (tps_error_to_wire_code (error), wire);
    }
  for (gint wire : { 0, -1, 13, 100, G_MAXINT, G_MININT })
    EXPECT_EQ (tps_error_from_wire_code (wire), TPS_ERROR_INTERNAL) << wire;
}

TEST (Error, DamageBeyondTheRequestIsUnavailableOnTheWire)
{
  for (gint code : { TPS_ERROR_CONNECTION_LOST, TPS_ERROR_PROTOCOL, TPS_ERROR_GROUP_BROKEN,
                     TPS_ERROR_DEVICE_LOST })
    {
      g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, code, "x");
      EXPECT_EQ (tps_error_to_wire_code (error), 8) << code;
    }
  g_autoptr (GError) foreign = g_error_new_literal (g_quark_from_string ("foreign"), 101, "x");
  EXPECT_EQ (tps_error_to_wire_code (foreign), 12);
}

TEST (Error, CodesHaveTheirWireNames)
{
  EXPECT_STREQ (tps_error_code_name (TPS_ERROR_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  EXPECT_STREQ (tps_error_code_name (TPS_ERROR_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
  EXPECT_STREQ (tps_error_code_name (TPS_ERROR_INTERNAL), "INTERNAL");
  EXPECT_STREQ (tps_error_code_name (TPS_ERROR_DEVICE_LOST), "DEVICE_LOST");
  for (gint code : { 0, 100, 113, -5, 999 })
    EXPECT_STREQ (tps_error_code_name (code), "UNKNOWN") << code;
}

TEST (Error, RetryAfterSurvivesACopy)
{
  g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "full");

  EXPECT_EQ (tps_error_get_retry_after_ms (error), -1);
  tps_error_set_retry_after_ms (error, 250);
  g_autoptr (GError) copy = g_error_copy (error);
  EXPECT_EQ (tps_error_get_retry_after_ms (copy), 250);
}

} // namespace
