/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The log on the simulated disk, step by step. */

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/server/log/log_fixture.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace thriftps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr gint64 kSecond = TPS_LOG_RETRY_NS;

class LogTest : public testing::Test
{
protected:
  LogTest ()
  {
    options_.segment_bytes = 64 << 10;
    options_.max_staged_bytes = 32 << 10;
    options_.interval_ns = 1000;
  }

  ~LogTest () override
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
    g_clear_pointer (&log_, tps_log_free);
  }

  const TpsCommand *
  append (TpsDurability durability, size_t max_bytes = 100,
          TpsCommandKind kind = TPS_COMMAND_DROP_TABLE)
  {
    commands_.push_back (std::make_unique<RandomCommand> (1, ++lsn_, kind, max_bytes));
    tps_log_append (log_, &commands_.back ()->record, durability, Ends::done, &ends_);
    return &commands_.back ()->record;
  }

  /* Appends about `n_bytes`. */
  void
  append_rows (gsize n_bytes, TpsDurability durability = TPS_DURABILITY_COMMIT)
  {
    static gint64 indices[1];
    static float values[64 << 10];
    commands_.push_back (std::make_unique<RandomCommand> (1, ++lsn_, TPS_COMMAND_RESET_MODEL, 0));
    TpsCommand *command = &commands_.back ()->record;
    static const TpsCommandTable table = { "users", 1, FALSE };

    command->kind = TPS_COMMAND_APPLY_ROWS;
    command->n_tables = 1;
    command->tables = &table;
    command->rows.indices = { { TPS_DTYPE_INT64, 1, { 1 } }, indices };
    command->rows.values = { { TPS_DTYPE_FLOAT32, 2, { 1, static_cast<gint64> (n_bytes / 4) } },
                             values };
    tps_log_append (log_, command, durability, Ends::done, &ends_);
  }

  void
  flush ()
  {
    tps_log_flush (log_, Ends::done, &ends_);
  }

  /* Opens the log, which must be refused, and returns the error message. */
  std::string
  refusal ()
  {
    if (open ())
      return "it opens";
    return error_->message;
  }

  std::string &
  segment (int number)
  {
    g_autofree gchar *name = tps_log_segment_name (static_cast<guint64> (number));

    return disk_.get_file (std::string ("log/") + name);
  }

  /* Writes LSNs 1 to 3, each in its own group, at 4096, 8192 and 12288. */
  void
  write_three ()
  {
    ASSERT_TRUE (open ());
    for (int i = 0; i < 3; i++)
      {
        append (TPS_DURABILITY_COMMIT);
        take_all_steps (log_);
      }
    close ();
  }

  SimulatedDisk disk_ { 1 };
  TpsLogOptions options_ {};
  TpsLogFound found_ {};
  GError *error_ = nullptr;
  TpsLog *log_ = nullptr;
  Ends ends_;
  std::vector<std::unique_ptr<RandomCommand>> commands_;
  gint64 lsn_ = 0;
};

/* ---- ends of appends ------------------------------------------------------------------------- */

TEST_F (LogTest, EachDurabilityEndsInItsTime)
{
  gint64 wake_ns;

  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_NONE);
  EXPECT_THAT (ends_.lsns, ElementsAre (1)) << "without a step";
  append (TPS_DURABILITY_INTERVAL);
  EXPECT_THAT (ends_.lsns, ElementsAre (1)) << "not from within append()";
  take_all_steps (log_, 500);
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2));
  EXPECT_EQ (tps_log_get_durable_lsn (log_), 0);
  tps_log_writer_step (tps_log_get_writer (log_), 600, &wake_ns);
  EXPECT_EQ (wake_ns, 1000) << "half of the interval, from the first record";

  take_all_steps (log_, 1000);
  EXPECT_EQ (tps_log_get_durable_lsn (log_), 2);
  EXPECT_THAT (read_lsns (log_, 1), ElementsAre (-1, 2));

  append (TPS_DURABILITY_COMMIT);
  ASSERT_TRUE (tps_log_writer_step (tps_log_get_writer (log_), 1600, &wake_ns));
  EXPECT_EQ (ends_.lsns.size (), 2u) << "it is staged and not written";
  ASSERT_TRUE (tps_log_writer_step (tps_log_get_writer (log_), 1600, &wake_ns));
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2, 3));
  EXPECT_EQ (wake_ns, G_MAXINT64);
}

