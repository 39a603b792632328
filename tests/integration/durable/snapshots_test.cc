/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests snapshots, copies and imports of a server process over sockets. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <thread>
#include <tuple>

#include "plugin/wire/wire_durability.h"
#include "runtime/base/crc32c.h"
#include "tests/integration/durable/raw_model.h"
#include "tests/runtime/server/tables/tables.h"

namespace thriftps_test {
namespace {

using embedding_test::Floats;
using embedding_test::Ids;
using embedding_test::Spec;
using embedding_test::view;
using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kRows = 500;
constexpr int32_t kDim = 4;
constexpr int kInvalid = 1, kNotFound = 2, kExhausted = 7, kAborted = 9, kPermissionDenied = 11,
              kInternal = 12;

Ids
all_rows ()
{
  Ids ids;

  for (int64_t row = 0; row < kRows; row++)
    ids.push_back (row);
  return ids;
}

class Caller
{
public:
  explicit Caller (DataServer &server) : Caller (server.address ())
  {
  }
  explicit Caller (const std::string &address) : connection_ (address)
  {
  }

  int
  create (const Spec &spec)
  {
    return ErrorCode (create_table (connection_, spec.value));
  }

  /* Pushes gradients that subtract 1 from each of the rows. */
  void
  push (const Ids &ids)
  {
    TpsApplyRowGradientsArguments arguments = {};
    Floats values (ids.size () * kDim, 1.0f);

    arguments.table = const_cast<gchar *> ("emb");
    arguments.gradient.kind = TPS_GRADIENT_SPARSE;
    arguments.gradient.rows = kRows;
    arguments.gradient.weight = 1;
    tps_tensor_init_copy (&arguments.gradient.indices, view (ids));
    tps_tensor_init_copy (&arguments.gradient.values, view (values, kDim));
    EXPECT_EQ (ErrorCode (connection_.Call ("EmbeddingTable:apply_row_gradients",
                                            fields_of<tps_apply_row_gradients_rpc> (&arguments))),
               0);
    tps_tensor_clear (&arguments.gradient.indices);
    tps_tensor_clear (&arguments.gradient.values);
  }

  /* Returns the first column of all rows. */
  Floats
  rows ()
  {
    g_auto (TpsTensor) rows = {}, indices = {};
    Ids ids = all_rows ();
    TpsLookupRowsArguments arguments = {};
    Floats column;

    tps_tensor_init_copy (&indices, view (ids));
    arguments.table = const_cast<gchar *> ("emb");
    arguments.indices = indices;
    EXPECT_TRUE (read_result<tps_lookup_rows_rpc> (
        connection_.Call ("EmbeddingTable:lookup_rows",
                          fields_of<tps_lookup_rows_rpc> (&arguments)),
        &rows));
    auto data = static_cast<const float *> (tps_tensor_data (&rows));
    for (int64_t row = 0; data != nullptr && row < kRows; row++)
      column.push_back (data[row * kDim]);
    return column;
  }

  /* Takes a snapshot. Returns the number of increments, or -1 if the snapshot fails. */
  int
  snapshot (gboolean is_incremental)
  {
    return read (take_snapshot (connection_, is_incremental));
  }

  int
  restore (const std::vector<std::string> &paths)
  {
    TpsRestoreArguments arguments = { list (paths), {} };
    Message reply = connection_.Call ("Durability:restore",
                                      fields_of<tps_restore_rpc> (&arguments));

    code = ErrorCode (reply);
    text = ErrorText (reply);
    return read (reply);
  }

  int
  import (const Spec &spec, const std::vector<std::string> &paths)
  {
    TpsImportTableArguments arguments = { spec.value, list (paths), const_cast<gchar *> ("") };
    Message reply = connection_.Call ("Durability:import_table",
                                      fields_of<tps_import_table_rpc> (&arguments));

    code = ErrorCode (reply);
    text = ErrorText (reply);
    return read (reply);
  }

  int
  drop (const char *name)
  {
    return ErrorCode (drop_table (connection_, name));
  }

  int code = 0;
  std::string text;

private:
  gchar **
  list (const std::vector<std::string> &paths)
  {
    names_.clear ();
    for (const std::string &path : paths)
      names_.push_back (const_cast<gchar *> (path.c_str ()));
    names_.push_back (nullptr);
    return names_.data ();
  }

