/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests folders that a server must not or cannot use, such as those with missing or foreign parts.
 * The server must report the reason and exit. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "plugin/wire/wire_durability.h"
#include "runtime/base/crc32c.h"
#include "tests/integration/durable/countable.h"

namespace thriftps_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace fs = std::filesystem;

/* Returns the error message of a server that cannot start. */
std::string
refusal (const std::string &folder, const std::vector<std::string> &flags = {}, int status = 1)
{
  DataServer server (folder, flags);

  if (server.start ())
    return "it serves";
  EXPECT_EQ (server.process ().Wait (), status);
  return server.process ().ReadErrors ();
}

void
write_file (const std::string &path, const std::string &text)
{
  std::ofstream (path) << text;
}

} // namespace

TEST (DataFolder, isMadeAndUsedAgain)
{
  const std::string folder = new_folder () + "/a/b";

  for (int i = 0; i < 3; i++)
    {
      DataServer server (folder);

      ASSERT_TRUE (server.serve ());
      EXPECT_EQ (server.stop (), 0);
    }
}

TEST (DataFolder, isOfOneProcess)
{
  const std::string folder = new_folder ();
  DataServer first (folder);

  ASSERT_TRUE (first.serve ());
  EXPECT_THAT (refusal (folder), HasSubstr (folder));
  EXPECT_THAT (refusal (folder), HasSubstr ("another process"));
  fs::remove (folder + "/LOCK");
  fs::remove (folder + "/log/LOCK");
  EXPECT_THAT (refusal (folder), HasSubstr ("another process")) << "the lock files were deleted";
  EXPECT_THAT (refusal (folder), HasSubstr ("another process")) << "there are new lock files";
  first.kill ();
  ASSERT_TRUE (first.serve ()) << "the lock of a process that was killed is gone";
}

TEST (DataFolder, ofSomethingElseIsRefused)
{
  const std::string folder = new_folder ();

  write_file (folder + "/thesis.tex", "\\begin{document}");
  EXPECT_THAT (refusal (folder), HasSubstr ("does not belong to a server"));
}

TEST (DataFolder, ofAnotherVersionIsRefused)
{
  const std::string folder = new_folder ();

  write_file (folder + "/FORMAT", "thriftps data 7\n");
  EXPECT_THAT (refusal (folder), HasSubstr ("thriftps data 7"));
}

TEST (DataFolder, withADamagedMarkerIsRefused)
{
  const std::string folder = new_folder (), format = folder + "/FORMAT";
  std::string text;
  {
    DataServer server (folder);
    ASSERT_TRUE (server.serve ());
  }
  std::getline (std::ifstream (format), text, '\0');
  for (const char *part : { "history ", "epoch ", "lsn ", "snapshot ", "crc32c " })
    {
      std::string damaged = text;

      damaged[text.find (part) + strlen (part)] ^= 1;
      write_file (format, damaged);
      EXPECT_THAT (refusal (folder),
                   AllOf (HasSubstr ("FORMAT is damaged"), HasSubstr ("--restore-from")))
          << damaged;
    }
  for (const std::string &other : { text + "\n", text.substr (0, text.size () - 1) })
    {
      write_file (format, other);
      EXPECT_THAT (refusal (folder), HasSubstr ("FORMAT is damaged"));
    }
}

TEST (DataFolder, withALinkThatLeadsNowhereIsRefused)
{
  for (const char *part : { "/FORMAT", "/log/LOG", "/log/00000000000000000001.log" })
    {
      const std::string folder = new_folder ();
      {
        DataServer server (folder);
        ASSERT_TRUE (server.serve ());
        EXPECT_EQ (server.stop (), 0);
      }
      fs::remove (folder + part);
      fs::create_symlink ("/nowhere/at/all", folder + part);
      EXPECT_THAT (refusal (folder), AllOf (HasSubstr (folder + part), HasSubstr ("from a copy")));
    }
}

TEST (DataFolder, thatCannotBeWrittenIsRefused)
{
  const std::string path = new_folder () + "/file";

  EXPECT_THAT (refusal ("/proc/self/data", {}, 2), HasSubstr ("/proc/self/data"));
  write_file (path, "");
  EXPECT_THAT (refusal (path), HasSubstr (path));
}