/* The order of the LSNs must not change if a stage is full or a write has failed. */
TEST_F (LogTest, AHoleThatCannotBeStagedIsQueued)
{
  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_COMMIT);
  append (TPS_DURABILITY_NONE);
  EXPECT_THAT (ends_.lsns, IsEmpty ()) << "the first one is not staged yet";
  take_all_steps (log_);
  EXPECT_THAT (ends_.lsns, ElementsAre (2, 1)) << "a hole does not wait for the disk";
  size_t n = 2;
  while (ends_.lsns.size () == n && n < 100000)
    {
      append (TPS_DURABILITY_NONE);
      n++;
    }
  ASSERT_LT (n, 100000u) << "a stage is full some time";
  append (TPS_DURABILITY_NONE);
  EXPECT_EQ (ends_.lsns.size (), n - 1) << "queued behind the other one";
  take_all_steps (log_);
  EXPECT_EQ (ends_.lsns.size (), n + 1);
  flush ();
  take_all_steps (log_);
  EXPECT_EQ (tps_log_get_durable_lsn (log_), static_cast<gint64> (n + 1));
  EXPECT_EQ (read_lsns (log_, 1).size (), n + 1);
}

TEST_F (LogTest, AFlushMakesEarlierAppendsDurable)
{
  ASSERT_TRUE (open ());
  flush ();
  take_all_steps (log_);
  EXPECT_THAT (ends_.lsns, ElementsAre (0)) << "of an empty log";
  append (TPS_DURABILITY_INTERVAL);
  append (TPS_DURABILITY_NONE);
  flush ();
  take_all_steps (log_);
  EXPECT_THAT (ends_.lsns, ElementsAre (0, 1, 2, 2));
  EXPECT_EQ (tps_log_get_durable_lsn (log_), 2);
}

TEST_F (LogTest, IntervalsEndWhenTheStopIsPrepared)
{
  gint64 wake_ns;

  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_);
  EXPECT_THAT (ends_.lsns, ElementsAre (1)) << "before it is on the disk";
  tps_log_end_intervals (log_);
  append (TPS_DURABILITY_INTERVAL);
  ASSERT_TRUE (tps_log_writer_step (tps_log_get_writer (log_), 0, &wake_ns));
  EXPECT_THAT (ends_.lsns, ElementsAre (1)) << "it is staged and not written";
  take_all_steps (log_);
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2));
  EXPECT_EQ (tps_log_get_durable_lsn (log_), 2);
}

/* Group commit: commands that are queued together must share blocks and one sync. */
TEST_F (LogTest, QueuedCommandsShareOneWrite)
{
  uint64_t n_before;

  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_COMMIT);
  take_all_steps (log_);
  n_before = disk_.get_operations ();
  for (int i = 0; i < 8; i++)
    append (TPS_DURABILITY_COMMIT);
  take_all_steps (log_);
  EXPECT_EQ (disk_.get_operations () - n_before, 2u) << "a write and its sync";
  EXPECT_EQ (tps_log_get_written_bytes (log_), 2 * TPS_DISK_BLOCK);
}

TEST_F (LogTest, APushTakesLittleMoreThanItsBytes)
{
  options_.segment_bytes = 1 << 20;
  options_.max_staged_bytes = 2 << 20;
  ASSERT_TRUE (open ());
  append_rows (2000 * 64 * sizeof (float) / 2); /* as large as the largest push of the fixture */
  take_all_steps (log_);
  EXPECT_LT (static_cast<double> (tps_log_get_written_bytes (log_)), 1.1 * 256000);
}

TEST_F (LogTest, CloseWritesStagedCommands)
{
  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_INTERVAL);
  append (TPS_DURABILITY_COMMIT);
  close ();
  EXPECT_EQ (ends_.lsns.size (), 2u);
  ASSERT_TRUE (open ());
  EXPECT_EQ (found_.last_lsn, 2);
  EXPECT_EQ (found_.n_torn_bytes, 0);
}