  static int
  read (const Message &reply)
  {
    g_auto (TpsWireSnapshotInfo) info = {};

    return read_result<tps_snapshot_rpc> (reply, &info) ? info.n_increments : -1;
  }

  RawClient connection_;
  std::vector<gchar *> names_;
};

Spec
emb ()
{
  return Spec ("emb", kRows, kDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);
}

} // namespace

TEST (Snapshots, areTakenCopiedAndRestored)
{
  const std::string folder = new_folder ();
  DataServer server (folder + "/first");
  Floats expected (kRows, -1);

  expected[7] = -2;
  ASSERT_TRUE (server.serve ());
  {
    Caller caller (server);

    ASSERT_EQ (caller.create (emb ()), 0);
    caller.push (all_rows ());
    EXPECT_EQ (caller.snapshot (FALSE), 0);
    caller.push ({ 7 });
    EXPECT_EQ (caller.snapshot (TRUE), 1);
    EXPECT_EQ (caller.restore ({ "x" }), -1);
    EXPECT_EQ (caller.code, kPermissionDenied);
  }
  server.kill ();

  DataServer copy (folder + "/second", { "--restore-from=" + folder + "/first" });
  ASSERT_TRUE (copy.serve ());
  EXPECT_EQ (Caller (copy).rows (), expected);
  EXPECT_EQ (copy.stop (), 0);

  ServerProcess without ({ "--listen=127.0.0.1:0", "--restore-from=" + folder + "/first" });
  EXPECT_EQ (Caller (without.ReadAddress ()).rows (), expected) << "there is no data directory";

  DataServer third (folder + "/third", { "--import-dir=" + folder, "--durability=interval:60000" });
  ASSERT_TRUE (third.serve ());
  EXPECT_EQ (Caller (third).restore ({ "first" }), 0);
  third.kill ();
  ASSERT_TRUE (third.serve ());
  {
    Caller caller (third);

    EXPECT_EQ (caller.rows (), expected);
    caller.push ({ 0 });
  }
  third.kill ();
  ASSERT_TRUE (third.serve ());
  expected[0] = -2;
  EXPECT_EQ (Caller (third).rows (), expected);
}

/* Replaces the number after each `member":`, a regular expression, in the manifest of a folder's only snapshot. */
void
set_in_manifest (const std::string &folder, const std::string &member, const std::string &number)
{
  auto snapshots = std::filesystem::directory_iterator (folder + "/snapshots");
  const std::string path = snapshots->path ().string () + "/manifest.json";
  std::stringstream text;
  char trailer[40];

  text << std::ifstream (path).rdbuf ();
  std::string json = std::regex_replace (text.str (), std::regex ("(" + member + "\":)[0-9]+"),
                                         "$01" + number);
  ASSERT_NE (json, text.str ()) << member;
  json.resize (json.rfind (",\"crc32c\""));
  snprintf (trailer, sizeof trailer, ",\"crc32c\":\"%08x\"}\n",
            tps_crc32c (0, json.data (), json.size ()));
  std::ofstream (path) << json << trailer;
}

/* A server that counts on from such a number would overflow. */
TEST (Snapshots, withHugeNumbersAreRefused)
{
  namespace fs = std::filesystem;
  const std::string folder = new_folder ();
  DataServer server (folder + "/first", { "--ntrainer=1" });
  ModelStory story (1);

  ASSERT_TRUE (server.serve ());
  {
    Caller caller (server);
    RawClient connection (server.address ());

    ASSERT_EQ (caller.create (emb ()), 0);
    caller.push ({ 0 });
    init_model (connection, story);
    EXPECT_EQ (caller.snapshot (FALSE), 0);
  }
  ASSERT_EQ (server.stop (), 0);
  for (const char *member : { "\"end_lsn", "n_steps", "\\{\"version", "incarnation", "\"lsn" })
    for (const char *number : { "9223372036854775806", "9223372036854775807" })
      {
        const std::string copy = folder + "/copy";
        DataServer other (folder + "/second", { "--ntrainer=1", "--restore-from=" + copy });

        fs::remove_all (copy);
        fs::remove_all (folder + "/second");
        fs::copy (folder + "/first", copy, fs::copy_options::recursive);
        set_in_manifest (copy, member, number);
        ASSERT_FALSE (other.start ()) << member << " " << number;
        EXPECT_EQ (other.process ().Wait (), 1);
        EXPECT_THAT (other.process ().ReadErrors (), HasSubstr ("[0, 2^62]")) << member;
      }
}

TEST (Snapshots, withInvalidNumbersOfStepsAreNotImported)
{
  const std::string folder = new_folder ();
  DataServer server (folder + "/data", { "--import-dir=" + folder });

  ASSERT_TRUE (server.serve ());
  Caller caller (server);
  for (const char *steps : { "9223372036854775807", "2305843009213693953", "-5", "abc", "", "1 " })
    {
      std::string header =
          std::string ("{\"__metadata__\":{\"thriftps_table\":\"{\\\"name\\\":\\\"emb\\\",")
          + R"(\"dim\":4,\"dtype\":1,\"shard\":{\"kind\":0,\"rows\":2,\"first_row\":0,)"
            R"(\"n_rows\":2,\"index\":0,\"count\":0},\"initializer\":{\"kind\":1,\"seed\":0},)"
            R"(\"optimizer\":{\"kind\":1,\"learning_rate\":1},\"durability\":0,)"
            R"(\"place\":\"cpu\"}","thriftps_n_steps":")"
          + steps + R"("},"emb.weight":{"dtype":"F32","shape":[2,4],"data_offsets":[0,32]}})";
      gint64 length = static_cast<gint64> (header.size ());

      std::ofstream (folder + "/x.safetensors", std::ios::binary)
          << std::string (reinterpret_cast<char *> (&length), 8) << header
          << std::string (32, '\0');
      EXPECT_EQ (caller.import (Spec ("emb", 2, 4).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1),
                                { "x.safetensors" }),
                 -1)
          << steps;
      EXPECT_EQ (caller.code, kInvalid);
      EXPECT_THAT (caller.text, HasSubstr ("thriftps_n_steps")) << steps;
    }
}

