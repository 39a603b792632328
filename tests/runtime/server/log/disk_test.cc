/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The real disks, in one suite for all of them, and the log with its threads on each. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "runtime/server/log/faulty_disk.h"
#include "tests/runtime/server/log/log_fixture.h"

namespace thriftps {
namespace {

using testing::HasSubstr;

class DiskTest : public testing::TestWithParam<const char *>
{
protected:
  void
  SetUp () override
  {
    g_autoptr (GError) error = nullptr;
    std::string pattern = std::string (g_getenv ("TEST_TMPDIR")) + "/diskXXXXXX";

    disk_ = make_disk (&error);
    ASSERT_NE (disk_, nullptr) << error->message;
    ASSERT_NE (g_mkdtemp (pattern.data ()), nullptr);
    folder_ = pattern;
  }

  TpsDisk *
  make_disk (GError **error)
  {
    const gchar *const no_faults[] = { nullptr };

    if (std::string (GetParam ()) == "posix")
      return tps_disk_new_posix ();
    plan_ = tps_fault_plan_new (no_faults, error);
    return tps_faulty_disk_new (tps_disk_new_posix (), plan_);
  }

  void
  TearDown () override
  {
    g_clear_pointer (&disk_, tps_disk_free);
    g_clear_pointer (&plan_, tps_fault_plan_free);
    if (!folder_.empty ())
      std::filesystem::remove_all (folder_);
    g_clear_error (&error_);
  }

  std::string
  path (const char *name)
  {
    return folder_ + "/" + name;
  }