/* ---- faults ---------------------------------------------------------------------------------- */

TEST_F (LogTest, AFailedSyncIsFinal)
{
  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_COMMIT);
  take_all_steps (log_);
  disk_.fail_sync (1);
  append (TPS_DURABILITY_COMMIT);
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_);
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 3, -2)) << "3 was not to wait";
  EXPECT_THAT (ends_.message,
               HasSubstr ("00000000000000000001.log: fdatasync failed: Input/output"));
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_);
  EXPECT_EQ (ends_.lsns.back (), -4);
  EXPECT_FALSE (tps_log_may_append (log_, 1, &error_));
  EXPECT_EQ (error_->code, TPS_ERROR_INTERNAL);
  EXPECT_EQ (tps_log_get_durable_lsn (log_), 1);
}

TEST_F (LogTest, AFullDiskIsReportedEarlyAndAppendsContinueWhenThereIsRoom)
{
  gint64 wake_ns;

  ASSERT_TRUE (open ());
  disk_.set_capacity (1 << 10);
  EXPECT_TRUE (tps_log_may_append (log_, 1000, nullptr));
  for (int i = 0; i < 3; i++)
    append_rows (11000);
  take_all_steps (log_, 7);
  /* More than half of the segment is used, so the log has already tried and failed to create the
   * next segment. */
  EXPECT_EQ (ends_.lsns.size (), 3u);
  EXPECT_TRUE (tps_log_may_append (log_, 1000, nullptr)) << "there is room in this one";
  append_rows (11000);
  take_all_steps (log_, 7);
  EXPECT_FALSE (tps_log_may_append (log_, 10000, &error_));
  EXPECT_EQ (error_->code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (tps_error_get_retry_after_ms (error_), 1000);
  EXPECT_THAT (error_->message, HasSubstr ("No space left on device"));

  /* Commands that already have an LSN must wait. */
  append_rows (11000);
  append_rows (11000);
  take_all_steps (log_, 7);
  EXPECT_EQ (ends_.lsns.size (), 5u);
  EXPECT_FALSE (tps_log_writer_step (tps_log_get_writer (log_), 8, &wake_ns));
  EXPECT_EQ (wake_ns, 7 + kSecond);

  disk_.set_capacity (1 << 20);
  EXPECT_FALSE (tps_log_writer_step (tps_log_get_writer (log_), 8, &wake_ns))
      << "not before its time";
  take_all_steps (log_, 7 + kSecond);
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2, 3, 4, 5, 6));
  EXPECT_TRUE (tps_log_may_append (log_, 10000, nullptr));
}

/* The reservation of a segment's space takes long on a busy disk. */
TEST_F (LogTest, GroupsAreWrittenWhileTheNextSegmentIsMade)
{
  gint64 wake_ns;

  ASSERT_TRUE (open ());
  for (int i = 0; i < 3; i++)
    append_rows (11000);
  disk_.set_during_preallocate ([&] {
    disk_.set_during_preallocate (nullptr);
    EXPECT_EQ (ends_.lsns.size (), 3u);
    append_rows (11000);
    append_rows (11000);
    take_all_steps (log_);
    EXPECT_EQ (ends_.lsns.size (), 5u) << "these fit into the current segment";
    append_rows (11000);
    take_all_steps (log_);
    EXPECT_EQ (ends_.lsns.size (), 5u) << "this one does not";
    EXPECT_FALSE (tps_log_writer_step (tps_log_get_writer (log_), 1, &wake_ns));
    EXPECT_EQ (wake_ns, G_MAXINT64) << "the thread that makes the segment wakes the other one";
  });
  take_all_steps (log_);
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2, 3, 4, 5, 6));
  close ();
  ASSERT_TRUE (open ());
  EXPECT_EQ (found_.last_lsn, 6);
}

