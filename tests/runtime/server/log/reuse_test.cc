/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files of deleted segments are used for later ones, and a reader distinguishes old contents from
 * new ones. On the simulated disk, step by step. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "runtime/server/log/log_check.h"
#include "tests/runtime/server/log/log_fixture.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace thriftps {
namespace {

using testing::HasSubstr;

constexpr gint64 kSegmentBytes = 64 << 10;
/* A segment has this many groups of append(). */
constexpr int kGroups = 5;
constexpr size_t kGroupBytes = 12288;

class ReuseTest : public testing::Test
{
protected:
  ReuseTest ()
  {
    options_.segment_bytes = kSegmentBytes;
    options_.max_staged_bytes = 32 << 10;
  }

  ~ReuseTest () override
  {
    close ();
    g_clear_error (&error_);
    tps_log_found_clear (&found_);
  }

  bool
  open ()
  {
    g_clear_error (&error_);
    tps_log_found_clear (&found_);
    log_ = tps_log_open_stepped (disk_.get (), "log", &options_, &found_, &error_);
    if (log_ != nullptr)
      lsn_ = found_.last_lsn;
    return log_ != nullptr;
  }

  void
  close ()
  {
    g_clear_pointer (&log_, tps_log_close);
  }

  void
  cut ()
  {
    disk_.cut ();
    close ();
    disk_.restart ();
  }

  /* Appends a group of kGroupBytes whose sectors are like those of no other group. */
  void
  append ()
  {
    static const TpsCommandTable table = { "users", 1, FALSE };
    commands_.push_back (std::make_unique<RandomCommand> (1, ++lsn_, TPS_COMMAND_RESET_MODEL, 0));
    TpsCommand *command = &commands_.back ()->record;
    std::vector<float> &values = values_.emplace_back (11000 / sizeof (float));

    std::iota (values.begin (), values.end (), static_cast<float> (lsn_ * 10000));
    command->kind = TPS_COMMAND_APPLY_ROWS;
    command->n_tables = 1;
    command->tables = &table;
    command->rows.indices = { { TPS_DTYPE_INT64, 1, { 1 } }, &index_ };
    command->rows.values = { { TPS_DTYPE_FLOAT32, 2, { 1, static_cast<gint64> (values.size ()) } },
                             values.data () };
    tps_log_append (log_, command, TPS_DURABILITY_COMMIT, Ends::done, &ends_);
    take_all_steps (log_);
  }

  void
  append (int n)
  {
    for (int i = 0; i < n; i++)
      append ();
  }

  /* Segment 1 and 2 are old, 3 is the current one in a new file, and 4 is made with a file of
   * theirs: it becomes the current one, with one group. */
  void
  reach_reused_segment ()
  {
    ASSERT_TRUE (open ()) << error_->message;
    append (2 * kGroups + 1);
    ASSERT_TRUE (tps_log_delete_before (log_, 2 * kGroups + 1, nullptr));
    options_.first_lsn = 2 * kGroups + 1;
    append (kGroups);
    ASSERT_TRUE (log_->writer.segments.current.head.is_reused);
    ASSERT_EQ (log_->writer.segments.current.head.number, 4u);
  }

  std::string &
  segment (int number)
  {
    g_autofree gchar *name = tps_log_segment_name (static_cast<guint64> (number));

    return disk_.get_file (std::string ("log/") + name);
  }

  bool
  has_old (int number)
  {
    g_autofree gchar *name = tps_log_old_segment_name (static_cast<guint64> (number));

    return disk_.has_file (std::string ("log/") + name);
  }

  int
  count_old ()
  {
    int n = 0;

    for (int number = 1; number < 100; number++)
      n += has_old (number);
    return n;
  }

  void
  expect_records (gint64 first, gint64 last)
  {
    std::vector<gint64> lsns = read_lsns (log_, first);

    ASSERT_EQ (lsns.size (), static_cast<size_t> (last - first + 1));
    EXPECT_EQ (lsns.front (), first);
    EXPECT_EQ (lsns.back (), last);
  }

