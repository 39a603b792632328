/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The epoch of a data directory, and the times of its records. */

#include <gmock/gmock.h>

#include "runtime/base/crc32c.h"
#include "runtime/server/log/log_check.h"
#include "tests/runtime/server/durable/durable_fixture.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace thriftps {
namespace {

using testing::AllOf;
using testing::HasSubstr;

gint64 clock_ms;

TpsDurableOptions
with_clock ()
{
  TpsDurableOptions options = {};

  options.get_time_ms = [] { return clock_ms; };
  return options;
}

gboolean
note_record (gpointer times, const TpsLogRecord *record, const TpsLogReport *)
{
  static_cast<std::vector<gint64> *> (times)->push_back (record->moment.time_ms);
  EXPECT_EQ (record->moment.epoch, 1u) << record->lsn;
  return TRUE;
}

/* Returns the times of all records, of epoch 1. */
std::vector<gint64>
read_times (SimulatedDisk &disk, const std::string &folder)
{
  g_auto (TpsLogReport) report {};
  std::vector<gint64> times;

  EXPECT_TRUE (tps_log_check (disk.get (), (folder + "/log").c_str (), note_record, &times, &report,
                              nullptr));
  return times;
}

/* Starts a server at each of these times, which sends a push. */
void
push_at (SimulatedDisk &disk, const std::string &folder, std::vector<gint64> times,
         bool with_snapshot = false, const char *copy = nullptr, const char *table = "emb")
{
  for (gint64 time_ms : times)
    {
      TpsDurableOptions options = with_clock ();
      Pushes pushes (table);

      clock_ms = time_ms;
      options.restore_from = copy;
      Server server (disk.get (), folder, TPS_DURABILITY_COMMIT, options);
      ASSERT_EQ (server.recover (), "");
      EXPECT_EQ (server.create ("none", TPS_DURABILITY_NONE), 0);
      EXPECT_EQ (server.create ("emb"), 0);
      pushes.send (server);
      pushes.wait ();
      if (with_snapshot)
        {
          EXPECT_EQ (Snapshot (server).message, "");
        }
    }
}

/* FORMAT with other lines, and their checksum. */
void
write_format (SimulatedDisk &disk, const std::string &lines)
{
  gchar crc[9];

  g_snprintf (crc, sizeof crc, "%08x", tps_crc32c (0, lines.data (), lines.size ()));
  disk.get_file ("data/FORMAT") = lines + "crc32c " + crc + "\n";
}

} // namespace

TEST (Moments, timesOfRecordsAreThoseOfTheClockAndNeverGoBack)
{
  SimulatedDisk disk (1);

  push_at (disk, "data", { 1000, 2000, 1500 });
  EXPECT_EQ (read_times (disk, "data"), (std::vector<gint64> { 1000, 1000, 1000, 2000, 2000 }));
  push_at (disk, "data", { 1700 }, false, nullptr, "none"); /* a hole */
  EXPECT_EQ (read_times (disk, "data").back (), 2000);
}

TEST (Moments, aSnapshotHasThemToo)
{
  SimulatedDisk disk (1);
  TpsSnapshotInfo info;
  g_autofree gchar *folder = nullptr;

  push_at (disk, "data", { 1000 }, true);
  folder = tps_snapshot_locate (disk.get (), "data", &info, nullptr);
  EXPECT_EQ (info.moment.time_ms, 1000);
  EXPECT_EQ (info.moment.epoch, 1u);
  EXPECT_THAT (disk.get_file ("data/FORMAT"),
               HasSubstr (std::string (info.history) + "\nepoch 1\n"));
  push_at (disk, "data", { 700 });
  EXPECT_EQ (read_times (disk, "data").back (), 1000);
  push_at (disk, "copy", { 800 }, false, "data");
  EXPECT_EQ (read_times (disk, "copy").back (), 1000) << "rows of the copy are of 1000";
}

TEST (Moments, aDirectoryWithoutAnEpochHasTheFirst)
{
  SimulatedDisk disk (1);

  push_at (disk, "data", { 1000 });
  std::string format = disk.get_file ("data/FORMAT");
  std::string history = format.substr (0, format.find ("epoch "));

  write_format (disk, history + "lsn 1\nsnapshot 0\n");
  push_at (disk, "data", { 2000 });
  EXPECT_EQ (read_times (disk, "data").size (), 4u);
  EXPECT_THAT (disk.get_file ("data/FORMAT"), HasSubstr ("\nepoch 1\nlsn 4\n"));

  write_format (disk, history + "epoch 0\nlsn 4\nsnapshot 0\n");
  Server server (disk.get (), "data", TPS_DURABILITY_COMMIT);
  EXPECT_THAT (server.recover (), HasSubstr ("FORMAT is damaged"));
}

/* As after a restore of FORMAT alone, from an older copy. */
TEST (Moments, aDirectoryWithALowerEpochThanItsPartsIsRefused)
{
  for (bool has_snapshot : { false, true })
    {
      SimulatedDisk disk (1);

      push_at (disk, "data", { 1000 });
      std::string format = disk.get_file ("data/FORMAT");
      std::string later = format.substr (0, format.find ("crc32c "));

      write_format (disk, later.replace (later.find ("epoch 1"), 7, "epoch 3"));
      {
        Server server (disk.get (), "data", TPS_DURABILITY_COMMIT, with_clock ());
        Pushes pushes ("emb");
        ASSERT_EQ (server.recover (), "");
        pushes.send (server);
        pushes.wait ();
        if (has_snapshot)
          {
            EXPECT_EQ (Snapshot (server).message, "");
          }
      }
      disk.get_file ("data/FORMAT") = format;
      Server server (disk.get (), "data", TPS_DURABILITY_COMMIT);
      EXPECT_THAT (server.recover (),
                   AllOf (HasSubstr (has_snapshot ? "this snapshot has epoch 3"
                                                  : "command 4 of the log: it "
                                                    "has epoch 3"),
                          HasSubstr ("the data directory only 1"), HasSubstr ("from a copy")));
    }
}

} // namespace thriftps