/* Otherwise a crash would undo the replies of more than one interval. */
TEST_F (LogTest, AStuckDiskHoldsTheRepliesOfLaterIntervals)
{
  ASSERT_TRUE (open ());
  disk_.set_capacity (1 << 10);
  for (int i = 0; i < 6; i++)
    append_rows (11000);
  take_all_steps (log_, 7);
  ASSERT_EQ (ends_.lsns.size (), 5u) << "the sixth waits for room";
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_, 100);
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_, 1099);
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2, 3, 4, 5, 7, 8));
  append (TPS_DURABILITY_INTERVAL);
  append (TPS_DURABILITY_NONE);
  take_all_steps (log_, 1100);
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_, 1101);
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2, 3, 4, 5, 7, 8, 10)) << "10 promises nothing";
  disk_.set_capacity (1 << 20);
  take_all_steps (log_, 7 + kSecond);
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2, 3, 4, 5, 7, 8, 10, 6, 9, 11));
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_, 7 + kSecond);
  EXPECT_EQ (ends_.lsns.back (), 12) << "at once again";
  EXPECT_LT (tps_log_get_durable_lsn (log_), 12);
}

/* A client that sends a command as soon as the one before has ended. The time of a step is too
 * early for a command that is added during the step. */
TEST_F (LogTest, AStepLeavesLaterEntriesToTheNextOne)
{
  gint64 wake_ns;
  std::function<void ()> on_end = [this] { append (TPS_DURABILITY_INTERVAL); };

  ASSERT_TRUE (open ());
  commands_.push_back (
      std::make_unique<RandomCommand> (1, ++lsn_, TPS_COMMAND_DROP_TABLE, size_t { 100 }));
  tps_log_append (
      log_, &commands_.back ()->record, TPS_DURABILITY_INTERVAL,
      [] (gpointer user_data, gint64, const GError *) {
        (*static_cast<std::function<void ()> *> (user_data)) ();
      },
      &on_end);
  ASSERT_TRUE (tps_log_writer_step (tps_log_get_writer (log_), 1, &wake_ns));
  EXPECT_THAT (ends_.lsns, IsEmpty ()) << "this step has begun before the second command was sent";
  ASSERT_TRUE (tps_log_writer_step (tps_log_get_writer (log_), 1001, &wake_ns));
  EXPECT_EQ (tps_log_get_durable_lsn (log_), 1) << "the first one is written before";
  EXPECT_THAT (ends_.lsns, IsEmpty ());
  take_all_steps (log_, 1001);
  EXPECT_THAT (ends_.lsns, ElementsAre (2));
  take_all_steps (log_, 1501);
  EXPECT_EQ (tps_log_get_durable_lsn (log_), 2);
}

/* Command 4 (INTERVAL) has been answered before its sync, which fails. Command 5 (NONE) has no
 * promise. */
TEST_F (LogTest, CloseReportsAFailedLastSync)
{
  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_COMMIT);
  append (TPS_DURABILITY_INTERVAL);
  append (TPS_DURABILITY_NONE);
  take_all_steps (log_, 0);
  append (TPS_DURABILITY_INTERVAL);
  append (TPS_DURABILITY_NONE);
  take_all_steps (log_, 0);
  EXPECT_EQ (ends_.lsns.size (), 5u);
  EXPECT_EQ (tps_log_get_durable_lsn (log_), 3);
  disk_.fail_sync (1);
  EXPECT_FALSE (tps_log_close (g_steal_pointer (&log_), &error_));
  EXPECT_THAT (
      error_->message,
      HasSubstr ("changes up to LSN 4 were answered, but only those up to LSN 3 are known to "
                 "be on the disk: log: "));
  EXPECT_THAT (error_->message, HasSubstr ("fdatasync failed: Input/output"));
  EXPECT_EQ (error_->code, TPS_ERROR_INTERNAL);
}

/* The sync fails before the close, and no later append reports the failure. */
TEST_F (LogTest, CloseReportsAnEarlierFailure)
{
  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_, 0);
  disk_.fail_sync (1);
  take_all_steps (log_, 1000);
  EXPECT_THAT (ends_.lsns, ElementsAre (1));
  EXPECT_FALSE (tps_log_close (g_steal_pointer (&log_), &error_));
  EXPECT_THAT (error_->message, HasSubstr ("only those up to LSN 0 are known to be on the disk"));
}