/* The stacks of threads must suffice even if the limit for the main thread is small. */
TEST (Snapshots, areWrittenWithASmallLimitOfTheStack)
{
  DataServer server (new_folder (), { "--workers=2", "--io-threads=2" },
                     { "/bin/bash", "-c", "ulimit -s 64; exec \"$@\"", "bash" });

  ASSERT_TRUE (server.serve ());
  {
    Caller caller (server);

    ASSERT_EQ (caller.create (emb ()), 0);
    caller.push ({ 0 });
    EXPECT_EQ (caller.snapshot (FALSE), 0);
  }
  EXPECT_EQ (server.stop (), 0);
}

/* A crash during a snapshot, or an operator, has left these. */
TEST (Snapshots, areWrittenWhateverTheRemainsOfOthersContain)
{
  namespace fs = std::filesystem;
  const std::string folder = new_folder (), other = new_folder ();
  const std::string remains = folder + "/snapshots/snapshot-0000000000000000000";
  DataServer server (folder);
  auto write = [] (const std::string &path) { std::ofstream (path) << "x"; };
  auto make_remains = [&] {
    fs::create_directories (remains + "5/sub/deep");
    write (remains + "5/sub/deep/file");
    write (remains + "5/table-000000.safetensors");
    fs::create_directory_symlink (other, remains + "5/link");
    fs::create_directories (remains + "6/manifest.json/sub");
    write (remains + "7");
  };
  auto expect_gone = [&] {
    for (const char *lsn : { "5", "6", "7" })
      EXPECT_FALSE (fs::exists (remains + lsn)) << lsn;
    EXPECT_TRUE (fs::exists (other + "/file")) << "a link was followed";
  };

  write (other + "/file");
  ASSERT_TRUE (server.serve ());
  server.kill ();
  make_remains ();
  ASSERT_TRUE (server.serve ());
  Caller caller (server);
  ASSERT_EQ (caller.create (emb ()), 0);
  for (int i = 0; i < 3; i++)
    {
      if (i > 0)
        make_remains ();
      EXPECT_EQ (caller.snapshot (FALSE), 0);
      expect_gone ();
      caller.push ({ 0 });
    }
}

/* The room of an incomplete snapshot may be what a full disk lacks. */
TEST (Snapshots, thatAreIncompleteAreDeletedAtTheStart)
{
  namespace fs = std::filesystem;
  const std::string folder = new_folder ();
  const std::string remains = folder + "/snapshots/snapshot-00000000000000000005";
  const auto deadline = std::chrono::steady_clock::now () + std::chrono::seconds (30);
  DataServer server (folder);

  ASSERT_TRUE (server.serve ());
  server.kill ();
  fs::create_directories (remains + "/sub");
  ASSERT_TRUE (server.serve ());
  while (fs::exists (remains) && std::chrono::steady_clock::now () < deadline)
    std::this_thread::yield ();
  EXPECT_FALSE (fs::exists (remains));
}

