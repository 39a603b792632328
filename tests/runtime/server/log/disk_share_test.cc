/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The turns of background writes, in simulated time. */

#include <gtest/gtest.h>

#include "runtime/server/log/disk_share.h"

namespace thriftps {
namespace {

constexpr gint64 kMs = 1000 * 1000;
constexpr gint64 kStart = 1000 * kMs;

class DiskShare : public testing::Test
{
protected:
  void
  SetUp () override
  {
    tps_disk_share_init (&share_);
  }

  void
  TearDown () override
  {
    tps_disk_share_clear (&share_);
  }

  gint64
  try_at (gint64 ms)
  {
    gint64 wake_ns = tps_disk_share_try_background (&share_, kStart + ms * kMs);

    return wake_ns == 0 || wake_ns == G_MAXINT64 ? wake_ns : (wake_ns - kStart) / kMs;
  }

  void
  end (gint64 began_ms, gint64 ms, gsize n_bytes = TPS_DISK_REST_BYTES)
  {
    tps_disk_share_end_background (&share_, n_bytes, kStart + began_ms * kMs, kStart + ms * kMs);
  }

  void
  sync (gint64 ms)
  {
    tps_disk_share_begin_urgent (&share_);
    tps_disk_share_end_urgent (&share_, kStart + ms * kMs);
  }

  TpsDiskShare share_;
};

TEST_F (DiskShare, AnIdleDiskTakesAllAtOnce)
{
  for (int i = 0; i < 8; i++)
    EXPECT_EQ (try_at (0), 0);
}

TEST_F (DiskShare, ABusyDiskTakesOneAtATime)
{
  tps_disk_share_begin_urgent (&share_);
  EXPECT_EQ (try_at (0), 0);
  EXPECT_EQ (try_at (0), G_MAXINT64);
  end (0, 1);
  EXPECT_EQ (try_at (1), 11) << "it rests after a write";
  EXPECT_EQ (try_at (10), 11);
  EXPECT_EQ (try_at (11), 0) << "it gets its turn, although the other write is still under way";
  tps_disk_share_end_urgent (&share_, kStart + 12 * kMs);
}

TEST_F (DiskShare, TheDiskIsBusyForAWhileAfterASync)
{
  sync (0);
  EXPECT_EQ (try_at (0), 0);
  end (0, 2);
  EXPECT_EQ (try_at (9), 12);
  EXPECT_EQ (try_at (10), 0) << "no sync for so long";
  EXPECT_EQ (try_at (10), 0);
}

TEST_F (DiskShare, ASlowDiskRestsAsLongAsItWrote)
{
  sync (0);
  EXPECT_EQ (try_at (5), 0);
  end (5, 45);
  sync (46);
  EXPECT_EQ (try_at (46), 85);
  sync (80);
  EXPECT_EQ (try_at (85), 0);
}

/* A snapshot of many small tables consists mostly of small writes and syncs. */
TEST_F (DiskShare, SmallWritesRestLongOnlyAfterManyBytes)
{
  gint64 now = 0;

  tps_disk_share_begin_urgent (&share_);
  for (gsize n_bytes = 4096; n_bytes < TPS_DISK_REST_BYTES; n_bytes += 4096, now += 2)
    {
      ASSERT_EQ (try_at (now), 0) << n_bytes;
      EXPECT_EQ (try_at (now), G_MAXINT64) << "one at a time";
      end (now, now + 1, 4096);
      EXPECT_EQ (try_at (now + 1), now + 2) << "it rests as long as it wrote";
    }
  ASSERT_EQ (try_at (now), 0);
  end (now, now + 1, 0);
  now += 2;
  ASSERT_EQ (try_at (now), 0);
  end (now, now + 1, 4096);
  EXPECT_EQ (try_at (now + 1), now + 11);
  EXPECT_EQ (try_at (now + 11), 0);
  end (now + 11, now + 12, 4096);
  EXPECT_EQ (try_at (now + 12), now + 13) << "counts from the long rest";
  tps_disk_share_end_urgent (&share_, kStart + now * kMs);
}

} // namespace
} // namespace thriftps