TEST_F (LogTest, CloseReportsADiskThatStaysFull)
{
  ASSERT_TRUE (open ());
  disk_.set_capacity (1 << 10);
  for (int i = 0; i < 5; i++)
    append_rows (11000);
  take_all_steps (log_);
  append_rows (11000, TPS_DURABILITY_INTERVAL);
  take_all_steps (log_);
  EXPECT_EQ (ends_.lsns.back (), 6);
  append_rows (11000);
  EXPECT_FALSE (tps_log_close (g_steal_pointer (&log_), &error_));
  EXPECT_EQ (ends_.lsns.back (), -7);
  EXPECT_THAT (ends_.message, HasSubstr ("No space left"));
  EXPECT_THAT (
      error_->message,
      HasSubstr ("changes up to LSN 6 were answered, but only those up to LSN 5 are known"));
  EXPECT_THAT (error_->message, HasSubstr ("No space left"));
  EXPECT_EQ (error_->code, TPS_ERROR_RESOURCE_EXHAUSTED);
}

/* A caller with COMMIT receives the error itself. A caller with NONE was promised nothing. */
TEST_F (LogTest, CloseSucceedsIfNothingThatWasPromisedIsLost)
{
  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_INTERVAL);
  append (TPS_DURABILITY_COMMIT);
  take_all_steps (log_, 0);
  disk_.fail_sync (1);
  append (TPS_DURABILITY_NONE);
  append (TPS_DURABILITY_COMMIT);
  EXPECT_TRUE (tps_log_close (g_steal_pointer (&log_), &error_)) << error_->message;
  EXPECT_THAT (ends_.lsns, ElementsAre (1, 2, 3, -4));
}

/* ---- refusals at the start ------------------------------------------------------------------- */

TEST_F (LogTest, DamageIsNamedWithFileOffsetAndLsn)
{
  write_three ();
  segment (1)[8192 + 150] ^= 1;
  EXPECT_THAT (refusal (),
               HasSubstr ("00000000000000000001.log at 8256: the record of LSN 2 is damaged"));
  segment (1)[8192 + 150] ^= 1;
  segment (1)[8192 + 20] ^= 1;
  EXPECT_THAT (refusal (),
               HasSubstr ("00000000000000000001.log at 8192: the head of a group is damaged"));
  segment (1)[8192 + 20] ^= 1;
  EXPECT_TRUE (open ()) << error_->message;
}

/* A later group proves that the lost sectors had been synced. */
TEST_F (LogTest, LostSectorsInTheMiddleAreDamage)
{
  write_three ();
  segment (1).replace (8192, 512, 512, '\0');
  EXPECT_THAT (refusal (),
               HasSubstr ("at 8192: a group is damaged: there is a later one at 12288"));
}

TEST_F (LogTest, ATornTailIsCutAndReported)
{
  write_three ();
  segment (1).replace (12288, 512, 512, '\0');
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (found_.last_lsn, 2);
  EXPECT_EQ (found_.n_torn_bytes, 0) << "the group had one sector only";
  EXPECT_EQ (segment (1).size (), 12288u);
}

TEST_F (LogTest, AMissingSegmentIsNamed)
{
  ASSERT_TRUE (open ());
  for (int i = 0; i < 12; i++)
    {
      append_rows (12000);
      take_all_steps (log_);
    }
  close ();
  std::string third = segment (3);
  disk_.remove_file ("log/00000000000000000002.log");
  EXPECT_THAT (refusal (), HasSubstr ("log: segment 00000000000000000002.log is missing"));
  segment (3) = segment (1);
  disk_.remove_file ("log/00000000000000000001.log");
  EXPECT_THAT (refusal (), HasSubstr ("the number in the segment differs from that of its file"));
}