TEST (Snapshots, areWrittenWhenTheLogGrows)
{
  const std::string folder = new_folder ();
  DataServer server (folder, { "--snapshot-log-mib=1", "--keep-snapshots=1" });
  auto deadline = std::chrono::steady_clock::now () + std::chrono::seconds (60);
  std::string manifest;

  ASSERT_TRUE (server.serve ());
  Caller caller (server);
  ASSERT_EQ (caller.create (emb ()), 0);
  for (int i = 0; i < 100; i++) /* of 12 KB each */
    caller.push (all_rows ());
  do
    {
      g_autoptr (GDir) dir = g_dir_open ((folder + "/snapshots").c_str (), 0, nullptr);
      const gchar *name = dir != nullptr ? g_dir_read_name (dir) : nullptr;

      manifest = name != nullptr ? folder + "/snapshots/" + name + "/manifest.json" : "";
      std::this_thread::yield ();
    }
  while (!std::ifstream (manifest).good () && std::chrono::steady_clock::now () < deadline);
  EXPECT_TRUE (std::ifstream (manifest).good ());
}

/* Writes a sparse .npy file of zeros. */
static void
put_npy (const std::string &path, int64_t rows, int64_t dim)
{
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string (rows)
                       + ", " + std::to_string (dim) + "), }\n";

  std::ofstream (path, std::ios::binary) << std::string ("\x93NUMPY\x01\x00", 8)
                                         << static_cast<char> (header.size ()) << '\0' << header;
  std::filesystem::resize_file (path, 10 + header.size ()
                                          + static_cast<size_t> (rows * dim) * sizeof (float));
}

/* Rows that the table does not have must not be dropped without a word. They are not read either: a
 * sparse file of 1 TiB would take an hour. */
TEST (Imports, ofMoreRowsThanTheTableAreRefused)
{
  const std::string folder = new_folder ();
  DataServer server (folder + "/data", { "--import-dir=" + folder });
  constexpr int64_t n_many = int64_t { 1 } << 32;

  put_npy (folder + "/more.npy", kRows + 1, kDim);
  put_npy (folder + "/many.npy", n_many, 64);
  put_npy (folder + "/wide.npy", kRows, kDim + 1);
  ASSERT_TRUE (server.serve ());
  Caller caller (server);
  EXPECT_EQ (caller.import (emb (), { "more.npy" }), -1);
  EXPECT_EQ (caller.code, kInvalid);
  EXPECT_THAT (caller.text, AllOf (HasSubstr ("more.npy"), HasSubstr ("501"), HasSubstr ("500")));
  EXPECT_EQ (caller.import (Spec ("few", 8, 64), { "many.npy" }), -1);
  EXPECT_EQ (caller.code, kInvalid);
  EXPECT_THAT (caller.text, AllOf (HasSubstr ("many.npy"), HasSubstr (std::to_string (n_many))));
  EXPECT_EQ (caller.import (emb (), { "wide.npy" }), -1);
  EXPECT_EQ (caller.code, kInvalid);
  EXPECT_THAT (caller.text, AllOf (HasSubstr ("wide.npy"), HasSubstr ("5"), HasSubstr ("4")));
  /* A range of rows reads only this range. */
  Spec part ("part", n_many, 64);
  part.shard (embedding_test::range_shard (n_many, (1 << 28) - 1, 1 << 29));
  EXPECT_EQ (part.value.shard.n_rows, 8);
  EXPECT_EQ (caller.import (part, { "many.npy" }), 0) << caller.text;
}

