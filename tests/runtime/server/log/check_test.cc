/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The check and the truncation of a log without a server, and the program that performs them. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/server/log/log_check.h"
#include "tests/runtime/server/log/log_fixture.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace thriftps {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr TpsLogOptions kOptions { .segment_bytes = 64 << 10, .max_staged_bytes = 32 << 10 };

/* Writes a log of `n` commands in groups of 4. */
void
write_log (TpsDisk *disk, const char *path, gint64 n)
{
  std::vector<std::unique_ptr<RandomCommand>> commands;
  TpsLog *log = tps_log_open_stepped (disk, path, &kOptions, nullptr, nullptr);
  Ends ends;

  ASSERT_NE (log, nullptr);
  for (gint64 lsn = 1; lsn <= n; lsn++)
    {
      commands.push_back (std::make_unique<RandomCommand> (1, lsn, kAllKinds[lsn % 7], 1000));
      commands.back ()->record.moment = { 1, 1000 * lsn };
      tps_log_append (log, &commands.back ()->record, TPS_DURABILITY_COMMIT, Ends::done, &ends);
      if (lsn % 4 == 0)
        take_all_steps (log);
    }
  tps_log_free (log);
}

gint64
check (TpsDisk *disk)
{
  g_auto (TpsLogReport) report {};
  g_autoptr (GError) error = nullptr;

  if (!tps_log_check (disk, "log", nullptr, nullptr, &report, &error))
    return -report.last_lsn;
  return report.last_lsn;
}

TEST (LogCheck, AnyRecordMayBecomeTheLastOne)
{
  for (gint64 last = 30; last >= 0; last -= 3)
    {
      SimulatedDisk disk (1);
      g_autoptr (GError) error = nullptr;

      write_log (disk.get (), "log", 30);
      ASSERT_EQ (check (disk.get ()), 30);
      ASSERT_TRUE (tps_log_truncate (disk.get (), "log", last, &error)) << error->message;
      EXPECT_EQ (check (disk.get ()), last);
      /* A server must be able to continue from there. */
      TpsLogFound found {};
      TpsLog *log = tps_log_open_stepped (disk.get (), "log", &kOptions, &found, &error);
      ASSERT_NE (log, nullptr) << error->message;
      EXPECT_EQ (found.last_lsn, last);
      EXPECT_EQ (found.n_torn_bytes, 0);
      tps_log_found_clear (&found);
      tps_log_free (log);
    }
}

TEST (LogCheck, DamageEndsTheIntactPartAndCanBeCutOff)
{
  for (size_t at = 4096; at < 40000; at += 1777)
    {
      SimulatedDisk disk (1);
      g_autoptr (GError) error = nullptr;

      write_log (disk.get (), "log", 40);
      std::string &segment = disk.get_file ("log/00000000000000000001.log");
      if (at >= segment.size ())
        break;
      segment[at] ^= 4;
      gint64 whole = check (disk.get ());
      if (whole == 40) /* the changed byte is padding */
        continue;
      ASSERT_LE (whole, 0);
      ASSERT_TRUE (tps_log_truncate (disk.get (), "log", -whole, &error)) << error->message;
      EXPECT_EQ (check (disk.get ()), -whole);
    }
}

/* Writes a log with these moments, each in a segment of its own. Returns the error of a check. */
std::string
check_moments (std::vector<TpsMoment> moments)
{
  SimulatedDisk disk (1);
  g_auto (TpsLogReport) report {};
  g_autoptr (GError) error = nullptr;
  gint64 lsn = 0;

  for (const TpsMoment &moment : moments)
    {
      RandomCommand command (1, ++lsn, TPS_COMMAND_DROP_TABLE, 0);
      TpsLog *log = tps_log_open_stepped (disk.get (), "log", &kOptions, nullptr, nullptr);
      Ends ends;

      command.record.moment = moment;
      tps_log_append (log, &command.record, TPS_DURABILITY_COMMIT, Ends::done, &ends);
      tps_log_free (log);
    }
  if (!tps_log_check (disk.get (), "log", nullptr, nullptr, &report, &error))
    return error->message;
  EXPECT_EQ (report.moment.epoch, moments.back ().epoch);
  EXPECT_EQ (report.moment.time_ms, moments.back ().time_ms);
  return "";
}

