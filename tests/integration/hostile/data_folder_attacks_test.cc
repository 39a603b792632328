// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests well-formed calls of hostile clients to a server with a data directory (see
// data_folder_fixture.h).

#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/integration/hostile/data_folder_fixture.h"

namespace thriftps_test {
namespace {

using DataFolderAttacks = DataFolderTest;

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
          EXPECT_THAT (ErrorCode (create_table (client, spec.value)), AnyOf (kInvalid, kExhausted))
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
          EXPECT_THAT (
              ErrorCode (create_table (client, Spec (name + std::to_string (i), 1, 1).value)),
              AnyOf (0, kExhausted));
        for (int i = 0; i < 300; i++)
          EXPECT_THAT (ErrorCode (drop_table (client, (name + std::to_string (i)).c_str ())),
                       AnyOf (0, kNotFound, kExhausted));
      }
    // The same name is used repeatedly. The push ids and files of its earlier tables must not
    // accumulate.
    for (int i = 0; i < 300; i++)
      {
        EXPECT_THAT (ErrorCode (create_table (client, Spec ("storm/again", 1000, 64).value)),
                     AnyOf (0, kExhausted));
        EXPECT_THAT (ErrorCode (drop_table (client, "storm/again")),
                     AnyOf (0, kNotFound, kExhausted));
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
    ASSERT_EQ (ErrorCode (create_table (client, spec.value)), 0);
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
    EXPECT_THAT (ErrorCode (take_snapshot (client, number)), AnyOf (0, kExhausted));
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

// More read_log calls than allowed wait as long as they may. Their connections do not read the
// replies, and then end.
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
    ASSERT_EQ (ErrorCode (create_table (client, Spec ("emb", 20000, 16).normal (1).value)), 0);
    ASSERT_EQ (ErrorCode (take_snapshot (client)), 0);
    std::filesystem::copy (folder_ + "/data/snapshots", folder_ + "/imports/copy",
                           std::filesystem::copy_options::recursive);
    ASSERT_EQ (ErrorCode (drop_table (client, "emb")), 0);
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
          EXPECT_THAT (ErrorCode (take_snapshot (client, number)), AnyOf (0, kExhausted));
          break;
        case 2:
          // Restores all tables of a snapshot. One of them exists.
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

// ---- a full disk --------------------------------------------------------------------------------

// A small file system in a mount namespace of this thread. Only this thread and its children see
// it, so it vanishes with them.
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

// Makes a push of 1 MiB without a push id.
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
  ASSERT_TRUE (server_->serve ());
  RawClient client (server_->address ()), honest (server_->address ());
  create_counts (honest, kRows);
  PushOnce (honest);
  ASSERT_EQ (ErrorCode (create_table (client, Spec ("fill", 1, kCountDim).zeros ().value)), 0);
  // An admitted push waits until there is room for its record. Later pushes are refused.
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
      EXPECT_EQ (ErrorCode (create_table (client, Spec ("more", 1, 1).value)), kExhausted);
      EXPECT_EQ (read_counts (honest, kRows), std::vector<int> (kRows, n_pushed_));
    }
  is_over = true;
  EXPECT_TRUE (disk.Grow ());
  attacker.join ();
  PushOnce (honest); // the server must continue by itself
  ExpectCounts ();
  server_->kill ();
  ASSERT_TRUE (server_->serve ());
  ExpectCounts ();
  EXPECT_EQ (server_->stop (), 0);
  server_.reset ();
}

} // namespace
} // namespace thriftps_test