/* Two snapshots have the same rows, with different values. Neither may win without a word. */
TEST (Imports, ofTheSameRowsFromTwoFilesAreRefused)
{
  const std::string folder = new_folder ();

  for (int i = 1; i <= 2; i++)
    {
      DataServer server (folder + "/" + std::to_string (i));
      ASSERT_TRUE (server.serve ());
      Caller caller (server);
      ASSERT_EQ (caller.create (emb ()), 0);
      for (int n = 0; n < i; n++)
        caller.push (all_rows ());
      ASSERT_EQ (caller.snapshot (FALSE), 0);
    }
  put_npy (folder + "/a.npy", kRows, kDim);
  put_npy (folder + "/b.npy", 1, kDim);
  DataServer server (folder + "/data", { "--import-dir=" + folder });
  ASSERT_TRUE (server.serve ());
  Caller caller (server);
  EXPECT_EQ (caller.restore ({ "1", "2" }), -1);
  EXPECT_EQ (caller.code, kInvalid);
  EXPECT_THAT (caller.text, AllOf (HasSubstr ("/1/"), HasSubstr ("/2/"), HasSubstr ("emb")));
  EXPECT_EQ (caller.import (emb (), { "a.npy", "b.npy" }), -1);
  EXPECT_EQ (caller.code, kInvalid);
  EXPECT_THAT (caller.text, AllOf (HasSubstr ("a.npy"), HasSubstr ("b.npy"), HasSubstr ("row 0")));
  EXPECT_EQ (caller.restore ({ "2" }), 0) << caller.text;
  EXPECT_EQ (caller.rows (), Floats (kRows, -2));
}

/* The files of two snapshots have been mixed up. Each of them is intact. */
TEST (Imports, ofAFileOfAnotherSnapshotAreRefused)
{
  const std::string folder = new_folder ();
  std::string files[2];
  DataServer server (folder + "/data", { "--import-dir=" + folder });

  ASSERT_TRUE (server.serve ());
  Caller caller (server);
  ASSERT_EQ (caller.create (emb ()), 0);
  for (std::string &file : files)
    {
      caller.push (all_rows ());
      ASSERT_EQ (caller.snapshot (FALSE), 0);
      for (const auto &entry :
           std::filesystem::recursive_directory_iterator (folder + "/data/snapshots"))
        if (entry.path ().filename () == "table-000000.safetensors"
            && entry.path ().string () > file)
          file = entry.path ().string ();
    }
  ASSERT_NE (files[0], files[1]);
  std::filesystem::create_directory (folder + "/mixed");
  for (const auto &entry :
       std::filesystem::directory_iterator (std::filesystem::path (files[1]).parent_path ()))
    std::filesystem::copy_file (entry.path (),
                                folder + "/mixed/" + entry.path ().filename ().string ());
  std::filesystem::copy_file (files[0], folder + "/mixed/table-000000.safetensors",
                              std::filesystem::copy_options::overwrite_existing);
  ASSERT_EQ (caller.drop ("emb"), 0);
  EXPECT_EQ (caller.restore ({ "mixed" }), -1);
  EXPECT_EQ (caller.code, kAborted) << caller.text;
  EXPECT_THAT (caller.text,
               AllOf (HasSubstr ("mixed/table-000000.safetensors"), HasSubstr ("manifest")));
}

/* A wrong path is a mistake of the caller, not a defect of the server. The error names the path. */
TEST (Imports, ofWrongPathsNameThePathAndTheRemedy)
{
  const std::string folder = new_folder (), long_name (300, 'x'), imports = folder + "/imports/";
  std::string deep;
  DataServer server (folder + "/data", { "--import-dir=" + folder + "/imports" });

  while (deep.size () < 5000)
    deep += "deep/";
  std::filesystem::create_directories (imports + "folder.npy");
  ASSERT_EQ (mkfifo ((imports + "fifo.npy").c_str (), 0600), 0);
  std::filesystem::create_symlink ("/dev/zero", imports + "device.npy");
  std::filesystem::create_symlink ("loop.npy", imports + "loop.npy");
  std::filesystem::create_symlink ("nowhere.npy", imports + "dangling.npy");
  std::ofstream (imports + "empty.npy");
  const std::tuple<std::string, int, std::string> paths[] = {
    { "missing.npy", kNotFound, "missing.npy" },
    { "dangling.npy", kNotFound, "dangling.npy" },
    { "folder.npy", kInvalid, "folder.npy" },
    { "fifo.npy", kInvalid, "fifo.npy" },
    { "device.npy", kInvalid, "device.npy" },
    { "loop.npy", kInvalid, "loop.npy" },
    { "empty.npy/more.npy", kInvalid, "more.npy" },
    { long_name, kInvalid, long_name },
    { deep + "x.npy", kInvalid, "deep/" },
    { "/etc/passwd", kInvalid, "--import-dir" },
    { "../data/log/LOCK", kInvalid, "--import-dir" },
  };
  ASSERT_TRUE (server.serve ());
  Caller caller (server);
  for (const auto &[path, code, text] : paths)
    for (bool is_import : { true, false })
      {
        EXPECT_EQ (is_import ? caller.import (emb (), { path }) : caller.restore ({ path }), -1);
        /* A restore of an empty folder finds no snapshot there. */
        EXPECT_EQ (caller.code, !is_import && path == "folder.npy" ? kNotFound : code)
            << path.substr (0, 40) << ": " << caller.text;
        EXPECT_THAT (caller.text, HasSubstr (text)) << path.substr (0, 40);
      }
  EXPECT_EQ (caller.import (emb (), { "empty.npy" }), -1);
  EXPECT_NE (caller.code, kInternal) << caller.text;

  gchar *snapshots[] = { const_cast<gchar *> ("missing?x"), nullptr };
  TpsRestoreArguments arguments = { snapshots, {} };
  std::string bytes = MessageBytes ({}, "Durability:restore", 1,
                                    fields_of<tps_restore_rpc> (&arguments));
  RawClient client (server.address ());
  bytes[bytes.find ('?')] = '\0';
  ASSERT_TRUE (client.SendBytes (bytes));
  Message reply = client.Receive ();
  EXPECT_EQ (ErrorCode (reply), kInvalid);
  EXPECT_THAT (ErrorText (reply), HasSubstr ("NUL"));
}

