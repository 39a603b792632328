/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The memory of lanes on a device: the charges of host memory, and exhausted device memory. */

#include "runtime/server/tables/device/device_lane.h"

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace {

constexpr gsize kMiB = 1 << 20;

class DeviceLane : public testing::Test
{
protected:
  ~DeviceLane () override
  {
    tps_fake_device_fail_alloc (device_, 0);
    tps_device_lanes_free (lanes_);
    EXPECT_EQ (tps_budget_get_held (scratch_), 0u);
    EXPECT_EQ (tps_fake_device_get_n_bytes (device_), before_);
    tps_budget_unref (scratch_);
  }

  TpsDevice *device_ = tps_fake_device_get (0);
  gsize before_ = tps_fake_device_get_n_bytes (device_);
  TpsBudget *scratch_ = tps_budget_new (nullptr, "scratch", 10 * kMiB);
  TpsDeviceLanes *lanes_ = tps_device_lanes_new (device_, nullptr, scratch_, nullptr);
};

TEST_F (DeviceLane, StagedMemoryIsChargedBeforeItIsTaken)
{
  g_autoptr (TpsDeviceLane) lane = tps_device_lane_new (lanes_, nullptr);
  g_autoptr (GError) error = nullptr;

  ASSERT_TRUE (tps_device_lane_provide (lane, 4 * kMiB, 0, 0, nullptr));
  EXPECT_EQ (tps_budget_get_held (scratch_), 5 * kMiB);
  ASSERT_TRUE (tps_device_lane_provide (lane, 9 * kMiB, 0, 0, nullptr));
  EXPECT_EQ (tps_budget_get_held (scratch_), 9 * kMiB) << "there is no room for a spare";
  EXPECT_FALSE (tps_device_lane_provide (lane, 11 * kMiB, 0, 0, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_EQ (tps_budget_get_held (scratch_), 0u);
  EXPECT_EQ (tps_fake_device_get_n_bytes (device_), before_);
  tps_fake_device_fail_alloc (device_, 1);
  EXPECT_FALSE (tps_device_lane_provide (lane, kMiB, 0, 0, nullptr));
  EXPECT_EQ (tps_budget_get_held (scratch_), 0u);
}

TEST_F (DeviceLane, StagedMemoryOfIdleLanesGivesWayToCharges)
{
  TpsDeviceLane *lanes[2];

  for (TpsDeviceLane *&lane : lanes)
    {
      lane = tps_device_lane_new (lanes_, nullptr);
      ASSERT_TRUE (tps_device_lane_provide (lane, 2 * kMiB, 0, 0, nullptr));
    }
  EXPECT_EQ (tps_budget_get_held (scratch_), 5 * kMiB);
  EXPECT_FALSE (tps_budget_charge (scratch_, 8 * kMiB, nullptr)) << "both are in use";
  tps_device_lane_free (lanes[0]);
  EXPECT_FALSE (tps_budget_charge (scratch_, 8 * kMiB, nullptr)) << "one is in use";
  EXPECT_TRUE (tps_budget_charge (scratch_, 7 * kMiB, nullptr));
  EXPECT_EQ (tps_budget_get_held (scratch_), 7 * kMiB + 5 * kMiB / 2);
  tps_budget_release (scratch_, 7 * kMiB);
  tps_device_lane_free (lanes[1]);
}

TEST_F (DeviceLane, MemoryOfIdleLanesGivesWayIfTheDeviceHasNoMore)
{
  TpsDeviceLane *idle = tps_device_lane_new (lanes_, nullptr);
  g_autoptr (TpsDeviceLane) lane = tps_device_lane_new (lanes_, nullptr);

  ASSERT_TRUE (tps_device_lane_provide (idle, 0, 4 * kMiB, 0, nullptr));
  tps_fake_device_fail_alloc (device_, 1);
  EXPECT_FALSE (tps_device_lane_provide (lane, 0, 2 * kMiB, 0, nullptr)) << "it is in use";
  tps_device_lane_free (idle);
  tps_fake_device_fail_alloc (device_, 1);
  EXPECT_TRUE (tps_device_lane_provide (lane, 0, 2 * kMiB, 0, nullptr));
  EXPECT_EQ (tps_fake_device_get_n_bytes (device_), before_ + 5 * kMiB / 2);
}

} // namespace