TEST_F (LogTest, ForeignFoldersAreRefused)
{
  write_three ();
  std::string marker = disk_.get_file ("log/LOG");
  disk_.get_file ("log/LOG") = "thriftps log\nversion 2\n";
  EXPECT_THAT (refusal (),
               HasSubstr ("log/LOG: format version 2, and this program knows version 1"));
  disk_.get_file ("log/LOG") = "something else";
  EXPECT_THAT (refusal (), HasSubstr ("not the marker of a log"));
  disk_.get_file ("log/LOG") = marker;
  disk_.get_file ("log/LOG")[30] = disk_.get_file ("log/LOG")[30] == '1' ? '2' : '1';
  EXPECT_THAT (refusal (), HasSubstr ("the segment belongs to another log"));
  disk_.remove_file ("log/LOG");
  EXPECT_THAT (refusal (), HasSubstr ("not the folder of a log: it has no file LOG, but 0000000"));
}

/* FUSE keeps such a file if the power fails while a server deletes a segment. The names that NFS
 * uses are treated in the same way. */
TEST_F (LogTest, DeletedFilesThatFileSystemsKeepArePassedOver)
{
  write_three ();
  TpsDisk *disk = disk_.get ();
  for (const char *path :
       { "log/.nfs000000000345001200000001", "log/.fuse_hidden000000a30000008b" })
    {
      TpsDiskFile *file = disk->open (disk, path, TPS_DISK_CREATE, nullptr);

      ASSERT_NE (file, nullptr);
      disk->close (file);
    }
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (found_.last_lsn, 3);
}

TEST_F (LogTest, AForeignFolderStaysAsItIs)
{
  TpsDisk *disk = disk_.get ();
  TpsDiskFile *file = disk->open (disk, "log/diary.txt", TPS_DISK_CREATE, nullptr);

  disk->close (file);
  EXPECT_THAT (refusal (), HasSubstr ("it has no file LOG, but diary.txt; choose a folder"));
  g_auto (GStrv) names = disk->list (disk, "log", nullptr);
  EXPECT_EQ (g_strv_length (names), 1u);
}

TEST_F (LogTest, ALockedFolderIsRefused)
{
  ASSERT_TRUE (open ());
  EXPECT_EQ (tps_log_open_stepped (disk_.get (), "log", &options_, nullptr, &error_), nullptr);
  EXPECT_EQ (error_->code, TPS_ERROR_UNAVAILABLE);
}

TEST_F (LogTest, ALogThatDoesNotReachTheSnapshotIsRefused)
{
  write_three ();
  options_.first_lsn = 5;
  EXPECT_THAT (refusal (),
               HasSubstr ("commands are needed from LSN 5 on, but the log has LSN 1 to 3"));
  options_.first_lsn = 4;
  EXPECT_TRUE (open ()) << error_->message;
}

TEST_F (LogTest, AnEmptyLogBeginsWhereItIsTold)
{
  options_.first_lsn = 1000;
  ASSERT_TRUE (open ());
  EXPECT_EQ (found_.first_lsn, 1000);
  EXPECT_EQ (found_.last_lsn, 999);
  append (TPS_DURABILITY_COMMIT);
  take_all_steps (log_);
  EXPECT_THAT (ends_.lsns, ElementsAre (1000));
  EXPECT_THAT (read_lsns (log_, 1000), ElementsAre (1000));
}

/* ---- reading and deleting -------------------------------------------------------------------- */

TEST_F (LogTest, ACursorFollowsTheLog)
{
  ASSERT_TRUE (open ());
  g_autoptr (TpsLogCursor) cursor = tps_log_cursor_new (log_, 1, nullptr);
  ASSERT_NE (cursor, nullptr);
  EXPECT_THAT (read_lsns (cursor), IsEmpty ());
  for (gint64 lsn = 1; lsn <= 30; lsn++)
    {
      append_rows (5000);
      take_all_steps (log_);
      ASSERT_THAT (read_lsns (cursor), ElementsAre (lsn));
    }
  append (TPS_DURABILITY_INTERVAL);
  take_all_steps (log_);
  EXPECT_THAT (read_lsns (cursor), IsEmpty ()) << "it is not durable";
  EXPECT_EQ (tps_log_cursor_new (log_, 40, &error_), nullptr);
  EXPECT_EQ (error_->code, TPS_ERROR_NOT_FOUND);
}

