/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Snapshots while commands take effect. The central property: such a snapshot, followed by the
 * records after its LSN, gives the bits of the server that continued.
 *
 *   SEEDS=10000 FIRST_SEED=1     number of histories, and the first seed (--test_env) */

#include "tests/runtime/server/snapshot/snapshot_fixture.h"

using namespace snapshot_test;

namespace {

/* ---- histories ------------------------------------------------------------------------------- */

/* Executes commands of a history between two pieces of the snapshot, on the thread that writes the
 * snapshot. */
struct Between
{
  Caller *caller;
  Random random;
};

int n_increments; /* the number of increments in all histories */

void
run_history (uint64_t seed)
{
  Random random (seed);
  Plan plan (random);
  SimulatedDisk disk;
  Server server (0, true), other (0, true);
  Caller caller (server, plan, seed, 0);
  Between between { &caller, Random (seed + 1) };
  TpsSnapshotOptions options = options_of (disk.get (), server);
  TpsSnapshotInfo info;

  options.max_increments = static_cast<guint> (random () % 4);
  options.user_data = &between;
  options.is_cancelled = [] (gpointer data) -> gboolean {
    Between *self = static_cast<Between *> (data);

    self->caller->run (static_cast<int> (self->random () % 12));
    return FALSE;
  };
  for (const char *name : kNames)
    {
      Spec spec = plan.draw_spec (random, name);

      ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
    }
  caller.run (20);
  for (unsigned i = 0; i < 1 + random () % 5; i++)
    {
      ASSERT_EQ (write (options, &info), "");
      n_increments += info.n_increments;
      caller.run (static_cast<int> (random () % 20));
    }
  ASSERT_EQ (restore (options_of (disk.get (), other), &info), "");
  replay_rest (server, other, info.lsn);
  compare_ids (server, other);
  compare (server, other, plan);
}

TEST (Histories, HaveTheSameBitsAfterASnapshotAndReplay)
{
  unsigned long first = number_of ("FIRST_SEED", 1);

  for (unsigned long seed = first; seed < first + number_of ("SEEDS", 200); seed++)
    {
      run_history (seed);
      ASSERT_FALSE (HasFailure ()) << "FIRST_SEED=" << seed;
    }
  EXPECT_GT (n_increments, 20);
}

struct Kept
{
  TpsOptimizerKind kind;
  const char *device;
  bool is_host_memory;
  TpsDType dtype = TPS_DTYPE_FLOAT32; /* rows of other types are rounded stochastically */
};

class Pieces : public testing::TestWithParam<Kept>
{
};

/* One table consists of several pieces, with pushes between them. */
TEST_P (Pieces, OfATableAreOfDifferentTimes)
{
  constexpr int64_t n_rows = 30000;
  constexpr int32_t dim = 16;
  SimulatedDisk disk;
  Server server (0, true), other (0, true);
  Spec spec = Spec ("emb", n_rows, dim).optimizer (GetParam ().kind, 0.1);
  TpsSnapshotOptions options = options_of (disk.get (), server);
  TpsSnapshotInfo info;
  const Ids all = ids_of (whole (n_rows));
  struct Pushes
  {
    Server *server;
    Random random { 7 };
    int n = 0;
  } pushes { &server };

  spec.on (GetParam ().device, GetParam ().is_host_memory);
  if (GetParam ().dtype != TPS_DTYPE_FLOAT32)
    spec.dtype (GetParam ().dtype, TPS_ROUNDING_STOCHASTIC);
  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  server.probe ("emb", all, dim);
  options.user_data = &pushes;
  options.is_cancelled = [] (gpointer data) -> gboolean {
    Pushes *self = static_cast<Pushes *> (data);
    Ids ids (500);
    Floats values = rough_floats (self->random, ids.size () * dim);

    for (int64_t &id : ids)
      id = static_cast<int64_t> (self->random () % n_rows);
    if (self->n % 2 == 0)
      {
        EXPECT_TRUE (tps_table_store_apply_rows (self->server->store, "emb", view (ids),
                                                 view (values, dim), nullptr));
      }
    else
      {
        Query query { "emb", ids, {}, TPS_POOLING_MEAN };

        for (int64_t begin = 0; begin < 500; begin += 20)
          query.offsets.push_back (begin);
        values.resize (query.n_bags () * dim);
        TpsBagGradient gradient = { query.get (), view (values, dim) };
        EXPECT_TRUE (tps_table_store_apply_bags (self->server->store, &gradient, 1, nullptr));
      }
    self->n++;
    return FALSE;
  };
  ASSERT_EQ (write (options, &info), "");
  EXPECT_GE (pushes.n, 4);
  EXPECT_EQ (info.end_lsn, info.lsn + pushes.n);
  ASSERT_EQ (restore (options_of (disk.get (), other), &info), "");
  EXPECT_FALSE (server.rows_of ("emb", all) == other.rows_of ("emb", all));
  replay_rest (server, other, info.lsn);
  EXPECT_TRUE (server.rows_of ("emb", all) == other.rows_of ("emb", all));
  EXPECT_TRUE (server.state_of ("emb") == other.state_of ("emb"));
  EXPECT_EQ (other.list (), std::vector<std::string> { "emb" });
  g_auto (TpsTableSpecs) specs = {};
  ASSERT_TRUE (tps_table_store_list (other.store, &specs, nullptr));
  EXPECT_STREQ (specs.specs[0].place.device, GetParam ().device);
}

/* A device records whether any row has changed, but not which rows have. */
TEST_P (Pieces, OfATableAreSharedWhereNothingHasChanged)
{
  SimulatedDisk disk;
  Server server (0, true), other (0, true);
  Spec changing = Spec ("a", 100, 8), still = Spec ("b", 100, 8).optimizer (GetParam ().kind, 0.1);
  TpsSnapshotOptions options = options_of (disk.get (), server);
  TpsSnapshotInfo first, second, third;
  const Ids all = ids_of (whole (100));

  still.on (GetParam ().device, GetParam ().is_host_memory).dtype (GetParam ().dtype);
  ASSERT_TRUE (tps_table_store_create (server.store, &changing.value, nullptr));
  ASSERT_TRUE (tps_table_store_create (server.store, &still.value, nullptr));
  server.probe ("b", all, 8);
  options.max_increments = 3;
  options.keep = 3;
  ASSERT_EQ (write (options, &first), "");
  server.probe ("a", { 7 }, 8);
  ASSERT_EQ (write (options, &second), "");
  auto file_of = [&] (const TpsSnapshotInfo &info) {
    return &disk.get_file (std::string ("snapshots/") + info.name + "/table-000001.safetensors");
  };
  EXPECT_EQ (file_of (first), file_of (second));
  server.probe ("b", all, 8);
  ASSERT_EQ (write (options, &third), "");
  EXPECT_NE (file_of (third), file_of (second));
  ASSERT_EQ (restore (options_of (disk.get (), other), &third), "");
  EXPECT_TRUE (server.rows_of ("b", all) == other.rows_of ("b", all));
  EXPECT_TRUE (server.state_of ("b") == other.state_of ("b"));
}

INSTANTIATE_TEST_SUITE_P (
    All, Pieces,
    testing::Values (Kept { TPS_OPTIMIZER_ADAM, "cpu", false },
                     Kept { TPS_OPTIMIZER_ADAM, "fake:0", false },
                     Kept { TPS_OPTIMIZER_SGD, "fake:0", false },
                     Kept { TPS_OPTIMIZER_FTRL, "fake:0", true },
                     Kept { TPS_OPTIMIZER_ADAM, "cpu", false, TPS_DTYPE_FLOAT16 },
                     Kept { TPS_OPTIMIZER_ROWWISE_ADAGRAD, "fake:0", false, TPS_DTYPE_BFLOAT16 },
                     Kept { TPS_OPTIMIZER_SGD, "fake:0", true, TPS_DTYPE_FLOAT16 }));

/* The same with threads. The log ends with the last record that the observer has received. Run this
 * test with --config=tsan too. */
TEST (Histories, HaveTheSameBitsUnderThreads)
{
  SimulatedDisk disk;
  Random random (3);
  Plan plan (random);
  Server server (2, true), other (0, true);
  TpsSnapshotOptions options = options_of (disk.get (), server);
  TpsSnapshotInfo info;
  std::atomic<int> n_left { 4 };
  std::vector<std::thread> threads;
  int n_snapshots = 0;

  for (const char *name : kNames)
    {
      Spec spec = plan.draw_spec (random, name);

      ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
    }
  for (int i = 0; i < 4; i++)
    threads.emplace_back ([&, i] {
      Plan mine (plan);

      Caller (server, mine, static_cast<uint64_t> (i), i).run (300);
      n_left--;
    });
  do
    {
      std::string problem = write (options, &info);

      ASSERT_EQ (problem, "");
      n_snapshots++;
    }
  while (n_left > 0 && n_snapshots < 1000);
  for (std::thread &thread : threads)
    thread.join ();
  ASSERT_EQ (restore (options_of (disk.get (), other), &info), "");
  replay_rest (server, other, info.lsn);
  compare_ids (server, other);
  compare (server, other, plan);
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* After each piece that was read under a lock, the lock must be free: a push of all rows and a
 * lookup must end on the same thread. A piece must be so small that it takes a fraction of a
 * millisecond. */
TEST (Locks, AreHeldForPieces)
{
  constexpr int64_t kRows = 100000;
  constexpr int32_t kDim = 16;
  SimulatedDisk disk;
  Server server (0, true);
  Spec spec = spec_of ("emb", kRows, kDim, TPS_OPTIMIZER_ADAM);
  TpsSnapshotOptions options = options_of (disk.get (), server);
  TpsSnapshotInfo info;
  struct Held
  {
    Server *server;
    gsize n_bytes = 0, longest = 0;
    int n = 0;
  } held { &server };
  gsize row_bytes = kDim * 4 * 3 + 8;

  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  for (int i = 0; i < 1500; i++) /* fills the window of push ids */
    {
      TpsPushRequest request {};
      TpsPushDigest digest {};
      std::string client = "client" + std::to_string (i % 500);
      gint64 answer;

      request.client = client.c_str ();
      request.sequence = i;
      request.digest = &digest;
      ASSERT_EQ (
          tps_push_window_begin (tps_test_get_pushes (server.store), &request, &answer, nullptr),
          TPS_PUSH_NEW);
      tps_push_window_end (tps_test_get_pushes (server.store), client.c_str (), i, 0, 1);
    }
  options.max_increments = 1;
  options.user_data = &held;
  options.held = [] (gpointer data, gsize n_bytes) {
    Held *self = static_cast<Held *> (data);

    self->n++;
    self->n_bytes += n_bytes;
    self->longest = std::max (self->longest, n_bytes);
    self->server->probe ("emb", { 0, kRows / 2, kRows - 1 }, kDim);
    self->server->rows_of ("emb", { 0, kRows / 2, kRows - 1 });
  };
  ASSERT_EQ (write (options, &info), "");
  EXPECT_LE (held.longest, gsize { 256 } << 10);
  EXPECT_GE (held.n_bytes, static_cast<gsize> (kRows) * row_bytes + 1500 * 40);
  EXPECT_GE (held.n, 70);

  held = { &server };
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.n_increments, 1u);
  EXPECT_LE (held.longest, gsize { 256 } << 10);
  EXPECT_GE (held.n_bytes, static_cast<gsize> (kRows) * 8 + 3 * row_bytes);
  EXPECT_GE (held.n, 4 + 3);
}

} // namespace
