// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/slab.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace {

constexpr gsize kBytes = 44;

class SlabTest : public ::testing::Test
{
protected:
  SlabTest ()
  {
    tps_slab_init (&slab_, kBytes);
  }
  ~SlabTest () override
  {
    tps_slab_clear (&slab_);
    EXPECT_EQ (slab_.n_chunks, 0u);
  }

  std::vector<gpointer>
  Take (int n)
  {
    std::vector<gpointer> records (n);
    for (gpointer &record : records)
      record = tps_slab_take (&slab_);
    return records;
  }
  void
  Give (const std::vector<gpointer> &records)
  {
    for (gpointer record : records)
      tps_slab_give (&slab_, record);
  }

  TpsSlab slab_;
};

TEST_F (SlabTest, RecordsAreZeroAndAligned)
{
  gpointer first = tps_slab_take (&slab_);

  memset (first, 0xff, kBytes);
  tps_slab_give (&slab_, first);
  for (gpointer record : Take (3))
    {
      EXPECT_EQ (reinterpret_cast<uintptr_t> (record) % 8, 0u);
      EXPECT_TRUE (std::all_of (static_cast<guint8 *> (record),
                                static_cast<guint8 *> (record) + kBytes,
                                [] (guint8 byte) { return byte == 0; }));
      memset (record, 0xff, kBytes);
      tps_slab_give (&slab_, record);
    }
}

// Fills each record with its own byte, and checks this byte before the record is returned.
TEST_F (SlabTest, RecordsNeverOverlap)
{
  std::mt19937 dice (1);
  std::vector<std::pair<guint8 *, guint8>> taken;

  for (int i = 0; i < 100000; i++)
    {
      bool grows = i / 20000 % 2 == 0;

      if (taken.empty () || dice () % 10 < (grows ? 7u : 3u))
        {
          taken.emplace_back (static_cast<guint8 *> (tps_slab_take (&slab_)), dice () % 256);
          memset (taken.back ().first, taken.back ().second, kBytes);
          continue;
        }
      std::swap (taken[dice () % taken.size ()], taken.back ());
      for (gsize k = 0; k < kBytes; k++)
        ASSERT_EQ (taken.back ().first[k], taken.back ().second) << "step " << i;
      tps_slab_give (&slab_, taken.back ().first);
      taken.pop_back ();
    }
  for (auto &[record, byte] : taken)
    tps_slab_give (&slab_, record);
}

TEST_F (SlabTest, ReusesFreeRecordsBeforeItGrows)
{
  std::vector<gpointer> records = Take (10000);
  gsize n_chunks = slab_.n_chunks;
  std::vector<gpointer> even;
  std::vector<gpointer> odd;

  for (gsize i = 0; i < records.size (); i++)
    (i % 2 == 0 ? even : odd).push_back (records[i]);
  Give (odd);
  odd = Take (5000);
  EXPECT_EQ (slab_.n_chunks, n_chunks);
  Give (odd);
  Give (even);
}

// Clients of a push window are dropped in this order: the oldest records first.
TEST_F (SlabTest, FreesChunksWithTheirLastRecords)
{
  std::vector<gpointer> records = Take (100000);
  gsize n_chunks = slab_.n_chunks;

  EXPECT_GT (n_chunks, 50u);
  Give (std::vector<gpointer> (records.begin (), records.begin () + 90000));
  EXPECT_LE (slab_.n_chunks, n_chunks / 10 + 2);
  Give (std::vector<gpointer> (records.begin () + 90000, records.end ()));
  EXPECT_LE (slab_.n_chunks, 1u);
}

} // namespace