  TpsDisk *disk_ = nullptr;
  TpsFaultPlan *plan_ = nullptr;
  std::string folder_;
  GError *error_ = nullptr;
};

TEST_P (DiskTest, ReadsReturnTheWrittenBytes)
{
  TpsDiskFile *file = disk_->open (disk_, path ("a").c_str (), TPS_DISK_CREATE | TPS_DISK_DIRECT,
                                   &error_);
  auto *block = static_cast<guint8 *> (g_aligned_alloc (2, TPS_DISK_BLOCK, TPS_DISK_BLOCK));

  ASSERT_NE (file, nullptr) << error_->message;
  ASSERT_TRUE (disk_->preallocate (file, 1 << 20, &error_));
  EXPECT_EQ (disk_->get_size (file, &error_), 1 << 20);
  memset (block, 7, 2 * TPS_DISK_BLOCK);
  ASSERT_TRUE (disk_->write (file, block, 2 * TPS_DISK_BLOCK, 8192, TRUE, &error_))
      << error_->message;
  ASSERT_TRUE (disk_->write (file, block, TPS_DISK_BLOCK, 65536, FALSE, &error_));
  ASSERT_TRUE (disk_->sync (file, &error_));
  EXPECT_EQ (disk_->read (file, block, 2 * TPS_DISK_BLOCK, 12288, &error_), 2 * TPS_DISK_BLOCK);
  EXPECT_EQ (block[TPS_DISK_BLOCK - 1], 7);
  EXPECT_LE (disk_->skip_zeros (file, 0), 8192);
  EXPECT_LE (disk_->skip_zeros (file, 16384), 65536);
  EXPECT_GE (disk_->skip_zeros (file, 16384), 16384);
  EXPECT_EQ (disk_->skip_zeros (file, 65536), 65536);
  EXPECT_LE (disk_->skip_zeros (file, 1 << 19), 1 << 20);
  EXPECT_EQ (block[TPS_DISK_BLOCK], 0) << "reserved room is zero";
  EXPECT_EQ (disk_->read (file, block, 2 * TPS_DISK_BLOCK, (1 << 20) - TPS_DISK_BLOCK, &error_),
             TPS_DISK_BLOCK);
  ASSERT_TRUE (disk_->truncate (file, 12288, &error_));
  EXPECT_EQ (disk_->get_size (file, &error_), 12288);
  disk_->close (file);
  g_aligned_free (block);
}

/* Lacks that may pass are no failures of the disk, so that the log tries again. */
TEST (DiskError, ALackOfRoomHasItsRemedy)
{
  const std::pair<int, const char *> lacks[] = { { ENOSPC, "make room" },   { EDQUOT, "quota" },
                                                 { EFBIG, "ulimit -f" },    { EMFILE, "ulimit -n" },
                                                 { ENFILE, "fs.file-max" }, { ENOMEM, "memory" } };
  for (const auto &[code, remedy] : lacks)
    {
      g_autoptr (GError) error = nullptr;
      EXPECT_FALSE (tps_disk_set_error (&error, "open", "/d/f", code));
      EXPECT_EQ (error->code, TPS_ERROR_RESOURCE_EXHAUSTED) << g_strerror (code);
      EXPECT_THAT (error->message, testing::StartsWith (std::string ("/d/f: open failed: ")
                                                        + g_strerror (code) + "; "));
      EXPECT_THAT (error->message, HasSubstr (remedy));
    }
}

/* The files are large, so that their space is released in steps. */
TEST_P (DiskTest, ADiscardedFileIsGoneAndItsOtherNameIsWhole)
{
  constexpr gint64 kBytes = (40 << 20) + TPS_DISK_BLOCK;

  for (const char *name : { "alone", "linked" })
    {
      TpsDiskFile *file = disk_->open (disk_, path (name).c_str (), TPS_DISK_CREATE, &error_);

      ASSERT_NE (file, nullptr) << error_->message;
      ASSERT_TRUE (disk_->preallocate (file, kBytes, &error_)) << error_->message;
      disk_->close (file);
    }
  std::filesystem::create_hard_link (path ("linked"), path ("other"));
  EXPECT_TRUE (tps_disk_discard (disk_, path ("alone").c_str (), &error_));
  EXPECT_TRUE (tps_disk_discard (disk_, path ("linked").c_str (), &error_));
  EXPECT_FALSE (std::filesystem::exists (path ("alone")));
  EXPECT_FALSE (std::filesystem::exists (path ("linked")));
  EXPECT_EQ (std::filesystem::file_size (path ("other")), kBytes);
  EXPECT_FALSE (tps_disk_discard (disk_, path ("alone").c_str (), &error_));
  EXPECT_EQ (error_->code, TPS_ERROR_NOT_FOUND);
}

/* Opening a FIFO without a reader would block for ever. The target of a link is not touched. */
TEST_P (DiskTest, OnlyRegularFilesAreCut)
{
  std::ofstream (path ("file")) << "text";
  ASSERT_EQ (mkfifo (path ("fifo").c_str (), 0600), 0);
  std::filesystem::create_symlink (path ("file"), path ("link"));
  for (const char *name : { "fifo", "link" })
    {
      EXPECT_TRUE (tps_disk_discard (disk_, path (name).c_str (), &error_)) << name;
      EXPECT_FALSE (std::filesystem::exists (std::filesystem::symlink_status (path (name))));
    }
  EXPECT_EQ (std::filesystem::file_size (path ("file")), 4u);
}

/* With both threads of the log, every append must end once and in order, and its record must be
 * found again. */
TEST_P (DiskTest, TheLogWithItsThreads)
{
  constexpr gint64 kCommands = 400;
  TpsLogOptions options { .segment_bytes = 1 << 20,
                          .max_staged_bytes = 512 << 10,
                          .interval_ns = 2000000 };
  TpsLogFound found {};
  std::vector<std::unique_ptr<RandomCommand>> commands;
  Ends commits, others;
  size_t n_commits = 0;
  TpsLog *log = tps_log_open (disk_, path ("log").c_str (), &options, &found, &error_);

  ASSERT_NE (log, nullptr) << error_->message;
  tps_log_found_clear (&found);
  std::thread follower ([log] {
    g_autoptr (TpsLogCursor) cursor = tps_log_cursor_new (log, 1, nullptr);
    gint64 expected = 1;

    while (expected <= kCommands)
      {
        for (gint64 lsn : read_lsns (cursor))
          ASSERT_EQ (std::abs (lsn), expected++);
        std::this_thread::yield ();
      }
  });
  for (gint64 lsn = 1; lsn <= kCommands; lsn++)
    {
      TpsDurability durability = static_cast<TpsDurability> (1 + lsn % 3);
      bool is_commit = durability == TPS_DURABILITY_COMMIT;

      commands.push_back (std::make_unique<RandomCommand> (1, lsn, kAllKinds[lsn % 7],
                                                           lsn % 50 == 0 ? 600000 : 20000));
      n_commits += is_commit;
      tps_log_append (log, &commands.back ()->record, durability, Ends::done,
                      is_commit ? &commits : &others);
    }
  commits.wait_for (n_commits);
  tps_log_flush (log, Ends::done, &others);
  others.wait_for (kCommands - n_commits + 1);
  EXPECT_TRUE (std::is_sorted (commits.lsns.begin (), commits.lsns.end ()));
  EXPECT_GT (commits.lsns.front (), 0);
  EXPECT_EQ (tps_log_get_durable_lsn (log), kCommands);
  follower.join ();
  tps_log_free (log);

  log = tps_log_open (disk_, path ("log").c_str (), &options, &found, &error_);
  ASSERT_NE (log, nullptr) << error_->message;
  EXPECT_EQ (found.last_lsn, kCommands);
  EXPECT_EQ (found.n_torn_bytes, 0);
  tps_log_found_clear (&found);
  g_autoptr (TpsLogCursor) cursor = tps_log_cursor_new (log, 1, &error_);
  TpsLogRecord record;
  for (auto &command : commands)
    {
      ASSERT_TRUE (tps_log_cursor_next (cursor, &record, &error_)) << error_->message;
      bool is_whole = record.command == nullptr
                      || encode (record.command) == encode (&command->record);
      EXPECT_TRUE (is_whole) << "LSN " << record.lsn;
    }
  g_clear_pointer (&cursor, tps_log_cursor_free);
  tps_log_free (log);
}

INSTANTIATE_TEST_SUITE_P (Disks, DiskTest, testing::Values ("posix", "faulty"),
                          [] (const auto &tested) { return std::string (tested.param); });

} // namespace
} // namespace thriftps
