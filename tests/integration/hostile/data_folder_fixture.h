// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A server with a data directory, in a memory control group if possible, and the calls of hostile
// clients. During an attack, an honest client pushes and looks up. At the end of each test, the
// server must be alive and its files must have a bounded size. It must have applied every honest
// push exactly once, even after it has been killed and restarted.

#pragma once

#include <gmock/gmock.h>
#include <sys/stat.h>

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

using embedding_test::Spec;
using testing::AnyOf;

constexpr size_t kMiB = 1 << 20;
constexpr size_t kGroupMiB = 400;
constexpr int64_t kRows = 20; // of the honest client's table
constexpr int kInvalid = 1, kNotFound = 2, kExists = 3, kStale = 4, kExhausted = 7, kAborted = 9;
// Limit during an attack. While a snapshot of many tables is written, the log grows by the records
// of that time. An attack with 1,200 tables reaches about 50 MiB in total.
constexpr size_t kMaxFolderMiB = 128;
// Limit after an attack, for one snapshot and the segments of the log that are in use.
constexpr size_t kMaxRestMiB = 16;

inline size_t
FolderBytes (const std::string &folder)
{
  size_t n_bytes = 0;
  std::error_code ignored; // files may vanish during the walk
  for (std::filesystem::recursive_directory_iterator at (folder, ignored), end; at != end;
       at.increment (ignored))
    {
      struct stat status;
      if (lstat (at->path ().c_str (), &status) == 0 && S_ISREG (status.st_mode))
        n_bytes += static_cast<size_t> (status.st_blocks) * 512;
    }
  return n_bytes;
}

inline Message
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

inline Message
Restore (RawClient &client, const std::vector<std::string> &paths)
{
  std::vector<gchar *> snapshots;
  for (const std::string &path : paths)
    snapshots.push_back (const_cast<gchar *> (path.c_str ()));
  snapshots.push_back (nullptr);
  TpsRestoreArguments arguments = { snapshots.data (), {} };
  return client.Call ("Durability:restore", fields_of<tps_restore_rpc> (&arguments));
}

// Repeats a call as long as its refusal has a retry time, for example while the server reads files
// for another call. Returns the code of the last reply.
inline int
Insist (const std::function<Message ()> &call)
{
  Message reply;
  do
    reply = call ();
  while (ErrorCode (reply) == kExhausted && RetryAfterMs (reply) >= 0);
  return ErrorCode (reply);
}

class DataFolderTest : public testing::Test
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
    ASSERT_TRUE (server_->serve ());
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
    ASSERT_TRUE (server_->serve ());
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

  // Takes a snapshot. Afterwards, no other files from the attacks may remain.
  void
  ExpectFewFiles ()
  {
    RawClient client (server_->address ());
    EXPECT_EQ (Insist ([&] { return take_snapshot (client); }), 0);
    EXPECT_LE (FolderBytes (folder_ + "/data"), kMaxRestMiB * kMiB);
  }

  // Makes one push of the honest client. If it is refused for lack of room, it is repeated under
  // the same push id.
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

  // Runs `attack` in `n_threads` threads, each with its own client and number. The honest client
  // runs at the same time.
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

  // Returns the names of all tables except the honest client's.
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

} // namespace thriftps_test