TEST_F (LogTest, OldSegmentsAreDeletedAndLaterOnesStay)
{
  ASSERT_TRUE (open ());
  for (int i = 0; i < 20; i++)
    {
      append_rows (11000);
      take_all_steps (log_);
    }
  /* A segment has 5 records. */
  ASSERT_TRUE (tps_log_delete_before (log_, 12, nullptr));
  EXPECT_EQ (tps_log_get_first_lsn (log_), 11);
  EXPECT_FALSE (disk_.has_file ("log/00000000000000000002.log"));
  EXPECT_EQ (read_lsns (log_, 11).size (), 10u);
  EXPECT_EQ (tps_log_cursor_new (log_, 10, &error_), nullptr);
  EXPECT_THAT (error_->message, HasSubstr ("LSN 10 is not kept; LSN 11 to 20 are"));
  ASSERT_TRUE (tps_log_delete_before (log_, 1000, nullptr));
  EXPECT_EQ (tps_log_get_first_lsn (log_), 16) << "the newest one stays";
  close ();
  options_.first_lsn = 18;
  ASSERT_TRUE (open ()) << error_->message;
  EXPECT_EQ (found_.first_lsn, 16);
  EXPECT_EQ (found_.last_lsn, 20);
}

TEST_F (LogTest, TheSizeCountsSegmentsWithRecordsOnly)
{
  guint n_segments;
  gint64 n_bytes, n_bytes_before;

  ASSERT_TRUE (open ());
  tps_log_get_size (log_, &n_segments, &n_bytes);
  EXPECT_EQ (n_segments, 0u);
  EXPECT_EQ (n_bytes, 0);
  for (int i = 0; i < 12; i++) /* a segment has 5 records */
    {
      append_rows (11000);
      take_all_steps (log_);
    }
  tps_log_get_size (log_, &n_segments, &n_bytes);
  EXPECT_EQ (n_segments, 3u);
  EXPECT_EQ (n_bytes, tps_log_get_written_bytes (log_) + 3 * TPS_LOG_FIRST_GROUP);
  close ();
  EXPECT_EQ (n_bytes, (gint64) (segment (1).size () + segment (2).size () + segment (3).size ()));
  ASSERT_TRUE (open ());
  n_bytes_before = n_bytes;
  tps_log_get_size (log_, &n_segments, &n_bytes);
  EXPECT_EQ (n_segments, 3u);
  EXPECT_EQ (n_bytes, n_bytes_before) << "a restart does not change it";
  n_bytes_before -= (gint64) segment (1).size ();
  ASSERT_TRUE (tps_log_delete_before (log_, 6, nullptr));
  tps_log_get_size (log_, &n_segments, &n_bytes);
  EXPECT_EQ (n_segments, 2u);
  EXPECT_EQ (n_bytes, n_bytes_before);
}

/* A holder may keep the tensors of a model longer than the record. */
TEST_F (LogTest, HoldersOfTensorsKeepTheirBytes)
{
  ASSERT_TRUE (open ());
  append (TPS_DURABILITY_COMMIT, 0, TPS_COMMAND_UPDATE_MODEL);
  for (int i = 0; i < 3; i++)
    append_rows (12000);
  take_all_steps (log_);
  g_autoptr (TpsLogCursor) cursor = tps_log_cursor_new (log_, 1, nullptr);
  TpsLogRecord record;
  TpsTensor held {};
  ASSERT_TRUE (tps_log_cursor_next (cursor, &record, nullptr));
  tps_tensor_init_ref (&held, &record.command->update.contributions[0].gradients[0]);
  std::string before (static_cast<const char *> (tps_tensor_data (&held)),
                      tps_shape_n_bytes (&held.shape));
  EXPECT_EQ (read_lsns (cursor).size (), 3u);
  EXPECT_EQ (std::string (static_cast<const char *> (tps_tensor_data (&held)), before.size ()),
             before);
  tps_tensor_clear (&held);
}

} // namespace
} // namespace thriftps
