/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Loads the real libtps_cuda.so as programs do. The fake driver can only be initialised. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/backend.h"
#include "runtime/device/device_library.h"

namespace {

TEST (Library, ItHasThisVersionAndReportsAMissingGpu)
{
  EXPECT_THAT (tps_device_list_summary (),
               testing::StartsWith ("cuda: none: a driver, but no GPU: "));
  EXPECT_EQ (tps_device_library_get ()->devices->len, 0u);
}

TEST (Library, ErrorsStillCarryTheirData)
{
  GError *error = nullptr;

  EXPECT_EQ (tps_device_find ("cuda:0", &error), nullptr);
  ASSERT_NE (error, nullptr);
  EXPECT_THAT (error->message, testing::HasSubstr ("a driver, but no GPU"));
  g_clear_error (&error);
}

} // namespace
