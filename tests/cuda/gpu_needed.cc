/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Linked into a test, skips all of it where there is no GPU: for suites that would find enough to
 * do on the CPU. */

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
