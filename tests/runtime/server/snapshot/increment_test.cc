/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Increments: snapshots that contain only changed rows, and the chains that they form. */

#include "tests/runtime/server/snapshot/snapshot_fixture.h"

using namespace snapshot_test;

namespace {

class Increments : public testing::TestWithParam<RoundTrip>
{
protected:
  Increments ()
  {
    const TpsShard shards[] = { whole (4000), range_shard (12000, 1, 3), hash_shard (8000, 1, 2) };

    for (int i = 0; i < 3; i++)
      {
        Spec spec = spec_of (names[i], shards[i].rows, kDims[i], GetParam ().kind);

        spec.shard (shards[i]).dtype (GetParam ().dtype);
        EXPECT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
        rows[i] = ids_of (shards[i]);
        push (i, rows[i]);
      }
    options = options_of (disk.get (), server);
    options.max_increments = 3;
  }

  void
  push (int table, const Ids &ids)
  {
    Floats values = rough_floats (random, ids.size () * static_cast<size_t> (kDims[table]));

    ASSERT_TRUE (tps_table_store_apply_rows (server.store, names[table].c_str (), view (ids),
                                             view (values, kDims[table]), nullptr));
  }

  /* Pushes to every `step`-th row, from a random row on. */
  void
  push_some (int table, size_t step)
  {
    Ids ids;

    for (size_t i = random () % step; i < rows[table].size (); i += step)
      ids.push_back (rows[table][i]);
    push (table, ids);
  }

  void
  compare_restored ()
  {
    Server other (0, true);
    TpsSnapshotInfo found;

    ASSERT_EQ (restore (options_of (disk.get (), other), &found), "");
    ASSERT_EQ (server.list (), other.list ());
    for (int i = 0; i < 3; i++)
      {
        ASSERT_TRUE (server.rows_of (names[i], rows[i]) == other.rows_of (names[i], rows[i]));
        ASSERT_TRUE (server.state_of (names[i]) == other.state_of (names[i]));
      }
  }

  static constexpr int32_t kDims[] = { 1, 7, 33 };
  const std::string names[3] = { "one", "seven", "thirty-three" };
  Ids rows[3];
  Random random { 5 };
  SimulatedDisk disk;
  Server server { 0, true };
  TpsSnapshotOptions options;
  TpsSnapshotInfo info;
};

constexpr int32_t Increments::kDims[];

/* Changes rows at both ends, in runs and alone, in more than one piece. */
TEST_P (Increments, HoldTheChangedRows)
{
  uint64_t n_whole;

  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.n_increments, 0u);
  n_whole = info.n_bytes;
  for (guint n = 1; n <= 3; n++)
    {
      push (2, { rows[2].front (), rows[2][1], rows[2][2], rows[2].back () });
      push_some (2, 10);
      ASSERT_EQ (write (options, &info), "");
      EXPECT_EQ (info.n_increments, n) << "two tables have not changed";
      EXPECT_LT (info.n_bytes, n_whole + n * n_whole / 6);
      compare_restored ();
    }
  push_some (2, 100);
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.n_increments, 0u) << "the chain is as long as it may be";
  compare_restored ();
}

INSTANTIATE_TEST_SUITE_P (All, Increments,
                          testing::Values (RoundTrip { TPS_OPTIMIZER_SGD, TPS_DTYPE_FLOAT32 },
                                           RoundTrip { TPS_OPTIMIZER_ROWWISE_ADAGRAD,
                                                       TPS_DTYPE_BFLOAT16 },
                                           RoundTrip { TPS_OPTIMIZER_ADAM, TPS_DTYPE_FLOAT32 }));

class Chains : public Increments
{
};

INSTANTIATE_TEST_SUITE_P (One, Chains,
                          testing::Values (RoundTrip { TPS_OPTIMIZER_ADAM, TPS_DTYPE_FLOAT32 }));

TEST_P (Chains, AreAtMostHalfOfTheTable)
{
  ASSERT_EQ (write (options, &info), "");
  push_some (0, 4);
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.n_increments, 1u);
  push_some (0, 4);
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.n_increments, 0u);
  compare_restored ();
}

TEST_P (Chains, AreNotMadeWhereFilesHaveOneName)
{
  ASSERT_EQ (write (options, &info), "");
  push_some (0, 100);
  disk.get ()->link = [] (TpsDisk *, const gchar *, const gchar *, GError **error) -> gboolean {
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL, "no links here");
    return FALSE;
  };
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.n_increments, 0u);
  compare_restored ();
}

/* Other programs recognise files by their extension. They must not mistake an increment for the
 * whole table. */
TEST_P (Chains, DoNotLookLikeWholeTables)
{
  ASSERT_EQ (write (options, &info), "");
  push_some (2, 100);
  ASSERT_EQ (write (options, &info), "");
  std::vector<std::string> files;
  for (const std::string &path : disk.get_paths ())
    if (path.find (info.name) != std::string::npos)
      files.push_back (path.substr (path.rfind ('/') + 1));
  EXPECT_EQ (files, (std::vector<std::string> { "manifest.json", "table-000000.safetensors",
                                                "table-000001.safetensors", "table-000002.base",
                                                "table-000002.increment-01", "table-pushes.ids" }));
}

TEST_P (Chains, ThatAreDamagedAreRefused)
{
  ASSERT_EQ (write (options, &info), "");
  push_some (2, 100);
  ASSERT_EQ (write (options, &info), "");
  std::string &bytes = disk.get_file (std::string ("snapshots/") + info.name
                                      + "/table-000002.increment-01");
  for (size_t at = 0; at < bytes.size (); at += 1009)
    {
      Server other (0, true);
      TpsSnapshotInfo found;

      bytes[at] = static_cast<char> (bytes[at] ^ 4);
      ASSERT_NE (restore (options_of (disk.get (), other), &found), "") << at;
      bytes[at] = static_cast<char> (bytes[at] ^ 4);
    }
}

} // namespace
