// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests well-formed calls of hostile clients to a server with a data directory (see
// data_folder_fixture.h).

#include <gmock/gmock.h>

#include <filesystem>

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

} // namespace
} // namespace thriftps_test