/* A restored or foreign directory may contain names that lead elsewhere. */
TEST (DataFolder, withALockThatIsALinkIsRefused)
{
  for (const char *name : { "LOCK", "log/LOCK" })
    for (bool is_hard : { false, true })
      {
        const std::string folder = new_folder ();
        const std::string marker = folder + "/log/LOG";
        DataServer server (folder);

        ASSERT_TRUE (server.serve ());
        ASSERT_EQ (server.stop (), 0);
        auto size = fs::file_size (marker);
        fs::remove (folder + "/" + name);
        is_hard ? fs::create_hard_link (marker, folder + "/" + name)
                : fs::create_symlink (marker, folder + "/" + name);
        EXPECT_THAT (refusal (folder), HasSubstr (std::string (name) + ": a lock must be"));
        EXPECT_EQ (fs::file_size (marker), size);
      }
}

/* Opening a FIFO without a reader would block for ever. */
TEST (DataFolder, withAFifoIsCompleted)
{
  const std::string folder = new_folder ();
  DataServer server (folder);

  ASSERT_EQ (mkfifo ((folder + "/FORMAT.new").c_str (), 0600), 0);
  ASSERT_TRUE (server.serve ());
}

/* An earlier process was killed while it created the directory. */
TEST (DataFolder, thatIsIncompleteIsCompleted)
{
  const std::string folder = new_folder ();
  DataServer server (folder);

  write_file (folder + "/LOCK", "");
  write_file (folder + "/FORMAT.new", "thri");
  ASSERT_TRUE (server.serve ());
}

TEST (DataFolder, aLogThatCannotBeAppliedEndsTheServer)
{
  const std::string folder = new_folder ();
  DataServer server (folder);
  TpsTableSpec spec;

  ASSERT_TRUE (server.serve ());
  tps_table_spec_init (&spec, "emb", 1 << 17, 8);
  RawClient connection (server.address ());
  EXPECT_EQ (ErrorCode (create_table (connection, spec)), 0);
  tps_table_spec_clear (&spec);
  EXPECT_EQ (server.stop (), 0);

  DataServer smaller (folder, { "--max-table-mib=1" });
  smaller.start ();
  EXPECT_EQ (smaller.process ().Wait (), 1);
  EXPECT_THAT (smaller.process ().ReadErrors (), HasSubstr ("command 1 of the log"));
}

/* ---- missing and foreign parts --------------------------------------------------------------- */

namespace {

std::string
segment (int number)
{
  return "/log/0000000000000000000" + std::to_string (number) + ".log";
}

/* Makes a directory with three segments, since each start begins a segment. Start i counts in row
 * i. The last server is killed if `is_killed` is true. */
std::string
make_parts (bool has_snapshot = false, bool is_killed = false)
{
  const std::string folder = new_folder () + "/data";
  DataServer server (folder);

  for (int i = 0; i < 3; i++)
    {
      EXPECT_TRUE (server.serve ());
      RawClient connection (server.address ());
      if (i == 0)
        create_counts (connection, 4);
      EXPECT_EQ (count (connection, { i }), 0);
      if (i == 1 && has_snapshot)
        {
          EXPECT_EQ (ErrorCode (take_snapshot (connection)), 0);
        }
      if (i == 2 && is_killed)
        server.kill ();
      else
        EXPECT_EQ (server.stop (), 0);
    }
  return folder;
}

std::vector<int>
counts_of (const std::string &folder, const std::vector<std::string> &flags = {})
{
  DataServer server (folder, flags);

  EXPECT_TRUE (server.serve ());
  RawClient connection (server.address ());
  return read_counts (connection, 4);
}

void
remove_segments (const std::string &folder)
{
  for (int number = 1; number <= 3; number++)
    fs::remove (folder + segment (number));
}

void
replace (const std::string &part, const std::string &other)
{
  fs::remove_all (part);
  fs::copy (other, part, fs::copy_options::recursive);
}

} // namespace

TEST (DataFolder, withoutItsLogIsRefused)
{
  for (bool has_snapshot : { false, true })
    {
      const std::string folder = make_parts (has_snapshot);
      const std::string aside = new_folder ();

      fs::rename (folder + "/log", aside + "/log");
      EXPECT_THAT (refusal (folder), AllOf (HasSubstr (folder + "/log"), HasSubstr ("missing"),
                                            HasSubstr ("--restore-from")));
      fs::rename (folder + "/FORMAT", aside + "/FORMAT");
      if (has_snapshot)
        {
          EXPECT_THAT (refusal (folder), HasSubstr ("not empty and has no file FORMAT"));
        }
      fs::rename (aside + "/FORMAT", folder + "/FORMAT");
      fs::remove_all (folder + "/log");
      fs::rename (aside + "/log", folder + "/log");
      EXPECT_THAT (counts_of (folder), ElementsAre (1, 1, 1, 0)) << "nothing was changed";
    }
}