TEST (LogCheck, EpochsAndTimesMustNotDecrease)
{
  EXPECT_EQ (check_moments ({ { 1, 5 }, { 1, 5 }, { 1, 6 }, { 3, 6 }, { 3, 9 } }), "");
  EXPECT_EQ (check_moments ({ { 0, 5 }, { 0, 0 }, { 0, 3 }, { 1, 2 } }), "")
      << "earlier versions wrote no epoch, and any time";
  EXPECT_EQ (
      check_moments ({ { 1, 5 }, { 2, 6 }, { 1, 7 } }),
      "00000000000000000003.log at 4160: the record of LSN 3 has epoch 1 and time 7, but the "
      "record before has epoch 2 and time 6");
  EXPECT_THAT (check_moments ({ { 1, 5 }, { 0, 7 } }), HasSubstr ("LSN 2 has epoch 0"));
  EXPECT_THAT (check_moments ({ { 1, 5 }, { 1, 4 } }), HasSubstr ("LSN 2 has epoch 1 and time 4"));
  EXPECT_THAT (check_moments ({ { 1, 5 }, { 2, 4 } }), HasSubstr ("LSN 2 has epoch 2 and time 4"));
}

class LogProgram : public testing::Test
{
protected:
  void
  SetUp () override
  {
    std::string pattern = std::string (g_getenv ("TEST_TMPDIR")) + "/toolXXXXXX";
    g_autoptr (TpsDisk) disk = tps_disk_new_posix ();

    ASSERT_NE (g_mkdtemp (pattern.data ()), nullptr);
    folder_ = pattern;
    write_log (disk, (folder_ + "/log").c_str (), 10);
  }

  void
  TearDown () override
  {
    std::filesystem::remove_all (folder_);
  }

  /* Returns the exit status. Stores the output in `out` and `err`. */
  int
  run (const std::string &arguments)
  {
    std::string line = "plugin/app/thriftps_log " + arguments;
    g_autofree gchar *out_text = nullptr;
    g_autofree gchar *err_text = nullptr;
    gint status = -1;

    EXPECT_TRUE (g_spawn_command_line_sync (line.c_str (), &out_text, &err_text, &status, nullptr));
    out = out_text;
    err = err_text;
    return WEXITSTATUS (status);
  }

  std::string folder_, out, err;
};

TEST_F (LogProgram, VerifiesDumpsAndTruncates)
{
  EXPECT_EQ (run ("verify " + folder_), 0) << err;
  EXPECT_THAT (out, ContainsRegex ("LSN 1 to 10: intact, [0-9]+ bytes, epoch 1\n"));
  EXPECT_EQ (run ("dump " + folder_ + "/log --from=3 --to=4"), 0) << err;
  EXPECT_EQ (std::count (out.begin (), out.end (), '\n'), 2);
  EXPECT_THAT (out, HasSubstr ("3 apply_bags ")); /* kAllKinds[3] */
  EXPECT_THAT (out, HasSubstr (" epoch=1 time_ms=3000"));

  EXPECT_EQ (run ("truncate " + folder_ + " --last-lsn=5"), 0);
  EXPECT_THAT (out, HasSubstr ("add --force"));
  EXPECT_EQ (run ("truncate " + folder_ + " --last-lsn=5 --force"), 0) << err;
  EXPECT_EQ (run ("verify " + folder_), 0);
  EXPECT_THAT (out, HasSubstr ("LSN 1 to 5: intact"));
}

TEST_F (LogProgram, NamesTheDamagedRecordAndItsPlace)
{
  std::fstream segment (folder_ + "/log/00000000000000000001.log",
                        std::ios::in | std::ios::out | std::ios::binary);

  segment.seekp (4096 + 64 + 64 + 1);
  segment.put ('\x55');
  segment.close ();
  EXPECT_EQ (run ("verify " + folder_), 1);
  EXPECT_THAT (
      err,
      HasSubstr ("thriftps_log: 00000000000000000001.log at 4160: the record of LSN 1 is damaged"));
}

TEST_F (LogProgram, RefusesBadArguments)
{
  EXPECT_EQ (run ("--help"), 0);
  EXPECT_THAT (out, HasSubstr ("--last-lsn"));
  EXPECT_EQ (run (""), 2);
  EXPECT_EQ (run ("verify"), 2);
  EXPECT_EQ (run ("mend " + folder_), 2);
  EXPECT_EQ (run ("verify " + folder_ + " --lsn=3"), 2);
  EXPECT_EQ (run ("truncate " + folder_), 2);
  EXPECT_EQ (run ("verify /nowhere"), 1);
  EXPECT_THAT (err, HasSubstr ("/nowhere"));
}

} // namespace
} // namespace thriftps
