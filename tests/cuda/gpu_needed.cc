/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Skips a whole test program on a machine without a GPU. Used by suites that would otherwise run on
 * the CPU. */

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

/* GoogleTest's list of listeners owns the object. */
const bool is_added = [] {
  testing::UnitTest::GetInstance ()->listeners ().Append (new GpuNeeded);
  return true;
}();

} /* namespace */