/* The marker of a new directory has LSN 0, and must not permit a missing log beside a snapshot. */
TEST (DataFolder, withASnapshotButWithoutItsLogIsRefused)
{
  const std::string folder = make_parts (true), format = folder + "/FORMAT";
  std::string text;

  fs::remove_all (folder + "/log");
  std::getline (std::ifstream (format), text, '\0');
  text = text.substr (0, text.find ("lsn ")) + "lsn 0\nsnapshot 0\n";
  g_autofree gchar *crc = g_strdup_printf ("crc32c %08x\n",
                                           tps_crc32c (0, text.data (), text.size ()));
  write_file (format, text + crc);
  EXPECT_THAT (refusal (folder), AllOf (HasSubstr (folder + "/log"), HasSubstr ("missing")));
}

TEST (DataFolder, withoutAnySegmentIsRefused)
{
  for (bool has_snapshot : { false, true })
    for (bool is_killed : { false, true })
      {
        const std::string folder = make_parts (has_snapshot, is_killed);

        remove_segments (folder);
        EXPECT_THAT (refusal (folder), AllOf (HasSubstr (folder), HasSubstr ("had reached LSN 4"),
                                              HasSubstr ("thriftps_log truncate")));
      }
}

TEST (DataFolder, withoutOneOfItsSegmentsIsRefused)
{
  const char *reasons[] = { "commands are needed from LSN 1 on",
                            "00000000000000000002.log is missing", "had reached LSN 4" };

  for (bool is_killed : { false, true })
    for (int number = 1; number <= 3; number++)
      {
        const std::string folder = make_parts (false, is_killed);

        fs::remove (folder + segment (number));
        EXPECT_THAT (refusal (folder), AllOf (HasSubstr (folder), HasSubstr (reasons[number - 1]),
                                              HasSubstr ("from a copy")))
            << is_killed;
      }
}

TEST (DataFolder, withALogFromAnotherTimeIsRefused)
{
  const std::string folder = make_parts (), aside = new_folder ();

  fs::copy (folder + "/log", aside + "/log", fs::copy_options::recursive);
  {
    DataServer server (folder);

    ASSERT_TRUE (server.serve ());
    RawClient connection (server.address ());
    EXPECT_EQ (count (connection, { 3 }), 0);
    server.kill ();
  }
  replace (folder + "/log", aside + "/log");
  EXPECT_THAT (refusal (folder),
               AllOf (HasSubstr ("ends with LSN 4"), HasSubstr ("had reached LSN 5")));
}

TEST (DataFolder, withPartsOfAnotherServerIsRefused)
{
  const std::string other = make_parts (), log = make_parts (), snapshots = make_parts (true);

  for (int number = 1; number <= 3; number++)
    {
      const std::string folder = make_parts ();

      replace (folder + segment (number), other + segment (number));
      EXPECT_THAT (refusal (folder),
                   AllOf (HasSubstr (segment (number).substr (5)),
                          HasSubstr ("belongs to another log"), HasSubstr ("from a copy")));
    }
  replace (log + "/log", other + "/log");
  EXPECT_THAT (refusal (log), AllOf (HasSubstr (log + "/log"), HasSubstr ("another server")));
  replace (snapshots + "/snapshots", make_parts (true) + "/snapshots");
  EXPECT_THAT (refusal (snapshots),
               AllOf (HasSubstr (snapshots + "/snapshots/snapshot-"), HasSubstr ("another server"),
                      HasSubstr ("--restore-from")));
}

