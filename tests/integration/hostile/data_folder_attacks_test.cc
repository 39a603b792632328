// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Well-formed calls of hostile clients to a server with a data directory, in a memory control group
// if there is one, while an honest client pushes and looks up. The server must stay alive, keep
// every honest push exactly once, also when it is killed and restarted afterwards, and bound its
// files.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "plugin/wire/wire_durability.h"
#include "tests/integration/durable/countable.h"
#include "tests/integration/memory_limit/memory_group.h"

namespace thriftps_test {
namespace {

using embedding_test::Spec;
using testing::AnyOf;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kGroupMiB = 400;
constexpr int64_t kRows = 20; // of the honest client's table
constexpr int kInvalid = 1, kNotFound = 2, kExists = 3, kStale = 4, kExhausted = 7, kAborted = 9;
// While a snapshot of many tables is written, the log grows by the records that come meanwhile.
// Afterwards, one snapshot and the segments of the log that are in use are left.
constexpr size_t kMaxFolderMiB = 128;
constexpr size_t kMaxRestMiB = 16;

size_t
FolderBytes (const std::string &folder)
{
  size_t n_bytes = 0;
  std::error_code ignored; // files vanish meanwhile
  for (std::filesystem::recursive_directory_iterator at (folder, ignored), end; at != end;
       at.increment (ignored))
    {
      struct stat status;
      if (lstat (at->path ().c_str (), &status) == 0 && S_ISREG (status.st_mode))
        n_bytes += static_cast<size_t> (status.st_blocks) * 512;
    }
  return n_bytes;
}

int
CreateTable (RawClient &client, const Spec &spec)
{
  return ErrorCode (
      client.Call ("EmbeddingTable:create_table", fields_of<tps_create_table_rpc> (&spec.value)));
}

int
DropTable (RawClient &client, const std::string &name)
{
  auto *text = const_cast<gchar *> (name.c_str ());
  return ErrorCode (
      client.Call ("EmbeddingTable:drop_table", fields_of<tps_drop_table_rpc> (&text)));
}

Message
ImportTable (RawClient &client, const Spec &spec, const std::vector<std::string> &paths,
             const char *tensor = "")
{
  std::vector<gchar *> files;
  for (const std::string &path : paths)
    files.push_back (const_cast<gchar *> (path.c_str ()));
  files.push_back (nullptr);
  TpsImportTableArguments arguments = { spec.value, files.data (), const_cast<gchar *> (tensor) };
  return client.Call ("Durability:import_table", fields_of<tps_import_table_rpc> (&arguments));
}

Message
Restore (RawClient &client, const std::vector<std::string> &paths)
{
  std::vector<gchar *> snapshots;
  for (const std::string &path : paths)
    snapshots.push_back (const_cast<gchar *> (path.c_str ()));
  snapshots.push_back (nullptr);
  TpsRestoreArguments arguments = { snapshots.data (), {} };
  return client.Call ("Durability:restore", fields_of<tps_restore_rpc> (&arguments));
}

// Repeats a call while the server reads the files of another one; returns the code.
int
Insist (const std::function<Message ()> &call)
{
  Message reply;
  do
    reply = call ();
  while (ErrorCode (reply) == kExhausted && RetryAfterMs (reply) >= 0);
  return ErrorCode (reply);
}

int
TakeSnapshot (RawClient &client, gboolean is_incremental)
{
  return ErrorCode (
      client.Call ("Durability:snapshot", fields_of<tps_snapshot_rpc> (&is_incremental)));
}

class DataFolderAttacks : public testing::Test
{
protected:
  void
  SetUp () override
  {
    std::filesystem::create_directories (folder_ + "/imports");
    Begin ({});
  }

