/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Skips a whole test program on a machine without a GPU. For suites that would otherwise run on the
 * CPU. */

#include <gtest/gtest.h>

#include "runtime/device/backend.h"

namespace {

class GpuNeeded : public testing::EmptyTestEventListener
{
  void
  OnTestStart (const testing::TestInfo &) override
  {
    g_autoptr (GError) error = nullptr;

    if (tps_device_find ("cuda:0", &error) == nullptr)
      GTEST_SKIP () << error->message;
  }
};

/* The list owns it. */
const bool is_added = [] {
  testing::UnitTest::GetInstance ()->listeners ().Append (new GpuNeeded);
  return true;
}();

} /* namespace */