/* The limit of a tenant holds for tables from files too, whatever tenant a snapshot names, and in
 * every later process. */
TEST (Imports, countForTheTenantThatMakesThem)
{
  const std::string folder = new_folder ();
  auto rules = [&folder] (const std::string &tenant, const std::string &limits) {
    const std::string path = folder + "/" + tenant + ".json";

    std::ofstream (path)
        << R"({"rules":[{"principals":["anonymous"],"rights":["admin","push","read"],)"
           R"("tables":["*"],"tenant":")"
        << tenant << R"("}],"tenants":{")" << tenant << "\":" << limits << "}}";
    std::filesystem::permissions (path, std::filesystem::perms::owner_read);
    return "--access-file=" + path;
  };
  Spec large = Spec ("large", 10 * kRows, kDim);
  auto table = [] (const char *name) { return Spec (name, kRows, kDim); };

  put_npy (folder + "/large.npy", 10 * kRows, kDim);
  put_npy (folder + "/rows.npy", kRows, kDim);
  {
    DataServer rich (folder + "/rich", { rules ("rich", R"({"table_bytes":1000000})") });
    ASSERT_TRUE (rich.serve ());
    Caller caller (rich);
    ASSERT_EQ (caller.create (large), 0);
    ASSERT_EQ (caller.snapshot (FALSE), 0);
  }
  /* A table of 500 rows takes 12,000 bytes and a few more, so two of them fit. */
  DataServer server (folder + "/data",
                     { rules ("poor", R"({"table_bytes":32000})"), "--import-dir=" + folder });
  ASSERT_TRUE (server.serve ());
  {
    Caller caller (server);

    EXPECT_EQ (caller.import (large, { "large.npy" }), -1);
    EXPECT_EQ (caller.code, kExhausted) << caller.text;
    EXPECT_THAT (caller.text, AllOf (HasSubstr ("poor"), HasSubstr ("table_bytes")));
    EXPECT_EQ (caller.restore ({ "rich" }), -1);
    EXPECT_EQ (caller.code, kExhausted) << caller.text;
    EXPECT_THAT (caller.text, AllOf (HasSubstr ("poor"), HasSubstr ("table_bytes")));
    for (int i = 0; i < 5; i++) /* a failure gives its memory back */
      EXPECT_EQ (caller.import (table ("a"), { "rows.npy", "large.npy" }), -1);
    EXPECT_EQ (caller.code, kInvalid) << caller.text;
    EXPECT_EQ (caller.import (table ("a"), { "rows.npy" }), 0) << caller.text;
    EXPECT_EQ (caller.import (table ("b"), { "rows.npy" }), 0) << caller.text;
    EXPECT_EQ (caller.create (table ("c")), kExhausted);
  }
  server.kill ();
  ASSERT_TRUE (server.serve ());
  Caller caller (server);
  EXPECT_EQ (caller.create (table ("c")), kExhausted);
  EXPECT_EQ (caller.import (table ("c"), { "rows.npy" }), -1);
  EXPECT_EQ (caller.code, kExhausted) << caller.text;
  EXPECT_EQ (caller.drop ("a"), 0);
  EXPECT_EQ (caller.import (table ("c"), { "rows.npy" }), 0) << caller.text;
}

} // namespace thriftps_test