  void
  Begin (const std::vector<std::string> &more)
  {
    std::vector<std::string> flags = { "--import-dir=" + folder_ + "/imports",
                                       "--snapshot-log-mib=4",
                                       "--keep-snapshots=1",
                                       "--max-memory-mib=300",
                                       "--log-level=error",
                                       "--workers=2" };
    std::vector<std::string> wrapper;
    flags.insert (flags.end (), more.begin (), more.end ());
    if (group_.WhyNot ().empty ())
      wrapper = { "tests/integration/memory_limit/in_group.sh", group_.Procs () };
    server_ = std::make_unique<DataServer> (folder_ + "/data", flags, wrapper);
    ASSERT_TRUE (server_->start ()) << server_->process ().ReadErrors ();
    server_->wait_until_live ();
    RawClient client (server_->address ());
    create_counts (client, kRows);
  }

  void
  TearDown () override
  {
    if (server_ == nullptr)
      return;
    EXPECT_EQ (ErrorCode (RawClient (server_->address ()).Call ("Node:describe")), 0);
    ExpectCounts ();
    ExpectFewFiles ();
    server_->kill ();
    ASSERT_TRUE (server_->start ()) << server_->process ().ReadErrors ();
    server_->wait_until_live ();
    ExpectCounts ();
    EXPECT_EQ (server_->stop (), 0) << server_->process ().ReadErrors ();
    RecordProperty ("peak_mib", static_cast<int> (group_.Peak () / kMiB));
    RecordProperty ("rest_mib", static_cast<int> (FolderBytes (folder_ + "/data") / kMiB));
    RecordProperty ("peak_folder_mib", static_cast<int> (n_peak_folder_bytes_ / kMiB));
    std::filesystem::remove_all (folder_);
  }

  void
  ExpectCounts ()
  {
    RawClient client (server_->address ());
    EXPECT_EQ (read_counts (client, kRows), std::vector<int> (kRows, n_pushed_));
  }

  // Attacks leave no files behind that a snapshot does not need.
  void
  ExpectFewFiles ()
  {
    RawClient client (server_->address ());
    gboolean is_incremental = FALSE;
    EXPECT_EQ (Insist ([&] {
                 return client.Call ("Durability:snapshot",
                                     fields_of<tps_snapshot_rpc> (&is_incremental));
               }),
               0);
    EXPECT_LE (FolderBytes (folder_ + "/data"), kMaxRestMiB * kMiB);
  }

  // The honest client: pushes, and repeats a push that is refused for lack of room, under its id.
  void
  PushOnce (RawClient &client)
  {
    embedding_test::Ids rows;
    auto end = std::chrono::steady_clock::now () + std::chrono::seconds (60);
    int code = kExhausted;
    for (int64_t row = 0; row < kRows; row++)
      rows.push_back (row);
    while (code == kExhausted && std::chrono::steady_clock::now () < end)
      code = count (client, rows, "honest", n_pushed_ + 1);
    ASSERT_EQ (code, 0) << "an honest push";
    n_pushed_++;
  }

  // Runs `attack` in `n_threads` threads, each with a client and its number, beside the honest
  // client.
  void
  Attack (int n_threads, const std::function<void (RawClient &client, int number)> &attack)
  {
    std::vector<std::thread> threads;
    std::atomic<int> n_left { n_threads };
    for (int i = 0; i < n_threads; i++)
      threads.emplace_back ([&, i] {
        RawClient client (server_->address ());
        attack (client, i);
        n_left--;
      });
    RawClient honest (server_->address ());
    do
      {
        PushOnce (honest);
        EXPECT_EQ (read_counts (honest, kRows), std::vector<int> (kRows, n_pushed_));
        n_peak_folder_bytes_ = std::max (n_peak_folder_bytes_, FolderBytes (folder_ + "/data"));
      }
    while (n_left > 0 && !HasFailure ());
    for (std::thread &thread : threads)
      thread.join ();
    EXPECT_LE (n_peak_folder_bytes_, kMaxFolderMiB * kMiB) << "the files are not bounded";
  }

  // The names of all tables but the honest one.
  std::set<std::string>
  OtherTables ()
  {
    RawClient client (server_->address ());
    g_auto (TpsTableSpecs) specs = {};
    std::set<std::string> names;
    EXPECT_TRUE (
        read_result<tps_list_tables_rpc> (client.Call ("EmbeddingTable:list_tables"), &specs));
    for (guint i = 0; i < specs.n_specs; i++)
      names.insert (specs.specs[i].name);
    EXPECT_EQ (names.erase ("counts"), 1u);
    return names;
  }