  SimulatedDisk disk_ { 1 };
  TpsLogOptions options_ {};
  TpsLogFound found_ {};
  GError *error_ = nullptr;
  TpsLog *log_ = nullptr;
  Ends ends_;
  std::vector<std::unique_ptr<RandomCommand>> commands_;
  std::vector<std::vector<float>> values_;
  gint64 index_ = 3;
  gint64 lsn_ = 0;
};

TEST_F (ReuseTest, ALaterSegmentHasTheFileOfAnOldOne)
{
  reach_reused_segment ();
  EXPECT_FALSE (has_old (2)) << "the newest old one is used first";
  EXPECT_TRUE (has_old (1));
  append (3 * kGroups);
  expect_records (options_.first_lsn, lsn_);
  gint64 last_lsn = lsn_;
  close ();
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (found_.last_lsn, last_lsn);
  EXPECT_EQ (found_.n_torn_bytes, 0);
  expect_records (options_.first_lsn, last_lsn);
}

TEST_F (ReuseTest, ARestartDeletesOldFilesThatAreLeft)
{
  reach_reused_segment ();
  ASSERT_EQ (count_old (), 1);
  cut ();
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (count_old (), 0);
  expect_records (options_.first_lsn, lsn_);
}

TEST_F (ReuseTest, AsManyFilesAreKeptAsSegmentsWereMade)
{
  ASSERT_TRUE (open ());
  append (4 * kGroups + 1);
  ASSERT_TRUE (tps_log_delete_before (log_, 4 * kGroups + 1, nullptr));
  EXPECT_EQ (count_old (), 4) << "five segments were made";
  append (kGroups);
  ASSERT_EQ (count_old (), 3);
  ASSERT_TRUE (tps_log_delete_before (log_, 5 * kGroups + 1, nullptr));
  EXPECT_LE (count_old (), 2) << "only that many have been made since";
  EXPECT_TRUE (tps_log_release_room (log_));
  EXPECT_EQ (count_old (), 0);
  EXPECT_FALSE (tps_log_release_room (log_));
  append (2 * kGroups);
  expect_records (5 * kGroups + 1, lsn_);
}

/* Each of the sectors of the last group in turn has the old contents: it was lost. */
TEST_F (ReuseTest, AGroupThatLacksASectorIsTorn)
{
  reach_reused_segment ();
  append ();
  std::string before = segment (4), data;
  size_t group = before.size ();
  append ();
  data = segment (4);
  group = TPS_LOG_FIRST_GROUP + 2 * kGroupBytes;
  ASSERT_NE (before, data);
  close ();
  for (size_t at = group; at < group + kGroupBytes - TPS_DISK_SECTOR; at += TPS_DISK_SECTOR)
    {
      SCOPED_TRACE (at);
      std::string torn = data;
      torn.replace (at, TPS_DISK_SECTOR, before, at, TPS_DISK_SECTOR);
      if (torn == data)
        continue; /* padding */
      segment (4) = torn;
      ASSERT_TRUE (open ()) << error_->message;
      EXPECT_EQ (found_.last_lsn, 3 * kGroups + 2);
      EXPECT_GT (found_.n_torn_bytes, 0);
      expect_records (options_.first_lsn, 3 * kGroups + 2);
      close ();
    }
}

/* A bit of each sector of the last group in turn is wrong: it was acknowledged, and is damaged. */
TEST_F (ReuseTest, AGroupWithAWrongBitIsDamaged)
{
  reach_reused_segment ();
  append (2);
  std::string data = segment (4);
  size_t group = TPS_LOG_FIRST_GROUP + 2 * kGroupBytes;
  cut ();
  for (size_t at = group; at < group + 11000; at += TPS_DISK_SECTOR)
    {
      SCOPED_TRACE (at);
      segment (4) = data;
      segment (4)[at + 5] = static_cast<char> (segment (4)[at + 5] ^ 4);
      ASSERT_FALSE (open ());
      EXPECT_EQ (error_->code, TPS_ERROR_ABORTED);
      EXPECT_THAT (error_->message, HasSubstr ("damaged"));
    }
  segment (4) = data;
  segment (4)[kSegmentBytes] ^= 1;
  ASSERT_FALSE (open ());
  EXPECT_THAT (error_->message, HasSubstr ("the table of sectors is damaged"));
}

/* A file that was cut to its last group has no old contents, so nothing in it is torn. */
TEST_F (ReuseTest, ACutSegmentWithAWrongBitIsDamaged)
{
  reach_reused_segment ();
  append (2);
  close ();
  std::string data = segment (4);
  ASSERT_EQ (data.size (), TPS_LOG_FIRST_GROUP + 3 * kGroupBytes);
  for (size_t at = TPS_LOG_FIRST_GROUP; at < data.size () - kGroupBytes + 11000;
       at += TPS_DISK_SECTOR)
    {
      SCOPED_TRACE (at);
      segment (4) = data;
      segment (4)[at + 5] = static_cast<char> (segment (4)[at + 5] ^ 4);
      if ((at - TPS_LOG_FIRST_GROUP) % kGroupBytes >= 11000)
        continue; /* padding */
      ASSERT_FALSE (open ());
      EXPECT_THAT (error_->message, HasSubstr ("damaged"));
    }
}

/* The old head of a group is at the place of a new one. */
TEST_F (ReuseTest, OldGroupsDoNotCount)
{
  reach_reused_segment ();
  gint64 last_lsn = lsn_;
  EXPECT_EQ (segment (4).substr (TPS_LOG_FIRST_GROUP + kGroupBytes, 4), "TPSG");
  cut ();
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (found_.last_lsn, last_lsn);
  EXPECT_EQ (found_.n_torn_bytes, 0);
}

/* The power fails at each operation of making a segment with an old file. */
TEST_F (ReuseTest, ACrashWhileAFileIsPrepared)
{
  for (uint64_t n = 1; n <= 12; n++)
    {
      SCOPED_TRACE (n);
      SimulatedDisk disk (static_cast<uint32_t> (n));
      g_autoptr (GError) error = nullptr;

      options_.first_lsn = 1;
      log_ = tps_log_open_stepped (disk.get (), "log", &options_, nullptr, &error);
      ASSERT_NE (log_, nullptr);
      lsn_ = 0;
      append (2 * kGroups + 1);
      ASSERT_TRUE (tps_log_delete_before (log_, 2 * kGroups + 1, nullptr));
      append ();
      disk.cut_after (n);
      ends_.lsns.clear ();
      append (2);
      gint64 acknowledged = 2 * kGroups + 2;
      for (gint64 lsn : ends_.lsns)
        acknowledged = std::max (acknowledged, lsn);
      close ();
      disk.restart ();
      options_.first_lsn = 2 * kGroups + 1;
      TpsLogFound found {};
      log_ = tps_log_open_stepped (disk.get (), "log", &options_, &found, &error);
      ASSERT_NE (log_, nullptr) << error->message;
      EXPECT_GE (found.last_lsn, acknowledged);
      expect_records (options_.first_lsn, found.last_lsn);
      tps_log_found_clear (&found);
      close ();
    }
}

TEST_F (ReuseTest, ALongRecordGetsAFileOfItsOwn)
{
  reach_reused_segment ();
  commands_.push_back (std::make_unique<RandomCommand> (7, ++lsn_, TPS_COMMAND_APPLY_ROWS, 150000));
  tps_log_append (log_, &commands_.back ()->record, TPS_DURABILITY_COMMIT, Ends::done, &ends_);
  take_all_steps (log_);
  append (kGroups);
  expect_records (options_.first_lsn, lsn_);
  gint64 last_lsn = lsn_;
  cut ();
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (found_.last_lsn, last_lsn);
}

TEST_F (ReuseTest, AReusedSegmentCanBeTruncated)
{
  reach_reused_segment ();
  append (2);
  close ();
  gint64 last_lsn = 3 * kGroups + 2;
  ASSERT_TRUE (tps_log_truncate (disk_.get (), "log", last_lsn, &error_)) << error_->message;
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (found_.last_lsn, last_lsn);
  expect_records (options_.first_lsn, last_lsn);
}

TEST_F (ReuseTest, ADamagedFinalTableIsNotUsed)
{
  ASSERT_TRUE (open ());
  append (2 * kGroups + 1);
  segment (2)[kSegmentBytes + 3 * TPS_DISK_BLOCK] ^= 1;
  segment (1).resize (kSegmentBytes);
  ASSERT_TRUE (tps_log_delete_before (log_, 2 * kGroups + 1, nullptr));
  ASSERT_EQ (count_old (), 2);
  append (kGroups);
  EXPECT_EQ (log_->writer.segments.current.head.number, 4u);
  EXPECT_FALSE (log_->writer.segments.current.head.is_reused);
  EXPECT_EQ (count_old (), 0);
}

TEST_F (ReuseTest, AFolderOfTheFirstVersionIsReadAndConverted)
{
  ASSERT_TRUE (open ());
  close ();
  std::string &marker = disk_.get_file ("log/LOG");
  std::string old = marker;
  old.replace (old.find ("version 2"), 9, "version 1");
  marker = old;
  ASSERT_TRUE (open ()) << error_->message;
  append ();
  close ();
  EXPECT_THAT (disk_.get_file ("log/LOG"), HasSubstr ("version 2"));
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (found_.last_lsn, 1);
  close ();
  std::string &future = disk_.get_file ("log/LOG");
  future.replace (future.find ("version 2"), 9, "version 3");
  ASSERT_FALSE (open ());
  EXPECT_THAT (error_->message,
               HasSubstr ("format version 3, and this program knows versions 1 to 2 only"));
}

} // namespace
} // namespace thriftps
