/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Files of snapshots as other programs read them, and exports in the global order of rows. */

#include <glib/gstdio.h>
#include <sys/wait.h>

#include "runtime/server/snapshot/snapshot_tables.h"
#include "tests/runtime/server/snapshot/snapshot_fixture.h"

using namespace snapshot_test;

namespace {

/* Three shards on a real disk, each with its own server. */
class Checkpoints : public testing::Test
{
protected:
  static constexpr int64_t kRows = 1001;
  static constexpr int32_t kDim = 5;

  Checkpoints ()
  {
    Server whole_table (0, true);
    Spec spec = spec_of ("emb", kRows, kDim, TPS_OPTIMIZER_ADAM);
    Ids ids = ids_of (spec.value.shard);

    EXPECT_TRUE (tps_table_store_create (whole_table.store, &spec.value, nullptr));
    push (whole_table, ids);
    push (whole_table, { 0, 500, kRows - 1 });
    expected = whole_table.rows_of ("emb", ids);
    g_autofree gchar *made = g_dir_make_tmp ("checkpoint-XXXXXX", nullptr);
    folder = made;
    EXPECT_TRUE (g_file_set_contents ((folder + "/expected").c_str (), expected.data (),
                                      static_cast<gssize> (expected.size ()), nullptr));
  }
  ~Checkpoints () override
  {
    tps_disk_free (disk);
  }

  static void
  push (Server &server, const Ids &ids)
  {
    Floats values;

    for (int64_t id : ids) /* a row gets the same values in every shard */
      for (int32_t column = 0; column < kDim; column++)
        values.push_back (static_cast<float> (id % 13 + column));
    EXPECT_TRUE (
        tps_table_store_apply_rows (server.store, "emb", view (ids), view (values, kDim), nullptr));
  }

  /* Writes a whole snapshot and then an increment. If `is_whole`, the second snapshot is whole too
   * and has the same contents. Returns the folder of the second snapshot. */
  std::string
  write_shard (const TpsShard &shard, bool is_whole)
  {
    Server server (0, true);
    Spec spec = spec_of ("emb", kRows, kDim, TPS_OPTIMIZER_ADAM).shard (shard);
    TpsSnapshotOptions options = options_of (disk, server);
    std::string path = folder + "/shard" + std::to_string (n_shards++);
    TpsSnapshotInfo info;
    Ids late;

    for (int64_t id : { int64_t { 0 }, int64_t { 500 }, kRows - 1 })
      for (int64_t own : ids_of (spec.value.shard))
        if (own == id)
          late.push_back (id);
    EXPECT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
    push (server, ids_of (spec.value.shard));
    options.folder = path.c_str ();
    options.max_increments = is_whole ? 0 : 1;
    EXPECT_EQ (write (options, &info), "");
    if (!late.empty ())
      push (server, late);
    EXPECT_EQ (write (options, &info), "");
    EXPECT_EQ (info.n_increments, is_whole || late.empty () ? 0u : 1u);
    return path + "/" + info.name;
  }

  /* Runs a reader written in Python, and returns its exit status. */
  int
  read (const std::string &checkpoint, const std::string &kind)
  {
    std::string command = "/usr/bin/python3 tests/runtime/server/snapshot/read_checkpoint.py "
                          + checkpoint + " emb " + folder + "/expected " + kind;

    return WEXITSTATUS (system (command.c_str ()));
  }

  std::string folder, expected;
  TpsDisk *disk = tps_disk_new_posix ();
  int n_shards = 0;
};

/* The files of all shards lie in one folder, with distinct names. */
TEST_F (Checkpoints, OfShardsAreReadByOthers)
{
  for (const char *kind : { "range", "hash" })
    {
      std::string checkpoint = folder + "/" + kind;

      ASSERT_EQ (g_mkdir (checkpoint.c_str (), 0700), 0);
      for (int32_t i = 0; i < 3; i++)
        {
          TpsShard shard = *kind == 'r' ? range_shard (kRows, i, 3) : hash_shard (kRows, i, 3);
          std::string from = write_shard (shard, true) + "/table-000000.safetensors";
          std::string to = checkpoint + "/server-" + std::to_string (i) + ".safetensors";

          ASSERT_EQ (g_rename (from.c_str (), to.c_str ()), 0);
        }
      EXPECT_EQ (read (checkpoint, *kind == 'h' ? kind : ""), 0) << kind;
    }
}

/* Chains of increments of several hash shards become one table, in the order of the rows. */
TEST_F (Checkpoints, AreExportedInOrder)
{
  std::vector<std::string> paths;
  std::vector<const gchar *> names;
  std::string to = folder + "/exported";
  TpsSnapshotInfo info;
  GError *error = nullptr;

  for (int32_t i = 0; i < 3; i++)
    paths.push_back (write_shard (hash_shard (kRows, i, 3), false));
  for (const std::string &path : paths)
    names.push_back (path.c_str ());
  EXPECT_FALSE (tps_snapshot_export (disk, names.data (), 2, to.c_str (), &info, &error));
  EXPECT_THAT (describe (error), testing::HasSubstr ("is not in any of the files"));
  error = nullptr;
  ASSERT_TRUE (tps_snapshot_export (disk, names.data (), 3, to.c_str (), &info, &error))
      << describe (error);
  EXPECT_EQ (info.n_tables, 1u);
  EXPECT_EQ (read (to + "/" + info.name, ""), 0);
  EXPECT_FALSE (tps_snapshot_export (disk, names.data (), 3, to.c_str (), &info, &error));
  EXPECT_THAT (describe (error), testing::StartsWith ("ALREADY_EXISTS"));
}

TEST_F (Checkpoints, AreExportedByTheTool)
{
  std::string shard = write_shard (whole (kRows), false), to = folder + "/exported";
  auto run = [] (const std::string &arguments) {
    return WEXITSTATUS (
        system (("plugin/app/thriftps_snapshot " + arguments + " > /dev/null 2>&1").c_str ()));
  };

  EXPECT_EQ (run ("export " + to + " " + shard), 0);
  EXPECT_EQ (read (to + "/snapshot-00000000000000000001", ""), 0);
  EXPECT_EQ (run ("show " + shard + " " + to), 0);
  EXPECT_EQ (run ("--help"), 0);
  EXPECT_EQ (run ("export " + to + " " + shard), 1) << "there is one";
  EXPECT_EQ (run ("show " + folder), 1);
  for (const char *wrong : { "", "show", "export x", "undo x", "show x --loud" })
    EXPECT_EQ (run (wrong), 2) << wrong;
}

} // namespace