  // False: the disk did not become full within a minute.
  bool
  WaitUntilFull ()
  {
    constexpr int kFull = 3; // DurabilityPhase
    auto end = std::chrono::steady_clock::now () + std::chrono::seconds (60);
    while (std::chrono::steady_clock::now () < end)
      {
        g_auto (TpsNodeInfo) info = server_->describe ();
        if (info.durability.phase == kFull)
          return true;
        std::this_thread::yield ();
      }
    return false;
  }

  void
  PutFile (const std::string &name, const std::string &bytes)
  {
    std::ofstream (folder_ + "/imports/" + name, std::ios::binary) << bytes;
  }

  const std::string folder_ = new_folder ();
  MemoryGroup group_ { kGroupMiB * kMiB };
  std::unique_ptr<DataServer> server_;
  int n_pushed_ = 0;
  size_t n_peak_folder_bytes_ = 0;
};

// ---- tables -------------------------------------------------------------------------------------

TEST_F (DataFolderAttacks, HugeTables)
{
  const struct
  {
    int64_t rows;
    int32_t dim;
  } sizes[] = { { INT64_MAX, INT32_MAX },
                { INT64_MAX, 1 },
                { int64_t { 1 } << 61, 4 },
                { int64_t { 1 } << 40, 64 },
                { 1, INT32_MAX },
                { int64_t { 1 } << 24, 64 },
                { INT64_MIN, 1 },
                { 1, INT32_MIN },
                { 0, 0 },
                { -1, -1 } };
  Attack (3, [&] (RawClient &client, int number) {
    for (int round = 0; round < 20; round++)
      for (const auto &size : sizes)
        {
          Spec spec ("huge/" + std::to_string (number), size.rows, size.dim);
          spec.value.initializer.kind = round % 2 == 0 ? TPS_INITIALIZER_ZEROS
                                                       : TPS_INITIALIZER_UNIFORM;
          spec.optimizer (TPS_OPTIMIZER_ADAM, 0.1);
          EXPECT_THAT (CreateTable (client, spec), AnyOf (kInvalid, kExhausted))
              << size.rows << " x " << size.dim;
        }
  });
  EXPECT_THAT (OtherTables (), testing::IsEmpty ());
}

TEST_F (DataFolderAttacks, StormsOfTables)
{
  Attack (4, [&] (RawClient &client, int number) {
    for (int round = 0; round < 3; round++)
      {
        const std::string name = "storm/" + std::to_string (number) + "/";
        for (int i = 0; i < 300; i++)
          EXPECT_THAT (CreateTable (client, Spec (name + std::to_string (i), 1, 1)),
                       AnyOf (0, kExhausted));
        for (int i = 0; i < 300; i++)
          EXPECT_THAT (DropTable (client, name + std::to_string (i)),
                       AnyOf (0, kNotFound, kExhausted));
      }
    // The same name again and again: its push ids and files must not pile up.
    for (int i = 0; i < 300; i++)
      {
        EXPECT_THAT (CreateTable (client, Spec ("storm/again", 1000, 64)), AnyOf (0, kExhausted));
        EXPECT_THAT (DropTable (client, "storm/again"), AnyOf (0, kNotFound, kExhausted));
      }
  });
}

// ---- push ids -----------------------------------------------------------------------------------

TEST_F (DataFolderAttacks, FiveThousandClientNames)
{
  constexpr int kNames = 5000;
  {
    RawClient client (server_->address ());
    Spec spec = Spec ("names", 1, kCountDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);
    ASSERT_EQ (CreateTable (client, spec), 0);
  }
  Attack (2, [&] (RawClient &client, int number) {
    const std::string padding (200, 'x');
    for (int i = number; i < kNames; i += 2)
      {
        const std::string name = padding + std::to_string (i);
        embedding_test::Query query { "names", { 0 }, { 0 } };
        embedding_test::Floats gradient (kCountDim, -1.0f);
        TpsBagGradient pushed = { query.get (), embedding_test::view (gradient, kCountDim) };
        TpsApplyBagGradientsArguments arguments = {};
        arguments.n_gradients = 1;
        arguments.gradients = &pushed;
        arguments.push = { const_cast<gchar *> (name.c_str ()), G_MAXINT64 - i % 2 };
        EXPECT_THAT (ErrorCode (client.Call ("EmbeddingTable:apply_bag_gradients",
                                             fields_of<tps_apply_bag_gradients_rpc> (&arguments))),
                     AnyOf (0, kExhausted));
      }
    EXPECT_THAT (TakeSnapshot (client, number), AnyOf (0, kExhausted));
  });
}

// ---- the log ------------------------------------------------------------------------------------

TEST_F (DataFolderAttacks, ReadLogWithExtremeArguments)
{
  const int64_t cursors[] = { INT64_MIN, -1, 0, 1, 2, 5, 1000, INT64_MAX - 1, INT64_MAX };
  const int32_t sizes[] = { INT32_MIN, -1, 0, 1, 63, 64, 1 << 20, INT32_MAX };
  const int32_t waits[] = { INT32_MIN, -1, 0, 1 };
  Attack (3, [&] (RawClient &client, int) {
    for (int round = 0; round < 3; round++)
      for (int64_t cursor : cursors)
        for (int32_t size : sizes)
          for (int32_t wait : waits)
            {
              TpsReadLogArguments arguments = { cursor, size, wait };
              Message reply = client.Call ("Durability:read_log",
                                           fields_of<tps_read_log_rpc> (&arguments));
              g_auto (TpsWireLogBatch) batch = {};
              EXPECT_THAT (ErrorCode (reply), AnyOf (0, kInvalid, kStale, kExhausted));
              if (read_result<tps_read_log_rpc> (reply, &batch))
                {
                  EXPECT_LE (g_bytes_get_size (batch.records), kMiB);
                }
            }
  });
}

// Calls that wait as long as they may, more than are allowed, from connections that do not read the
// replies and end.
TEST_F (DataFolderAttacks, ReadLogWaitsAreBounded)
{
  Attack (2, [&] (RawClient &, int) {
    for (int round = 0; round < 5; round++)
      {
        RawClient waiting (server_->address ());
        g_auto (TpsNodeInfo) info = server_->describe ();
        TpsReadLogArguments arguments = { info.durability.end_lsn + 1, INT32_MAX, INT32_MAX };
        std::string calls;
        for (int i = 0; i < 3000; i++)
          calls += MessageBytes ({}, "Durability:read_log", i,
                                 fields_of<tps_read_log_rpc> (&arguments));
        waiting.SendUntilStuck (calls, 100);
      }
  });
}

// ---- snapshots ----------------------------------------------------------------------------------

TEST_F (DataFolderAttacks, SnapshotsAndRestoresInALoop)
{
  {
    RawClient client (server_->address ());
    ASSERT_EQ (CreateTable (client, Spec ("emb", 20000, 16).normal (1)), 0);
    ASSERT_EQ (TakeSnapshot (client, FALSE), 0);
    std::filesystem::copy (folder_ + "/data/snapshots", folder_ + "/imports/copy",
                           std::filesystem::copy_options::recursive);
    ASSERT_EQ (DropTable (client, "emb"), 0);
  }
  const std::string snapshot = "copy/"
                               + std::filesystem::directory_iterator (folder_ + "/imports/copy")
                                     ->path ()
                                     .filename ()
                                     .string ();
  Attack (4, [&] (RawClient &client, int number) {
    for (int i = 0; i < 40; i++)
      switch (number)
        {
        case 0:
        case 1:
          EXPECT_THAT (TakeSnapshot (client, number), AnyOf (0, kExhausted));
          break;
        case 2:
          // All tables of a snapshot, of which one exists.
          EXPECT_THAT (ErrorCode (Restore (client, { snapshot })), AnyOf (kExists, kExhausted));
          break;
        default:
          {
            const std::vector<std::string> many (10000, snapshot);
            EXPECT_THAT (ErrorCode (Restore (client, many)),
                         AnyOf (kInvalid, kExists, kExhausted, kAborted));
            EXPECT_THAT (ErrorCode (Restore (client, {})), AnyOf (kInvalid, kExhausted));
          }
        }
  });
  EXPECT_THAT (OtherTables (), testing::IsEmpty ());
}

// ---- files of other programs --------------------------------------------------------------------

std::string
Little (uint64_t value, int n_bytes)
{
  std::string bytes;
  for (int i = 0; i < n_bytes; i++)
    bytes += static_cast<char> (value >> (8 * i));
  return bytes;
}

std::string
Safetensors (const std::string &header, size_t n_data = 0)
{
  return Little (header.size (), 8) + header + std::string (n_data, '\0');
}

std::string
Numpy (const std::string &header)
{
  return std::string ("\x93NUMPY\x01\x00", 8) + Little (header.size (), 2) + header;
}

std::string
Tensor (const std::string &dtype, const std::string &shape, const std::string &offsets)
{
  return "{\"t\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets
         + "}}";
}

TEST_F (DataFolderAttacks, BadFiles)
{
  const std::string max = "9223372036854775807", over = "18446744073709551615";
  const std::pair<const char *, std::string> files[] = {
    { "empty.safetensors", "" },
    { "short.safetensors", "\1\0\0" },
    { "long-header.safetensors", Little (UINT64_MAX, 8) + "{}" },
    { "longer-than-file.safetensors", Little (1 << 20, 8) + "{}" },
    { "no-json.safetensors", Safetensors (std::string (1000, '\xff')) },
    { "deep.safetensors", Safetensors (std::string (100000, '[')) },
    { "deep-object.safetensors", Safetensors ([] {
        std::string text;
        for (int i = 0; i < 20000; i++)
          text += "{\"a\":";
        return text;
      }()) },
    { "huge-shape.safetensors",
      Safetensors (Tensor ("F32", "[" + max + "," + max + "]", "[0,16]"), 16) },
    { "huge-offsets.safetensors", Safetensors (Tensor ("F32", "[2,2]", "[0," + over + "]"), 16) },
    { "beyond.safetensors", Safetensors (Tensor ("F32", "[2,2]", "[16,32]"), 16) },
    { "backwards.safetensors", Safetensors (Tensor ("F32", "[2,2]", "[16,0]"), 16) },
    { "negative.safetensors", Safetensors (Tensor ("F32", "[-2,-2]", "[0,16]"), 16) },
    { "many-dimensions.safetensors", Safetensors (Tensor (
                                                      "F32",
                                                      "[" +
                                                          [] {
                                                            std::string ones;
                                                            for (int i = 0; i < 50000; i++)
                                                              ones += "1,";
                                                            return ones + "4";
                                                          }()
                                                          + "]",
                                                      "[0,16]"),
                                                  16) },
    { "other-type.safetensors", Safetensors (Tensor ("BOOL", "[2,2]", "[0,4]"), 4) },
    { "many-names.safetensors", Safetensors ([] {
        std::string text = "{";
        for (int i = 0; i < 100000; i++)
          text += (i > 0 ? ",\"t" : "\"t") + std::to_string (i)
                  + "\":{\"dtype\":\"F32\",\"shape\":[0,2],\"data_offsets\":[0,0]}";
        return text + "}";
      }()) },
    { "empty.npy", "" },
    { "magic.npy", "\x93NUMPX" },
    { "header.npy", std::string ("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12) },
    { "object.npy", Numpy ("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }\n") },
    { "fortran.npy", Numpy ("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }\n") },
    { "huge.npy",
      Numpy ("{'descr': '<f4', 'fortran_order': False, 'shape': (" + max + ", " + max + "), }\n") },
    { "negative.npy", Numpy ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 2), }\n") },
    { "code.npy", Numpy ("__import__('os').abort()\n") },
  };
  std::vector<std::string> names;
  for (const auto &[name, bytes] : files)
    {
      PutFile (name, bytes);
      names.push_back (name);
    }
  // A matrix of 1 TiB in a file that takes no room.
  PutFile ("sparse.npy", Numpy ("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, "
                                "64), }\n"));
  std::filesystem::resize_file (folder_ + "/imports/sparse.npy", size_t { 1 } << 40);
  ASSERT_EQ (mkfifo ((folder_ + "/imports/fifo.npy").c_str (), 0600), 0);
  std::filesystem::create_directory (folder_ + "/imports/folder.npy");
  std::filesystem::create_symlink ("/dev/zero", folder_ + "/imports/zero.npy");
  std::filesystem::create_symlink ("loop.npy", folder_ + "/imports/loop.npy");
  names.insert (names.end (), { "sparse.npy", "fifo.npy", "folder.npy", "zero.npy", "loop.npy" });

  Attack (3, [&] (RawClient &client, int number) {
    Spec spec ("bad/" + std::to_string (number), 2, 2);
    for (const std::string &name : names)
      {
        int code = Insist ([&] { return ImportTable (client, spec, { name }); });
        EXPECT_THAT (code, testing::AllOf (testing::Ne (0), testing::Ne (-1))) << name;
      }
    Spec large ("bad/large", int64_t { 1 } << 32, 64);
    EXPECT_THAT (ErrorCode (ImportTable (client, large, { "sparse.npy" })),
                 AnyOf (kInvalid, kExhausted));
    const std::vector<std::string> many (20000, "huge.npy");
    EXPECT_THAT (ErrorCode (ImportTable (client, spec, many)),
                 AnyOf (kInvalid, kAborted, kExhausted));
  });
  EXPECT_THAT (OtherTables (), testing::IsEmpty ());
}

// ---- names of files -----------------------------------------------------------------------------

std::set<std::string>
FilesIn (const std::string &folder)
{
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::recursive_directory_iterator (folder))
    names.insert (entry.path ().string ());
  return names;
}

TEST_F (DataFolderAttacks, PathsOutsideOfTheirFolder)
{
  const std::string secret = folder_ + "/secret.npy";
  std::ofstream (secret, std::ios::binary)
      << Numpy ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n")
      << std::string (16, '\0');
  const std::string paths[] = { "../secret.npy",
                                "a/../../secret.npy",
                                "./../secret.npy",
                                secret,
                                "/" + secret,
                                "..",
                                ".",
                                "/",
                                "",
                                "x//y",
                                "x/.",
                                "x/",
                                "~/x",
                                "$HOME",
                                "..\\secret.npy",
                                "%2e%2e/secret.npy",
                                "\xff\xfe",
                                "x\n",
                                std::string (300, 'x'),
                                std::string (100000, 'x'),
                                [] {
                                  std::string deep;
                                  for (int i = 0; i < 5000; i++)
                                    deep += "d/";
                                  return deep + "f";
                                }() };
  Attack (2, [&] (RawClient &client, int number) {
    Spec spec ("path/" + std::to_string (number), 2, 2);
    for (const std::string &path : paths)
      for (bool is_import : { false, true })
        {
          int code = Insist ([&] {
            return is_import ? ImportTable (client, spec, { path }) : Restore (client, { path });
          });
          EXPECT_THAT (code, testing::AllOf (testing::Ne (0), testing::Ne (-1))) << path;
        }
  });
  EXPECT_THAT (OtherTables (), testing::IsEmpty ());
}

// Names of tables may have dots and slashes; no file is named after a table.
TEST_F (DataFolderAttacks, NamesOfTablesThatLookLikePaths)
{
  RawClient client (server_->address ());
  for (const char *name : { "../../evil", "..", "/etc/evil", "a/../../evil", "manifest.json" })
    EXPECT_EQ (CreateTable (client, Spec (name, 4, 2)), 0) << name;
  for (const char *name : { "", "a\nb", "a b", "\xff" })
    EXPECT_EQ (CreateTable (client, Spec (name, 4, 2)), kInvalid) << name;
  EXPECT_EQ (CreateTable (client, Spec (std::string (256, 'n'), 4, 2)), kInvalid);
  const std::set<std::string> before = FilesIn (folder_ + "/imports");
  Attack (1, [] (RawClient &attacker, int) {
    EXPECT_THAT (TakeSnapshot (attacker, FALSE), AnyOf (0, kExhausted));
  });
  EXPECT_EQ (FilesIn (folder_ + "/imports"), before);
  for (const auto &entry : std::filesystem::directory_iterator (folder_))
    EXPECT_THAT (entry.path ().filename ().string (), AnyOf ("data", "imports"));
  for (const std::string &path : FilesIn (folder_))
    EXPECT_EQ (path.find ("evil"), std::string::npos) << path;
  EXPECT_EQ (OtherTables ().size (), 5u);
}

// ---- a full disk --------------------------------------------------------------------------------

// A small file system. This thread and its children are the only ones that see it, so it vanishes
// with them.
class Tmpfs
{
public:
  explicit Tmpfs (const std::string &path) : path_ (path)
  {
    std::filesystem::create_directories (path);
    is_mounted_ = unshare (CLONE_NEWNS) == 0
                  && mount (nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0
                  && mount ("tmpfs", path.c_str (), "tmpfs", 0, "size=24m") == 0;
  }
  ~Tmpfs ()
  {
    if (is_mounted_)
      umount2 (path_.c_str (), MNT_DETACH);
  }
  bool
  IsMounted () const
  {
    return is_mounted_;
  }
  bool
  Grow ()
  {
    return mount ("tmpfs", path_.c_str (), "tmpfs", MS_REMOUNT, "size=128m") == 0;
  }

private:
  std::string path_;
  bool is_mounted_;
};

// A push of 1 MiB, without a push id.
int
PushMuch (RawClient &client)
{
  constexpr int64_t kMany = 65536;
  embedding_test::Query query { "fill", embedding_test::Ids (kMany, 0), {} };
  embedding_test::Floats gradient (kMany * kCountDim, 1.0f);
  for (int64_t i = 0; i < kMany; i++)
    query.offsets.push_back (i);
  TpsBagGradient pushed = { query.get (), embedding_test::view (gradient, kCountDim) };
  TpsApplyBagGradientsArguments arguments = {};
  arguments.n_gradients = 1;
  arguments.gradients = &pushed;
  return ErrorCode (client.Call ("EmbeddingTable:apply_bag_gradients",
                                 fields_of<tps_apply_bag_gradients_rpc> (&arguments)));
}

TEST_F (DataFolderAttacks, AFullDisk)
{
  Tmpfs disk (folder_ + "/small");
  if (!disk.IsMounted ())
    GTEST_SKIP () << "mounting needs root";
  EXPECT_EQ (server_->stop (), 0);
  server_ = std::make_unique<DataServer> (
      folder_ + "/small/data",
      std::vector<std::string> { "--log-level=error", "--workers=2", "--snapshot-log-mib=0" });
  ASSERT_TRUE (server_->start ()) << server_->process ().ReadErrors ();
  server_->wait_until_live ();
  RawClient client (server_->address ()), honest (server_->address ());
  create_counts (honest, kRows);
  PushOnce (honest);
  ASSERT_EQ (CreateTable (client, Spec ("fill", 1, kCountDim).zeros ()), 0);
  // An admitted push waits until there is room for its record; later ones are refused.
  std::atomic<bool> is_over { false };
  std::thread attacker ([&] {
    RawClient pusher (server_->address ());
    while (!is_over)
      EXPECT_THAT (PushMuch (pusher), AnyOf (0, kExhausted));
  });
  EXPECT_TRUE (WaitUntilFull ());
  for (int i = 0; i < 20; i++)
    {
      EXPECT_EQ (PushMuch (client), kExhausted);
      EXPECT_EQ (CreateTable (client, Spec ("more", 1, 1)), kExhausted);
      EXPECT_EQ (read_counts (honest, kRows), std::vector<int> (kRows, n_pushed_));
    }
  is_over = true;
  EXPECT_TRUE (disk.Grow ());
  attacker.join ();
  PushOnce (honest); // the server continues by itself
  ExpectCounts ();
  server_->kill ();
  ASSERT_TRUE (server_->start ()) << server_->process ().ReadErrors ();
  server_->wait_until_live ();
  ExpectCounts ();
  EXPECT_EQ (server_->stop (), 0);
  server_.reset ();
}

} // namespace
} // namespace thriftps_test
