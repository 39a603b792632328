// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/memory/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

#include "runtime/base/error.h"

namespace {

constexpr gsize kPage = 4096;

/* Such a kernel has all other seals. */
TEST (SegmentOfAnswers, IsNotReadOnlyOnAKernelWithoutTheSeal)
{
  GError *error = nullptr;
  gint fd = memfd_create ("segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);

  ASSERT_GE (fd, 0);
  ASSERT_EQ (fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_FALSE (tps_segment_check_read_only (fd, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE));
  g_clear_error (&error);
  close (fd);
}

TEST (SegmentCreate, RefusesSizesBeyondAnyMemory)
{
  for (gsize n_bytes : { static_cast<gsize> (G_MAXSIZE), static_cast<gsize> (G_MAXINT64),
                         static_cast<gsize> (1) << 62 })
    {
      g_autoptr (GError) error = nullptr;
      gint fd = -1;

      errno = 0;
      EXPECT_EQ (tps_segment_create (TPS_SEGMENT_REQUESTS, n_bytes, &fd, &error), nullptr);
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
      EXPECT_EQ (fd, -1);
      EXPECT_EQ (strstr (error->message, "Success"), nullptr) << error->message;
    }
}

// A client that does not read its replies makes the server hold the descriptors of its segments.
TEST (SegmentCreate, LeavesDescriptorsToFiles)
{
  struct rlimit limit, before;
  std::vector<TpsSegment *> segments;
  g_autoptr (GError) error = nullptr;
  gint fd = -1;

  ASSERT_EQ (getrlimit (RLIMIT_NOFILE, &before), 0);
  limit = before;
  limit.rlim_cur = 80;
  ASSERT_EQ (setrlimit (RLIMIT_NOFILE, &limit), 0);
  while (segments.size () < 100 && error == nullptr)
    segments.push_back (tps_segment_create (TPS_SEGMENT_REQUESTS, kPage, &fd, &error));
  ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  fd = dup (0);
  EXPECT_EQ (fd, 50) << "the refused segment holds no descriptor";
  for (gint open = fd; segments.size () > 0; segments.pop_back ())
    if (segments.back () != nullptr)
      {
        tps_segment_free (segments.back ());
        close (--open);
      }
  close (fd);
  ASSERT_EQ (setrlimit (RLIMIT_NOFILE, &before), 0);
}

} // namespace
