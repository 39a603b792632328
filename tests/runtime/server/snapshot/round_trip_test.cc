/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Snapshots of idle tables. They must restore every optimizer, dtype and kind of shard bit by
 * bit. */

#include "tests/runtime/server/snapshot/snapshot_fixture.h"

using namespace snapshot_test;

namespace {

class RoundTrips : public testing::TestWithParam<RoundTrip>
{
};

/* Tries sizes that are not multiples of blocks, more than one piece, and all kinds of shards. */
TEST_P (RoundTrips, AreExact)
{
  const TpsShard shards[] = { whole (5000), range_shard (15000, 1, 3), hash_shard (9999, 1, 2) };
  const int32_t dims[] = { 1, 7, 33 };
  SimulatedDisk disk;
  Server server (0, true), other (0, true);
  TpsSnapshotInfo info;
  std::vector<std::string> names;
  Random random (1);

  for (int i = 0; i < 3; i++)
    {
      std::string name = "table/" + std::to_string (i);
      Spec spec = spec_of (name, shards[i].rows, dims[i], GetParam ().kind);
      Ids ids;

      spec.shard (shards[i]).dtype (GetParam ().dtype,
                                    GetParam ().dtype != TPS_DTYPE_FLOAT32 && i > 0
                                        ? TPS_ROUNDING_STOCHASTIC
                                        : TPS_ROUNDING_NEAREST);
      ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
      for (int64_t slot = 0; slot < shards[i].n_rows; slot += 3)
        ids.push_back (tps_shard_get_row (&shards[i], slot));
      for (int step = 0; step < 2; step++)
        {
          Floats values = rough_floats (random, ids.size () * static_cast<size_t> (dims[i]));

          ASSERT_TRUE (tps_table_store_apply_rows (server.store, name.c_str (), view (ids),
                                                   view (values, dims[i]), nullptr));
        }
    }
  ASSERT_EQ (write (options_of (disk.get (), server), &info), "");
  EXPECT_EQ (info.lsn, 9);
  EXPECT_EQ (info.end_lsn, 9);
  EXPECT_EQ (info.n_tables, 3u);
  ASSERT_EQ (restore (options_of (disk.get (), other), &info), "");
  EXPECT_EQ (tps_sequencer_get_lsn (other.sequencer), 9);
  ASSERT_EQ (server.list (), other.list ());
  for (int i = 0; i < 3; i++)
    {
      std::string name = "table/" + std::to_string (i);
      const Ids ids = ids_of (shards[i]);

      EXPECT_TRUE (server.rows_of (name, ids) == other.rows_of (name, ids));
      EXPECT_TRUE (server.state_of (name) == other.state_of (name));
      server.probe (name, ids, dims[i]);
      other.probe (name, ids, dims[i]);
      EXPECT_TRUE (server.rows_of (name, ids) == other.rows_of (name, ids));
    }
}

/* The rounding with its seed and the tenant must be preserved. For NEAREST, the manifest has no
 * rounding member, so that it equals manifests from before other roundings existed. */
TEST (RoundTrip, KeepsTheRoundingOfRowsAndTheTenant)
{
  SimulatedDisk disk;
  Server server (0, true), other (0, true);
  Spec plain = Spec ("plain", 3, 2).dtype (TPS_DTYPE_FLOAT16);
  Spec noisy = Spec ("noisy", 3, 2).zeros ().dtype (TPS_DTYPE_FLOAT16, TPS_ROUNDING_STOCHASTIC);
  TpsSnapshotInfo info;

  noisy.value.initializer.seed = 99;
  noisy.value.tenant = g_strdup ("team/\"ads\"");
  ASSERT_TRUE (tps_table_store_create (server.store, &plain.value, nullptr));
  ASSERT_TRUE (tps_table_store_create (server.store, &noisy.value, nullptr));
  ASSERT_EQ (write (options_of (disk.get (), server), &info), "");
  std::string manifest = disk.get_file (std::string ("snapshots/") + info.name + "/manifest.json");
  size_t member = manifest.find ("\"rounding\":2");
  EXPECT_NE (member, std::string::npos);
  EXPECT_EQ (manifest.find ("\"rounding\"", member + 1), std::string::npos);
  ASSERT_EQ (restore (options_of (disk.get (), other), &info), "");
  g_auto (TpsTableSpecs) specs = {};
  ASSERT_TRUE (tps_table_store_list (other.store, &specs, nullptr));
  ASSERT_EQ (specs.n_specs, 2u);
  EXPECT_EQ (specs.specs[0].rounding, TPS_ROUNDING_STOCHASTIC);
  EXPECT_EQ (specs.specs[0].initializer.seed, 99);
  EXPECT_STREQ (specs.specs[0].tenant, "team/\"ads\"");
  EXPECT_EQ (specs.specs[1].rounding, TPS_ROUNDING_NEAREST);
  EXPECT_EQ (specs.specs[1].tenant, nullptr);
}

/* Rows that a device has updated must be in the file as if the host had updated them. */
TEST (RoundTrip, OfADeviceGivesTheSameFileAsTheHost)
{
  for (TpsDType dtype : { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
    {
      std::string elements[2];

      for (int i = 0; i < 2; i++)
        {
          SimulatedDisk disk;
          Server server (0, true);
          Spec spec = spec_of ("emb", 5000, 7, TPS_OPTIMIZER_ADAM);
          TpsSnapshotInfo info;
          Random random (5);
          const Ids ids = ids_of (whole (5000));

          spec.dtype (dtype,
                      dtype != TPS_DTYPE_FLOAT32 ? TPS_ROUNDING_STOCHASTIC : TPS_ROUNDING_NEAREST);
          spec.on (i == 0 ? "cpu" : "fake:0");
          ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
          for (int step = 0; step < 3; step++)
            {
              Floats values = rough_floats (random, ids.size () * 7);

              ASSERT_TRUE (tps_table_store_apply_rows (server.store, "emb", view (ids),
                                                       view (values, 7), nullptr));
            }
          ASSERT_EQ (write (options_of (disk.get (), server), &info), "");
          std::string file = disk.get_file (std::string ("snapshots/") + info.name
                                            + "/table-000000.safetensors");
          guint64 header;
          std::memcpy (&header, file.data (), sizeof header);
          elements[i] = file.substr (sizeof header + header); /* the header names the place */
        }
      EXPECT_TRUE (elements[0] == elements[1]) << tps_dtype_name (dtype);
      EXPECT_GE (elements[0].size (), 5000u * 7 * (8 + tps_dtype_size (dtype)));
    }
}

INSTANTIATE_TEST_SUITE_P (All, RoundTrips,
                          testing::Values (RoundTrip { TPS_OPTIMIZER_SGD, TPS_DTYPE_FLOAT32 },
                                           RoundTrip { TPS_OPTIMIZER_ADAGRAD, TPS_DTYPE_FLOAT16 },
                                           RoundTrip { TPS_OPTIMIZER_ROWWISE_ADAGRAD,
                                                       TPS_DTYPE_BFLOAT16 },
                                           RoundTrip { TPS_OPTIMIZER_ADAM, TPS_DTYPE_FLOAT32 },
                                           RoundTrip { TPS_OPTIMIZER_ADAM, TPS_DTYPE_BFLOAT16 },
                                           RoundTrip { TPS_OPTIMIZER_FTRL, TPS_DTYPE_FLOAT32 }));

} // namespace
