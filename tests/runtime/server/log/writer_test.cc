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

/* A later group proves that the lost sectors had been synced. */
TEST_F (LogTest, LostSectorsInTheMiddleAreDamage)
{
  write_three ();
  segment (1).replace (8192, 512, 512, '\0');
  EXPECT_THAT (refusal (),
               HasSubstr ("at 8192: a group is damaged: there is a later one at 12288"));
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

TEST_F (LogTest, ALogThatDoesNotReachTheSnapshotIsRefused)
{
  write_three ();
  options_.first_lsn = 5;
  EXPECT_THAT (refusal (),
               HasSubstr ("commands are needed from LSN 5 on, but the log has LSN 1 to 3"));
  options_.first_lsn = 4;
  EXPECT_TRUE (open ()) << error_->message;
}

/* ---- reading and deleting -------------------------------------------------------------------- */

TEST_F (LogTest, OldSegmentsAreDeletedAndLaterOnesStay)
{
  ASSERT_TRUE (open ());
  for (int i = 0; i < 20; i++)
    {
      append_rows (11000);
      take_all_steps (log_);
    }
  /* A segment has 5 records. */
  ASSERT_TRUE (tps_log_delete_before (log_, 10, nullptr));
  EXPECT_EQ (tps_log_get_first_lsn (log_), 6) << "the second one holds LSN 10";
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
