/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Imports of tables from safetensors and NumPy files. */

#include "runtime/server/snapshot/snapshot_tables.h"
#include "runtime/server/snapshot/import.h"
#include "tests/runtime/server/snapshot/snapshot_fixture.h"

using namespace snapshot_test;

namespace {

std::string
import_into (Server &server, SimulatedDisk &disk, const std::vector<std::string> &paths,
             const Spec &spec)
{
  std::vector<const gchar *> names;
  TpsTableImport import {};
  GError *error = nullptr;

  for (const std::string &path : paths)
    names.push_back (path.c_str ());
  import.disk = disk.get ();
  import.into = server.store;
  import.paths = names.data ();
  import.n_paths = static_cast<guint> (names.size ());
  return tps_table_import (&import, &spec.value, &error) ? "" : describe (error);
}

/* Imports three hash shards into a whole table, a range and two other hash shards. The rows and
 * states of each id must be preserved. */
TEST (Import, IntoOtherShards)
{
  constexpr int64_t n_rows = 1001;
  constexpr int32_t dim = 5;
  const TpsShard targets[] = { whole (n_rows), range_shard (n_rows, 2, 4),
                               hash_shard (n_rows, 0, 2), hash_shard (n_rows, 1, 2) };
  SimulatedDisk disk;
  Server reference (0, true), twice (0, true);
  std::vector<std::string> paths;
  Spec spec = spec_of ("emb", n_rows, dim, TPS_OPTIMIZER_ADAM);

  ASSERT_TRUE (tps_table_store_create (reference.store, &spec.value, nullptr));
  for (int32_t i = 0; i < 3; i++)
    {
      Server server (0, true);
      Spec part =
          spec_of ("emb", n_rows, dim, TPS_OPTIMIZER_ADAM).shard (hash_shard (n_rows, i, 3));
      TpsSnapshotOptions options = options_of (disk.get (), server);
      std::string folder = "shard" + std::to_string (i);
      TpsSnapshotInfo info;

      ASSERT_TRUE (tps_table_store_create (server.store, &part.value, nullptr));
      server.probe ("emb", ids_of (part.value.shard), dim);
      options.folder = folder.c_str ();
      ASSERT_EQ (write (options, &info), "");
      paths.push_back (folder + "/" + info.name + "/table-000000.safetensors");
    }
  const Ids all = ids_of (whole (n_rows));
  reference.probe ("emb", all, dim);
  ASSERT_TRUE (tps_table_store_create (twice.store, &spec.value, nullptr));
  twice.probe ("emb", all, dim);
  twice.probe ("emb", all, dim);
  for (const TpsShard &target : targets)
    {
      Server server (0, true);
      Spec into = spec_of ("emb", n_rows, dim, TPS_OPTIMIZER_ADAM).shard (target);
      const Ids ids = ids_of (target);

      ASSERT_EQ (import_into (server, disk, paths, into), "");
      EXPECT_EQ (tps_sequencer_get_lsn (server.sequencer), 1);
      EXPECT_TRUE (server.rows_of ("emb", ids) == reference.rows_of ("emb", ids));
      server.probe ("emb", ids, dim); /* the result depends on the states */
      EXPECT_TRUE (server.rows_of ("emb", ids) == twice.rows_of ("emb", ids));
    }
  paths.pop_back ();
  Server server (0, true);
  EXPECT_THAT (import_into (server, disk, paths, spec),
               testing::HasSubstr ("is not in any of the files"));
}

std::string
npy (const std::string &dictionary, const Floats &values)
{
  std::string header = "\x93NUMPY" + std::string ("\x01\x00", 2);
  std::string text = dictionary + "\n";

  header += static_cast<char> (text.size ());
  header += '\0';
  return header + text
         + std::string (reinterpret_cast<const char *> (values.data ()), 4 * values.size ());
}

TEST (Import, TakesArraysOfNumPyIntoShards)
{
  constexpr int64_t n_rows = 7;
  const TpsShard targets[] = { range_shard (n_rows, 1, 2), hash_shard (n_rows, 0, 3),
                               hash_shard (n_rows, 1, 3), hash_shard (n_rows, 2, 3) };
  SimulatedDisk disk;

  disk.put_file ("a.npy", npy ("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 2), }",
                               { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 }));
  for (TpsDType dtype : { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
    for (const TpsShard &target : targets)
      {
        Server server (0, true);
        Spec spec = Spec ("emb", n_rows, 2).dtype (dtype).shard (target);
        const Ids ids = ids_of (target);
        Floats expected;

        for (int64_t row : ids)
          for (int64_t value : { 2 * row, 2 * row + 1 })
            expected.push_back (static_cast<float> (value));
        ASSERT_EQ (import_into (server, disk, { "a.npy" }, spec), "");
        EXPECT_EQ (to_floats (server.rows_of ("emb", ids), dtype), expected);
      }
}

/* Damages numbers and names in headers. An import may succeed or be refused, but must not leave
 * memory charged. */
TEST (Import, ChecksEveryHeader)
{
  SimulatedDisk disk;
  Server server (0, true);
  Spec spec = spec_of ("emb", 60, 3, TPS_OPTIMIZER_ADAM).shard (hash_shard (60, 1, 2));
  TpsSnapshotOptions options = options_of (disk.get (), server);
  TpsSnapshotInfo info;
  Random random (11);
  std::vector<std::string> paths;
  const Ids ids = ids_of (spec.value.shard);
  int n_taken = 0;

  options.max_increments = 2;
  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  ASSERT_EQ (write (options, &info), "");
  server.probe ("emb", { ids[0], ids[29] }, 3);
  ASSERT_EQ (write (options, &info), "");
  ASSERT_EQ (info.n_increments, 1u);
  for (const char *name : { "table-000000.base", "table-000000.increment-01" })
    paths.push_back (std::string ("snapshots/") + info.name + "/" + name);
  for (unsigned long i = 0; i < number_of ("SEEDS", 1000); i++)
    {
      Server other (0, true);
      std::string &bytes = disk.get_file (paths[i % 2]);
      std::string whole = bytes;

      for (unsigned n = 1 + random () % 3; n > 0; n--)
        {
          size_t at = 8 + random () % (whole.find ("     ") - 8);
          bool is_digit = isdigit (whole[at]) != 0;

          bytes[at] = is_digit ? static_cast<char> ('0' + random () % 10)
                               : "\"{}[],:-x"[random () % 9];
        }
      n_taken += import_into (other, disk, paths, spec).empty () ? 1 : 0;
      bytes = whole;
    }
  EXPECT_GT (n_taken, 10);
  EXPECT_EQ (import_into (server, disk, paths, spec), "ALREADY_EXISTS table emb already exists");
}

/* Tables that only a later snapshot has must not be lost either. */
TEST (Export, HasTheTablesOfAllSnapshots)
{
  SimulatedDisk disk;
  Server server (0, true);
  TpsSnapshotInfo info;
  std::vector<std::string> folders;
  g_autoptr (GError) error = nullptr;

  for (const char *name : { "a", "b" })
    {
      Server source (0, true);
      TpsSnapshotOptions options = options_of (disk.get (), source);

      options.folder = name;
      Spec spec = spec_of (name, 5, 2, TPS_OPTIMIZER_SGD);
      ASSERT_TRUE (tps_table_store_create (source.store, &spec.value, nullptr));
      ASSERT_EQ (write (options, &info), "");
      folders.push_back (std::string (name) + "/" + info.name);
    }
  const gchar *paths[] = { folders[0].c_str (), folders[1].c_str () };
  ASSERT_TRUE (tps_snapshot_export (disk.get (), paths, 2, "out", &info, &error)) << error->message;
  EXPECT_EQ (info.n_tables, 2u);
}

/* The files are like those of torch.distributed.checkpoint: a part of a tensor, with its offset. */
TEST (Import, TakesPartsOfATensor)
{
  SimulatedDisk disk;
  Server server (0, true);
  auto part = [&disk] (const std::string &path, int first_row, const Floats &values) {
    std::string json =
        "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"w\\\":{\\\"saved_offsets\\\":["
        + std::to_string (first_row) + ",0]}}\"},\"w\":{\"dtype\":\"F32\",\"shape\":["
        + std::to_string (values.size () / 2) + ",2],\"data_offsets\":[0,"
        + std::to_string (values.size () * 4) + "]}}";
    uint64_t n_bytes = json.size ();
    std::string length (reinterpret_cast<const char *> (&n_bytes), 8);

    disk.put_file (path, length + json
                             + std::string (reinterpret_cast<const char *> (values.data ()),
                                            4 * values.size ()));
  };

  part ("a.safetensors", 1, { 3, 4, 5, 6 });
  part ("b.safetensors", 0, { 1, 2 });
  ASSERT_EQ (import_into (server, disk, { "a.safetensors", "b.safetensors" }, Spec ("emb", 3, 2)),
             "");
  EXPECT_EQ (to_floats (server.rows_of ("emb", { 0, 1, 2 }), TPS_DTYPE_FLOAT32),
             (Floats { 1, 2, 3, 4, 5, 6 }));

  /* Parts that overlap, that end beyond the table, or that leave a row out. */
  const std::pair<int, const char *> wrong[] = {
    { 2, "row 2 is in a.safetensors and in c.safetensors" },
    { 3, "c.safetensors: tensor w is of a table of 4 rows, but table other has 3" },
  };
  for (const auto &[first_row, problem] : wrong)
    {
      part ("c.safetensors", first_row, { 7, 8 });
      EXPECT_THAT (import_into (server, disk, { "a.safetensors", "b.safetensors", "c.safetensors" },
                                Spec ("other", 3, 2)),
                   testing::HasSubstr (problem));
    }
  EXPECT_THAT (import_into (server, disk, { "a.safetensors" }, Spec ("other", 3, 2)),
               testing::HasSubstr ("row 0 is not in any of the files"));
  EXPECT_EQ (server.list ().size (), 1u);
}

/* A reader that takes the last of two equal names would read other rows than one that takes the
 * first. */
TEST (Import, RefusesNamesThatComeTwice)
{
  const std::string tensor = R"("w":{"dtype":"F32","shape":[1,2],"data_offsets":[)";
  const std::pair<std::string, const char *> headers[] = {
    { "{" + tensor + "0,8]}," + tensor + "8,16]}}", "two tensors of one name" },
    { R"({"__metadata__":{"a":"1","a":"2"},)" + tensor + "0,16]}}", "two values of one key" },
    { "{" + tensor + "0,8]}}", "the file continues after its tensors" },
  };
  SimulatedDisk disk;
  Server server (0, true);

  for (const auto &[header, problem] : headers)
    {
      uint64_t n_bytes = header.size ();
      disk.put_file ("a.safetensors", std::string (reinterpret_cast<const char *> (&n_bytes), 8)
                                          + header + std::string (16, '\0'));
      EXPECT_THAT (import_into (server, disk, { "a.safetensors" }, Spec ("emb", 1, 2)),
                   testing::HasSubstr (problem));
    }
}

} // namespace
