/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares the table of NCCL's functions with the real library, if the machine has it. The
 * signatures must match. */

#include "cuda/group/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

using testing::HasSubstr;

namespace {

TEST (NcclLibrary, TheRealOneHasEveryFunction)
{
  TpsNccl nccl;
  GError *error = nullptr;

  if (!tps_nccl_load (&nccl, "libnccl.so.2", &error))
    {
      std::string why = error->message;

      g_clear_error (&error);
      ASSERT_THAT (why, testing::Not (HasSubstr ("libnccl.so.2 has no"))) << why;
      GTEST_SKIP () << why;
    }
  EXPECT_GE (nccl.version, NCCL_VERSION (2, 14, 0));
  EXPECT_STREQ (nccl.get_error_string (ncclSuccess), "no error");
}

TEST (NcclLibrary, AMissingLibraryIsNamed)
{
  TpsNccl nccl;
  GError *error = nullptr;

  EXPECT_FALSE (tps_nccl_load (&nccl, "libnccl_of_nowhere.so.2", &error));
  ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE));
  EXPECT_THAT (error->message, HasSubstr ("libnccl_of_nowhere.so.2"));
  g_clear_error (&error);
}

TEST (NcclLibrary, ALibraryWithoutTheFunctionsIsNone)
{
  TpsNccl nccl;
  GError *error = nullptr;

  EXPECT_FALSE (tps_nccl_load (&nccl, "libm.so.6", &error));
  ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE));
  EXPECT_STREQ (error->message, "libm.so.6 has no ncclGetVersion");
  g_clear_error (&error);
}

} /* namespace */
