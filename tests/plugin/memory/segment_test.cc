// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/memory/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "runtime/base/error.h"

namespace {

constexpr gsize kPage = 4096;

class SegmentTest : public testing::TestWithParam<TpsSegmentUse>
{
protected:
  void
  SetUp () override
  {
    segment_ = tps_segment_create (GetParam (), 3 * kPage - 5, &fd_, nullptr);
    ASSERT_NE (segment_, nullptr);
  }

  void
  TearDown () override
  {
    tps_segment_free (segment_);
    if (fd_ >= 0)
      close (fd_);
  }

  TpsSegment *segment_ = nullptr;
  gint fd_ = -1;
};

TEST_P (SegmentTest, HasWholePagesThatAreThereAndZero)
{
  struct stat status;

  ASSERT_EQ (fstat (fd_, &status), 0);
  EXPECT_EQ (segment_->n_bytes, 3 * kPage);
  EXPECT_EQ (status.st_size, static_cast<off_t> (3 * kPage));
  EXPECT_GE (status.st_blocks * 512, static_cast<blkcnt_t> (3 * kPage));
  for (gsize i = 0; i < 3 * kPage; i++)
    ASSERT_EQ (segment_->data[i], 0);
  EXPECT_TRUE (fcntl (fd_, F_GETFD) & FD_CLOEXEC);
}

TEST_P (SegmentTest, CanNeitherShrinkNorGrowNorBeSealedFurther)
{
  EXPECT_EQ (ftruncate (fd_, 0), -1);
  EXPECT_EQ (errno, EPERM);
  EXPECT_EQ (ftruncate (fd_, 4 * kPage), -1);
  EXPECT_EQ (errno, EPERM);
  EXPECT_EQ (fallocate (fd_, 0, 3 * kPage, kPage), -1);
  EXPECT_EQ (fcntl (fd_, F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ (errno, EPERM);
}

TEST_P (SegmentTest, ShowsBothSidesTheSameBytes)
{
  TpsSegment *peer = tps_segment_open (GetParam (), 3 * kPage, fd_, nullptr);
  TpsSegment *writer = GetParam () == TPS_SEGMENT_ANSWERS ? segment_ : peer;
  TpsSegment *reader = GetParam () == TPS_SEGMENT_ANSWERS ? peer : segment_;

  ASSERT_NE (peer, nullptr);
  EXPECT_EQ (peer->use, GetParam ());
  memcpy (writer->data + 3 * kPage - 4, "end", 4);
  EXPECT_STREQ (reinterpret_cast<char *> (reader->data) + 3 * kPage - 4, "end");
  tps_segment_free (peer);
}

TEST_P (SegmentTest, StaysMappedAfterTheDescriptorHasGone)
{
  close (fd_);
  fd_ = -1;
  EXPECT_EQ (segment_->data[kPage], 0);
}

TEST_P (SegmentTest, OpensNoFileOfAnotherSize)
{
  g_autoptr (GError) error = nullptr;

  EXPECT_EQ (tps_segment_open (GetParam (), 2 * kPage, fd_, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INTERNAL));
}

INSTANTIATE_TEST_SUITE_P (Uses, SegmentTest,
                          testing::Values (TPS_SEGMENT_REQUESTS, TPS_SEGMENT_ANSWERS),
                          [] (const auto &use) {
                            return use.param == TPS_SEGMENT_REQUESTS ? "Requests" : "Answers";
                          });

TEST (SegmentOfAnswers, IsReadOnlyForTheReceiverOfTheDescriptor)
{
  gint fd = -1;
  TpsSegment *segment = tps_segment_create (TPS_SEGMENT_ANSWERS, kPage, &fd, nullptr);

  ASSERT_NE (segment, nullptr);
  EXPECT_TRUE (tps_segment_check_read_only (fd, nullptr));
  EXPECT_EQ (mmap (nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ (pwrite (fd, "x", 1, 0), -1);
  EXPECT_EQ (fallocate (fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage), -1);

  void *reading = mmap (nullptr, kPage, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE (reading, MAP_FAILED);
  EXPECT_EQ (mprotect (reading, kPage, PROT_READ | PROT_WRITE), -1);
  segment->data[7] = 42;
  EXPECT_EQ (static_cast<guint8 *> (reading)[7], 42);
  munmap (reading, kPage);
  close (fd);
  tps_segment_free (segment);
}

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

TEST (SegmentOpen, RefusesFilesThatCouldShrink)
{
  gint fd = memfd_create ("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  g_autoptr (GError) error = nullptr;

  ASSERT_EQ (ftruncate (fd, kPage), 0);
  EXPECT_EQ (tps_segment_open (TPS_SEGMENT_REQUESTS, kPage, fd, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INTERNAL));
  close (fd);
}

TEST (SegmentOpen, RefusesDescriptorsThatAreNoFiles)
{
  gint pipe_fds[2];
  g_autoptr (GError) error = nullptr;

  ASSERT_EQ (pipe (pipe_fds), 0);
  EXPECT_EQ (tps_segment_open (TPS_SEGMENT_ANSWERS, 0, pipe_fds[0], &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INTERNAL));
  close (pipe_fds[0]);
  close (pipe_fds[1]);
}

} // namespace
