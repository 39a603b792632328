/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Folders of snapshots: kept snapshots, refused snapshots, and errors that name the file. */

#include "runtime/base/crc32c.h"
#include "tests/runtime/server/snapshot/snapshot_fixture.h"

using namespace snapshot_test;

namespace {

class Folders : public testing::Test
{
protected:
  Folders ()
  {
    Spec spec = Spec ("emb", 100, 4).optimizer (TPS_OPTIMIZER_ADAGRAD, 0.1);

    EXPECT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
    options = options_of (disk.get (), server);
  }

  void
  push ()
  {
    server.probe ("emb", { 1, 2, 3 }, 4);
  }

  /* Returns the error of a restoration into a new store, or "". */
  std::string
  restored ()
  {
    Server other (0, true);
    TpsSnapshotInfo found;

    return restore (options_of (disk.get (), other), &found);
  }

  std::string &
  file (const std::string &name)
  {
    return disk.get_file (std::string ("snapshots/") + info.name + "/" + name);
  }

  SimulatedDisk disk;
  Server server { 0, true };
  TpsSnapshotOptions options;
  TpsSnapshotInfo info;
};

/* Without a free file descriptor, the disk cannot tell whether a snapshot is complete. Such a
 * snapshot must not be deleted: the log before it may be gone. */
TEST_F (Folders, KeepSnapshotsWhoseManifestCannotBeOpened)
{
  ASSERT_EQ (write (options, &info), "");
  const std::string manifest = std::string ("snapshots/") + info.name + "/manifest.json";
  const std::string expected = "INTERNAL " + manifest + ": open failed: Too many open files";
  const std::vector<std::string> paths = disk.get_paths ();
  push ();
  disk.set_unreadable (manifest);
  EXPECT_EQ (write (options, &info), expected);
  EXPECT_EQ (disk.get_paths (), paths);
  EXPECT_EQ (restored (), expected);
  disk.set_unreadable ("");
  EXPECT_EQ (restored (), "");
}

/* NFS and FUSE keep a deleted file under such a name if the power fails before the file is closed.
 * With this file, the folder of the snapshot would never become empty. */
TEST_F (Folders, LoseDeletedFilesThatAFileSystemKeeps)
{
  TpsDisk *base = disk.get ();
  const char *path = "snapshots/snapshot-00000000000000000001/.fuse_hidden0000000100000001";

  ASSERT_TRUE (base->make_folder (base, "snapshots/snapshot-00000000000000000001", nullptr));
  TpsDiskFile *file = base->open (base, path, TPS_DISK_CREATE, nullptr);
  ASSERT_NE (file, nullptr);
  base->close (file);
  push ();
  EXPECT_EQ (write (options, &info), "");
  EXPECT_THAT (disk.get_paths (), testing::Not (testing::Contains (path)));
}

/* Such a snapshot is of a copy of the data directory that has continued for longer. */
TEST_F (Folders, DeleteNothingBesideANewerSnapshot)
{
  Server other (0, true);
  TpsSnapshotOptions others = options_of (disk.get (), other);

  others.keep = 1;
  ASSERT_EQ (write (others, &info), ""); /* LSN 0 */
  options.keep = 2;
  push ();
  ASSERT_EQ (write (options, &info), ""); /* LSN 2 */
  const std::vector<std::string> paths = disk.get_paths ();
  Spec spec = Spec ("emb", 100, 4);
  ASSERT_TRUE (tps_table_store_create (other.store, &spec.value, nullptr));
  EXPECT_THAT (write (others, &info), /* LSN 1 */
               testing::AllOf (testing::HasSubstr ("snapshots/snapshot-00000000000000000002"),
                               testing::HasSubstr ("newer")));
  EXPECT_EQ (disk.get_paths (), paths);
}

/* The snapshot is copied into the folder while the next one is written. */
TEST_F (Folders, DeleteOnlySnapshotsThatWereThereBefore)
{
  options.keep = 1;
  ASSERT_EQ (write (options, &info), "");
  push ();
  options.user_data = &disk;
  options.flush = [] (gpointer data, gint64, GError **) -> gboolean {
    auto *self = static_cast<SimulatedDisk *> (data);

    self->put_file ("snapshots/snapshot-00000000000000000009/manifest.json",
                    self->get_file ("snapshots/snapshot-00000000000000000001/manifest.json"));
    return TRUE;
  };
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.oldest_lsn, 2);
  EXPECT_THAT (disk.get_paths (),
               testing::AllOf (testing::Contains (testing::HasSubstr ("02/manifest.json")),
                               testing::Contains (testing::HasSubstr ("09/manifest.json")),
                               testing::Not (testing::Contains (testing::HasSubstr ("01/")))));
  EXPECT_THAT (write (options, &info), testing::HasSubstr ("09: "));
}

TEST_F (Folders, WaitForTheLog)
{
  options.flush = [] (gpointer, gint64 lsn, GError **error) -> gboolean {
    EXPECT_EQ (lsn, 1);
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL, "the log is broken");
    return FALSE;
  };
  EXPECT_EQ (write (options, &info), "INTERNAL the log is broken");
  ASSERT_TRUE (tps_snapshot_find (&options, &info, nullptr));
  EXPECT_STREQ (info.name, "");
}