/* Such a snapshot must not make the server delete its own snapshots and its log. */
TEST (DataFolder, withAForeignSnapshotWritesNoSnapshot)
{
  const std::string other = make_parts (true) + "/snapshots/snapshot-00000000000000000003";

  for (const std::string name :
       { "snapshot-00000000000000000003", "snapshot-00000000000000000009" })
    {
      const std::string folder = new_folder (), path = folder + "/snapshots/" + name;
      {
        DataServer server (folder, { "--keep-snapshots=1" });
        ASSERT_TRUE (server.serve ());
        RawClient connection (server.address ());
        create_counts (connection, 4);
        EXPECT_EQ (ErrorText (take_snapshot (connection)), "");
        fs::copy (other, path, fs::copy_options::recursive);
        for (int i = 0; i < 4; i++)
          {
            EXPECT_EQ (count (connection, { i }), 0);
            EXPECT_THAT (ErrorText (take_snapshot (connection)),
                         AllOf (HasSubstr (path), HasSubstr ("another server")));
          }
        EXPECT_EQ (server.stop (), 0);
      }
      EXPECT_THAT (refusal (folder), AllOf (HasSubstr (path), HasSubstr ("another server")));
      fs::remove_all (path);
      EXPECT_TRUE (fs::exists (folder + "/snapshots/snapshot-00000000000000000001"));
      EXPECT_THAT (counts_of (folder), ElementsAre (1, 1, 1, 1));
    }
}

TEST (DataFolder, withAMisnamedSnapshotIsRefused)
{
  const std::string folder = make_parts (true), snapshots = folder + "/snapshots/snapshot-";
  const std::string right = snapshots + "00000000000000000003";

  for (const std::string wrong : { "00000000000000000002", "00000000000000009000" })
    {
      fs::rename (right, snapshots + wrong);
      EXPECT_THAT (refusal (folder),
                   AllOf (HasSubstr (snapshots + wrong),
                          HasSubstr ("snapshot-00000000000000000003"), HasSubstr ("rename it")));
      fs::rename (snapshots + wrong, right);
      EXPECT_THAT (counts_of (folder), ElementsAre (1, 1, 1, 0));
      fs::copy (right, snapshots + wrong, fs::copy_options::recursive);
      EXPECT_THAT (refusal (folder), HasSubstr (snapshots + wrong)) << "the right one exists too";
      fs::remove_all (snapshots + wrong);
    }
}

/* The log has holes instead of the rows of imported tables. */
TEST (DataFolder, withoutTheSnapshotOfAnImportIsRefused)
{
  const std::string folder = new_folder (), from = make_parts (true);
  DataServer server (folder, { "--import-dir=" + from });
  gchar *snapshots[] = { const_cast<gchar *> ("snapshots"), nullptr };
  TpsRestoreArguments arguments = { snapshots, {} };

  ASSERT_TRUE (server.serve ());
  EXPECT_EQ (ErrorCode (RawClient (server.address ())
                            .Call ("Durability:restore", fields_of<tps_restore_rpc> (&arguments))),
             0);
  EXPECT_EQ (server.stop (), 0);
  fs::remove_all (folder + "/snapshots");
  EXPECT_THAT (refusal (folder), AllOf (HasSubstr (folder), HasSubstr ("snapshot"),
                                        HasSubstr ("is missing"), HasSubstr ("from a copy")));
}

/* The ways in which OPERATING.md permits to move and remove parts. */
TEST (DataFolder, thatWasMovedOrCutOnPurposeIsUsed)
{
  const std::string folder = make_parts (true), aside = new_folder ();

  replace (aside + "/whole", folder);
  EXPECT_THAT (counts_of (aside + "/whole"), ElementsAre (1, 1, 1, 0)) << "a copy";
  EXPECT_THAT (counts_of (aside + "/new", { "--restore-from=" + folder + "/snapshots" }),
               ElementsAre (1, 1, 0, 0));
  EXPECT_THAT (counts_of (aside + "/new"), ElementsAre (1, 1, 0, 0)) << "it has its own snapshot";
  fs::remove (folder + segment (3));
  EXPECT_THAT (refusal (folder), HasSubstr ("had reached LSN 4"));
  ServerProcess truncate ({ "truncate", folder, "--last-lsn=3", "--force" },
                          "plugin/app/thriftps_log");
  EXPECT_EQ (truncate.Wait (), 0) << truncate.ReadErrors ();
  EXPECT_THAT (counts_of (folder), ElementsAre (1, 1, 0, 0)) << "the loss was accepted";
}

TEST (DataFolder, isStillProtectedAfterATruncationThatFailed)
{
  const std::string folder = make_parts ();

  fs::remove (folder + segment (1));
  ServerProcess truncate ({ "truncate", folder, "--last-lsn=1", "--force" },
                          "plugin/app/thriftps_log");
  EXPECT_THAT (truncate.ReadErrors (), HasSubstr ("there is no record of LSN 1"));
  EXPECT_EQ (truncate.Wait (), 1);
  remove_segments (folder);
  EXPECT_THAT (refusal (folder), HasSubstr ("had reached LSN 4"));
}

} // namespace thriftps_test