/* A command has been admitted but is not complete, so the log has not received it, and a flush of
 * the log does not include it. */
TEST_F (Folders, WaitForCommandsThatAreUnderWay)
{
  struct Late
  {
    TpsSequencer *sequencer;
    TpsCommand command {};
    TpsOrdered ordered {};
    int n_asked = 0, n_pieces = 0;
    bool is_flushed = false;
  } late;

  late.sequencer = server.sequencer;
  late.command.kind = TPS_COMMAND_DROP_TABLE;
  late.command.drop = "another";
  late.ordered.command = &late.command;
  options.user_data = &late;
  options.is_cancelled = [] (gpointer data) -> gboolean {
    static_cast<Late *> (data)->n_pieces++;
    return FALSE;
  };
  ASSERT_EQ (write (options, &info), "");
  push ();
  options.is_cancelled = [] (gpointer data) -> gboolean {
    Late *self = static_cast<Late *> (data);

    if (++self->n_asked == 1)
      tps_sequencer_admit (self->sequencer, &self->ordered, nullptr);
    if (self->n_asked == self->n_pieces + 1) /* all files are written by then */
      tps_sequencer_finish (self->sequencer, &self->ordered);
    return FALSE;
  };
  options.flush = [] (gpointer data, gint64 lsn, GError **) -> gboolean {
    Late *self = static_cast<Late *> (data);

    self->is_flushed = true;
    EXPECT_EQ (lsn, self->command.lsn);
    EXPECT_EQ (tps_sequencer_get_ended_lsn (self->sequencer), lsn);
    return TRUE;
  };
  EXPECT_EQ (write (options, &info), "");
  EXPECT_TRUE (late.is_flushed);
  EXPECT_EQ (info.end_lsn, late.command.lsn);
}

/* Damages every seventh byte of each file. The restoration must detect all damage. */
TEST_F (Folders, NoticeDamage)
{
  ASSERT_EQ (write (options, &info), "");
  ASSERT_EQ (restored (), "");
  for (const char *name : { "manifest.json", "table-000000.safetensors", "table-pushes.ids" })
    {
      std::string &bytes = file (name);

      for (size_t at = 0; at < bytes.size (); at += 7)
        {
          std::string whole = bytes;

          bytes[at] = static_cast<char> (bytes[at] ^ 4);
          ASSERT_NE (restored (), "") << name << " at " << at;
          bytes = whole;
        }
    }
}

TEST_F (Folders, NameTheDamagedOrMissingFile)
{
  std::string table = "table-000000.safetensors";
  std::string folder, whole;

  ASSERT_EQ (write (options, &info), "");
  folder = std::string ("snapshots/") + info.name + "/";
  whole = file (table);
  file (table).resize (whole.size () - 1);
  EXPECT_THAT (restored (),
               testing::AllOf (testing::HasSubstr ("move it elsewhere"),
                               testing::EndsWith (": " + folder + table
                                                  + ": the file ends before its tensors at offset "
                                                  + std::to_string (whole.size () - 1))));
  file (table) = whole;
  file (table)[4096] ^= 1;
  EXPECT_THAT (restored (),
               testing::AllOf (testing::HasSubstr (folder + table),
                               testing::HasSubstr ("tensor emb.lsn at offset 4096 to 4896")));
  disk.remove_file (folder + table);
  EXPECT_THAT (restored (),
               testing::AllOf (testing::HasSubstr ("move it elsewhere"),
                               testing::EndsWith (folder + table
                                                  + ": open failed: No such file or directory")));
  file ("manifest.json").resize (10);
  EXPECT_THAT (restored (),
               testing::AllOf (
                   testing::HasSubstr ("ABORTED "), testing::HasSubstr ("move it"),
                   testing::EndsWith (": " + folder
                                      + "manifest.json: the manifest is truncated at offset 10")));
}

/* A snapshot of a different version must not be taken for a damaged one. */
TEST_F (Folders, NameTheVersion)
{
  const std::string current = "\"version\":2";
  const struct
  {
    int version;
    const char *word;
  } others[] = { { 1, "older" }, { 3, "newer" } };

  ASSERT_EQ (write (options, &info), "");
  std::string whole = file ("manifest.json");
  for (const auto &other : others)
    {
      std::string text = whole.substr (0, whole.size () - 22);
      char trailer[23];

      ASSERT_NE (text.find (current), std::string::npos);
      text.replace (text.find (current), current.size (),
                    "\"version\":" + std::to_string (other.version));
      g_snprintf (trailer, sizeof trailer, ",\"crc32c\":\"%08x\"}\n",
                  tps_crc32c (0, text.data (), text.size ()));
      file ("manifest.json") = text + trailer;
      EXPECT_THAT (restored (), testing::HasSubstr (std::string ("the format is ") + other.word
                                                    + " than version 2 at offset"));
    }
}

} // namespace
