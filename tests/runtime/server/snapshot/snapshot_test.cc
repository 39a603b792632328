/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Snapshots of tables. The central property: a snapshot that was written while commands took effect, with the records after
 * its LSN, gives the bits of the server that went on.
 *
 *   SEEDS=10000 FIRST_SEED=1     histories, and the first one's seed (--test_env)
 */

#include "runtime/server/snapshot/snapshot.h"

#include <glib/gstdio.h>
#include <sys/wait.h>

#include "runtime/server/push_export.h"
#include "runtime/server/snapshot/export.h"
#include "runtime/server/snapshot/import.h"
#include "tests/runtime/server/log/simulated_disk.h"
#include "tests/runtime/server/snapshot/memory_disk.h"
#include "tests/runtime/server/tables/histories.h"

using namespace embedding_test;
using snapshot_test::MemoryDisk;

namespace {

TpsSnapshotOptions
options_of (MemoryDisk &disk, Server &server)
{
  TpsSnapshotOptions options {};

  options.disk = disk.get ();
  options.folder = "snapshots";
  options.sequencer = server.sequencer;
  options.tables = server.store;
  return options;
}

std::string
write (const TpsSnapshotOptions &options, TpsSnapshotInfo *info)
{
  GError *error = nullptr;

  return tps_snapshot_write (&options, info, &error) ? "" : describe (error);
}

std::string
restore (const TpsSnapshotOptions &options, TpsSnapshotInfo *info)
{
  GError *error = nullptr;
  bool ok = tps_snapshot_find (&options, info, &error)
            && (info->name[0] == '\0' || tps_snapshot_restore (&options, info, &error));

  return ok ? "" : describe (error);
}

/* The records after the snapshot. */
void
replay_rest (const Server &from, Server &to, gint64 lsn)
{
  for (const auto &record : from.records)
    {
      GError *error = nullptr;

      if (record->command.lsn <= lsn)
        continue;
      ASSERT_TRUE (tps_table_store_replay (to.store, &record->command, &error))
          << "lsn " << record->command.lsn << ": " << describe (error);
      ASSERT_EQ (tps_sequencer_get_lsn (to.sequencer), record->command.lsn);
    }
}

/* What a window says of a push that it may know; it is as before. */
TpsPushVerdict
ask (TpsPushWindow *window, const TpsCommandId &id, gint64 incarnation = 0)
{
  TpsPushRequest request {};
  gint64 unused;
  TpsPushVerdict verdict;

  request.client = id.client;
  request.sequence = id.sequence;
  request.digest = &id.digest;
  request.incarnation = incarnation;
  verdict = tps_push_window_begin (window, &request, &unused, nullptr);
  if (verdict == TPS_PUSH_NEW)
    tps_push_window_fail (window, id.client, id.sequence, nullptr);
  return verdict;
}

/* Every id that was ever used has the same meaning on both servers. */
void
compare_ids (const Server &one, const Server &other)
{
  for (const auto &record : one.records)
    {
      if (record->command.id.client == nullptr)
        continue;
      ASSERT_EQ (ask (tps_test_get_pushes (one.store), record->command.id),
                 ask (tps_test_get_pushes (other.store), record->command.id))
          << record->command.lsn;
    }
}

/* ---- round trips ----------------------------------------------------------------------------- */

struct RoundTrip
{
  TpsOptimizerKind kind;
  TpsDType dtype;
};

class RoundTrips : public testing::TestWithParam<RoundTrip>
{
};

/* Sizes that are no multiples of blocks, more than one piece, all kinds of shards. */
TEST_P (RoundTrips, AreExact)
{
  const TpsShard shards[] = { whole (5000), range_shard (15000, 1, 3), hash_shard (9999, 1, 2) };
  const int32_t dims[] = { 1, 7, 33 };
  MemoryDisk disk;
  Server server (0, true), other (0, true);
  TpsSnapshotInfo info;
  std::vector<std::string> names;
  Random random (1);

  for (int i = 0; i < 3; i++)
    {
      std::string name = "table/" + std::to_string (i);
      Spec spec = spec_of (name, shards[i].rows, dims[i], GetParam ().kind);
      Ids ids;

      spec.shard (shards[i]).dtype (GetParam ().dtype);
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
  ASSERT_EQ (write (options_of (disk, server), &info), "");
  EXPECT_EQ (info.lsn, 9);
  EXPECT_EQ (info.end_lsn, 9);
  EXPECT_EQ (info.n_tables, 3u);
  ASSERT_EQ (restore (options_of (disk, other), &info), "");
  EXPECT_EQ (tps_sequencer_get_lsn (other.sequencer), 9);
  ASSERT_EQ (server.list (), other.list ());
  for (int i = 0; i < 3; i++)
    {
      std::string name = "table/" + std::to_string (i);
      Ids ids;

      for (int64_t slot = 0; slot < shards[i].n_rows; slot++)
        ids.push_back (tps_shard_get_row (&shards[i], slot));
      EXPECT_TRUE (server.rows_of (name, ids) == other.rows_of (name, ids));
      EXPECT_TRUE (server.state_of (name) == other.state_of (name));
      server.probe (name, ids, dims[i]);
      other.probe (name, ids, dims[i]);
      EXPECT_TRUE (server.rows_of (name, ids) == other.rows_of (name, ids));
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

/* ---- histories ------------------------------------------------------------------------------- */

/* Commands of a history that take effect between two pieces of the snapshot, by the thread that writes it. */
struct Between
{
  Caller *caller;
  Random random;
};

int n_increments; /* of all histories */

void
run_history (uint64_t seed)
{
  Random random (seed);
  Plan plan (random);
  MemoryDisk disk;
  Server server (0, true), other (0, true);
  Caller caller (server, plan, seed, 0);
  Between between { &caller, Random (seed + 1) };
  TpsSnapshotOptions options = options_of (disk, server);
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
  ASSERT_EQ (restore (options_of (disk, other), &info), "");
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
};

class Pieces : public testing::TestWithParam<Kept>
{
};

/* Several pieces of one table, with pushes between them. */
TEST_P (Pieces, OfATableAreOfDifferentTimes)
{
  constexpr int64_t n_rows = 16000;
  constexpr int32_t dim = 16;
  MemoryDisk disk;
  Server server (0, true), other (0, true);
  Spec spec = Spec ("emb", n_rows, dim).optimizer (GetParam ().kind, 0.1);
  TpsSnapshotOptions options = options_of (disk, server);
  TpsSnapshotInfo info;
  Ids all (n_rows);
  struct Pushes
  {
    Server *server;
    Random random { 7 };
    int n = 0;
  } pushes { &server };

  for (int64_t i = 0; i < n_rows; i++)
    all[static_cast<size_t> (i)] = i;
  spec.on (GetParam ().device, GetParam ().is_host_memory);
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
    else /* the rows that are maxima now, whatever the snapshot shows of them */
      {
        Query query { "emb", ids, {}, TPS_POOLING_MAX };

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
  ASSERT_EQ (restore (options_of (disk, other), &info), "");
  EXPECT_FALSE (server.rows_of ("emb", all) == other.rows_of ("emb", all));
  replay_rest (server, other, info.lsn);
  EXPECT_TRUE (server.rows_of ("emb", all) == other.rows_of ("emb", all));
  EXPECT_TRUE (server.state_of ("emb") == other.state_of ("emb"));
  EXPECT_EQ (other.list (), std::vector<std::string> { "emb" });
  g_autoptr (GArray) specs = tps_table_store_list (other.store);
  EXPECT_STREQ (g_array_index (specs, TpsTableSpec, 0).place.device, GetParam ().device);
}

/* A device does not know which rows have changed, but whether any has. */
TEST_P (Pieces, OfATableAreSharedWhereNothingHasChanged)
{
  MemoryDisk disk;
  Server server (0, true), other (0, true);
  Spec changing = Spec ("a", 100, 8), still = Spec ("b", 100, 8).optimizer (GetParam ().kind, 0.1);
  TpsSnapshotOptions options = options_of (disk, server);
  TpsSnapshotInfo first, second, third;
  Ids all (100);

  for (int64_t i = 0; i < 100; i++)
    all[static_cast<size_t> (i)] = i;
  still.on (GetParam ().device, GetParam ().is_host_memory);
  ASSERT_TRUE (tps_table_store_create (server.store, &changing.value, nullptr));
  ASSERT_TRUE (tps_table_store_create (server.store, &still.value, nullptr));
  server.probe ("b", all, 8);
  options.max_increments = 3;
  options.keep = 3;
  ASSERT_EQ (write (options, &first), "");
  server.probe ("a", { 7 }, 8);
  ASSERT_EQ (write (options, &second), "");
  auto file_of = [&] (const TpsSnapshotInfo &info) {
    return disk.files[std::string ("snapshots/") + info.name + "/table-000001.safetensors"];
  };
  ASSERT_NE (file_of (first), nullptr);
  EXPECT_EQ (file_of (first), file_of (second));
  server.probe ("b", all, 8);
  ASSERT_EQ (write (options, &third), "");
  EXPECT_NE (file_of (third), file_of (second));
  ASSERT_EQ (restore (options_of (disk, other), &third), "");
  EXPECT_TRUE (server.rows_of ("b", all) == other.rows_of ("b", all));
  EXPECT_TRUE (server.state_of ("b") == other.state_of ("b"));
}

INSTANTIATE_TEST_SUITE_P (All, Pieces,
                          testing::Values (Kept { TPS_OPTIMIZER_ADAM, "cpu", false },
                                           Kept { TPS_OPTIMIZER_ADAM, "fake:0", false },
                                           Kept { TPS_OPTIMIZER_SGD, "fake:0", false },
                                           Kept { TPS_OPTIMIZER_FTRL, "fake:0", true }));

/* The same with threads; the log's end is what the observer has seen. Run it with --config=tsan too. */
TEST (Histories, HaveTheSameBitsUnderThreads)
{
  MemoryDisk disk;
  Random random (3);
  Plan plan (random);
  Server server (2, true), other (0, true);
  TpsSnapshotOptions options = options_of (disk, server);
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
  ASSERT_EQ (restore (options_of (disk, other), &info), "");
  replay_rest (server, other, info.lsn);
  compare_ids (server, other);
  compare (server, other, plan);
}

/* ---- increments ------------------------------------------------------------------------------ */

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
        for (int64_t slot = 0; slot < shards[i].n_rows; slot++)
          rows[i].push_back (tps_shard_get_row (&shards[i], slot));
        push (i, rows[i]);
      }
    options = options_of (disk, server);
    options.max_increments = 3;
  }

  void
  push (int table, const Ids &ids)
  {
    Floats values = rough_floats (random, ids.size () * static_cast<size_t> (kDims[table]));

    ASSERT_TRUE (tps_table_store_apply_rows (server.store, names[table].c_str (), view (ids),
                                             view (values, kDims[table]), nullptr));
  }

  /* Every `step`-th row, from one that is drawn on. */
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

    ASSERT_EQ (restore (options_of (disk, other), &found), "");
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
  MemoryDisk disk;
  Server server { 0, true };
  TpsSnapshotOptions options;
  TpsSnapshotInfo info;
};

constexpr int32_t Increments::kDims[];

/* Rows at both ends, in runs and alone, in more than one piece. */
TEST_P (Increments, HoldWhatHasChanged)
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

TEST_P (Chains, OutliveTheSnapshotsThatTheyComeFrom)
{
  options.keep = 1;
  ASSERT_EQ (write (options, &info), "");
  for (int i = 0; i < 3; i++)
    {
      push_some (1, 20);
      ASSERT_EQ (write (options, &info), "");
    }
  EXPECT_EQ (info.n_increments, 3u);
  compare_restored ();
  EXPECT_EQ (disk.folders.size (), 2u);
}

TEST_P (Chains, BeginAnewWithAnotherTableOfTheName)
{
  ASSERT_EQ (write (options, &info), "");
  ASSERT_TRUE (tps_table_store_drop (server.store, "one", nullptr));
  Spec spec = spec_of ("one", 4000, 1, GetParam ().kind);
  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  push_some (0, 100);
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.n_increments, 0u);
  compare_restored ();
}

TEST_P (Chains, AreNotMadeWhereFilesHaveOneName)
{
  ASSERT_EQ (write (options, &info), "");
  push_some (0, 100);
  disk.has_links = false;
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (info.n_increments, 0u);
  compare_restored ();
}

/* Other programs read files by their end, and must not take old rows for the table. */
TEST_P (Chains, DoNotLookLikeWholeTables)
{
  ASSERT_EQ (write (options, &info), "");
  push_some (2, 100);
  ASSERT_EQ (write (options, &info), "");
  std::vector<std::string> files;
  for (const std::string &path : disk.paths ())
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
  std::string &bytes = *disk.files.at (std::string ("snapshots/") + info.name
                                       + "/table-000002.increment-01");
  for (size_t at = 0; at < bytes.size (); at += 1009)
    {
      Server other (0, true);
      TpsSnapshotInfo found;

      bytes[at] = static_cast<char> (bytes[at] ^ 4);
      ASSERT_NE (restore (options_of (disk, other), &found), "") << at;
      bytes[at] = static_cast<char> (bytes[at] ^ 4);
    }
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* After each piece that was read under a lock, the lock is free: a push of all rows and a lookup,
 * by the same thread, end. No piece is longer than a fraction of a millisecond takes. */
TEST (Locks, AreHeldForPieces)
{
  constexpr int64_t kRows = 100000;
  constexpr int32_t kDim = 16;
  MemoryDisk disk;
  Server server (0, true);
  Spec spec = spec_of ("emb", kRows, kDim, TPS_OPTIMIZER_ADAM);
  TpsSnapshotOptions options = options_of (disk, server);
  TpsSnapshotInfo info;
  struct Held
  {
    Server *server;
    gsize n_bytes = 0, longest = 0;
    int n = 0;
  } held { &server };
  gsize row_bytes = kDim * 4 * 3 + 8;

  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  for (int i = 0; i < 1500; i++) /* ids of clients */
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

/* ---- push ids -------------------------------------------------------------------------------- */

TpsPushDigest
digest_of (gint64 sequence)
{
  TpsPushDigest digest {};

  memcpy (digest.bytes, &sequence, sizeof sequence);
  return digest;
}

/* A window of few clients, so that windows become floors and floors windows again; a push at a time. */
class Window
{
public:
  explicit Window (guint max_clients = 6)
  {
    TpsPushWindowOptions options {};

    options.window = 8;
    options.max_clients = max_clients;
    window = tps_push_window_new (&options);
  }
  ~Window ()
  {
    tps_push_window_free (window);
  }

  void
  push (const std::string &client, gint64 sequence, gint64 lsn)
  {
    TpsPushDigest digest = digest_of (sequence);
    TpsPushRequest request {};
    gint64 answer;

    request.client = client.c_str ();
    request.sequence = sequence;
    request.digest = &digest;
    if (tps_push_window_begin (window, &request, &answer, nullptr) == TPS_PUSH_NEW)
      tps_push_window_end (window, client.c_str (), sequence, sequence * 3, lsn);
  }

  TpsPushVerdict
  ask (const std::string &client, gint64 sequence)
  {
    return ::ask (window, { client.c_str (), sequence, digest_of (sequence) });
  }

  TpsPushWindow *window;
};

/* No id that was used before the export began is new for a window that was made of its records. */
TEST (PushIds, AreNeverNewAgain)
{
  for (uint64_t seed = 1; seed <= number_of ("SEEDS", 300); seed++)
    {
      Random random (seed);
      Window from, to;
      std::vector<std::pair<std::string, gint64>> used;
      std::map<std::string, gint64> sequences;
      GByteArray *records = g_byte_array_new ();
      gint64 lsn = 0;
      gsize n_used;
      auto push = [&] {
        std::string client = "client" + std::to_string (random () % 12);
        gint64 sequence = sequences[client] += static_cast<gint64> (random () % 4);

        from.push (client, sequence, ++lsn);
        return std::make_pair (client, sequence);
      };

      for (size_t i = 0; i < 20 + random () % 300; i++)
        used.push_back (push ());
      tps_push_export_begin (from.window);
      if (random () % 2 == 0) /* given up in the middle */
        {
          tps_push_export_some (from.window, records);
          g_byte_array_set_size (records, 0);
          tps_push_export_begin (from.window);
        }
      do
        for (size_t i = 0; i < random () % 20; i++)
          push ();
      while (tps_push_export_some (from.window, records));
      ASSERT_TRUE (tps_push_export_read (to.window, records->data, records->len, &n_used));
      ASSERT_EQ (n_used, records->len);
      for (const auto &id : used)
        ASSERT_NE (to.ask (id.first, id.second), TPS_PUSH_NEW)
            << id.first << " " << id.second << ", seed " << seed;
      g_byte_array_unref (records);
    }
}

/* What is remembered is remembered with its answer, also in many pieces. */
TEST (PushIds, KeepTheirAnswers)
{
  Window from (2000), to (2000);
  GByteArray *records = g_byte_array_new ();
  gint64 lsn = 0;
  gint64 answer;
  gsize n_used;
  int n_pieces = 0;

  for (int client = 0; client < 1000; client++)
    for (gint64 sequence = 1; sequence <= 10; sequence++)
      from.push ("client" + std::to_string (client), sequence, ++lsn);
  tps_push_export_begin (from.window);
  while (tps_push_export_some (from.window, records))
    n_pieces++;
  EXPECT_GT (n_pieces, 3);
  ASSERT_TRUE (tps_push_export_read (to.window, records->data, records->len, &n_used));
  for (int client = 0; client < 1000; client++)
    {
      std::string name = "client" + std::to_string (client);
      TpsPushDigest digest = digest_of (10);
      TpsPushRequest request {};

      request.client = name.c_str ();
      request.sequence = 10;
      request.digest = &digest;
      ASSERT_EQ (tps_push_window_begin (to.window, &request, &answer, nullptr), TPS_PUSH_REPEAT);
      ASSERT_EQ (answer, 30);
      ASSERT_EQ (to.ask (name, 1), TPS_PUSH_REFUSED);
      ASSERT_EQ (to.ask (name, 11), TPS_PUSH_NEW);
    }
  g_byte_array_unref (records);
}

TEST (PushIds, RefuseWhatIsNoRecord)
{
  Window from, to;
  GByteArray *records = g_byte_array_new ();
  gsize n_used;

  from.push ("client", 1, 1);
  tps_push_export_begin (from.window);
  ASSERT_TRUE (tps_push_export_some (from.window, records));
  ASSERT_TRUE (tps_push_export_read (to.window, records->data, records->len - 1, &n_used));
  EXPECT_EQ (n_used, 0u); /* the rest may follow */
  records->data[0] = 7;
  EXPECT_FALSE (tps_push_export_read (to.window, records->data, records->len, &n_used));
  EXPECT_EQ (to.ask ("client", 1), TPS_PUSH_NEW);
  g_byte_array_unref (records);
}

/* ---- folders --------------------------------------------------------------------------------- */

class Folders : public testing::Test
{
protected:
  Folders ()
  {
    Spec spec = Spec ("emb", 100, 4).optimizer (TPS_OPTIMIZER_ADAGRAD, 0.1);

    EXPECT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
    options = options_of (disk, server);
  }

  void
  push ()
  {
    server.probe ("emb", { 1, 2, 3 }, 4);
  }

  /* What a restoration says; the store is a new one. */
  std::string
  restored ()
  {
    Server other (0, true);
    TpsSnapshotInfo found;

    return restore (options_of (disk, other), &found);
  }

  std::string &
  file (const std::string &name)
  {
    return *disk.files.at (std::string ("snapshots/") + info.name + "/" + name);
  }

  MemoryDisk disk;
  Server server { 0, true };
  TpsSnapshotOptions options;
  TpsSnapshotInfo info;
};

TEST_F (Folders, MayBeEmpty)
{
  ASSERT_TRUE (tps_snapshot_find (&options, &info, nullptr));
  EXPECT_STREQ (info.name, "");
}

TEST_F (Folders, KeepTheNewest)
{
  options.keep = 2;
  for (int i = 0; i < 4; i++)
    {
      push ();
      ASSERT_EQ (write (options, &info), "");
    }
  EXPECT_EQ (info.lsn, 5);
  EXPECT_EQ (info.oldest_lsn, 4);
  for (const std::string &path : disk.paths ())
    EXPECT_THAT (
        path, testing::MatchesRegex ("snapshots/snapshot-0000000000000000000[45]/"
                                     "(manifest.json|table-000000.safetensors|table-pushes.ids)"));
  EXPECT_EQ (disk.paths ().size (), 6u);
  EXPECT_EQ (disk.folders.size (), 3u);
}

TEST_F (Folders, AreLeftAsTheyAreWhereNothingHasChanged)
{
  TpsSnapshotInfo again;

  ASSERT_EQ (write (options, &info), "");
  ASSERT_EQ (write (options, &again), "");
  EXPECT_STREQ (info.name, again.name);
}

TEST_F (Folders, LoseIncompleteSnapshots)
{
  ASSERT_EQ (write (options, &info), "");
  push ();
  disk.writes_left = 1;
  EXPECT_EQ (write (options, &info), "RESOURCE_EXHAUSTED write: no space left");
  disk.writes_left = -1;
  ASSERT_TRUE (tps_snapshot_find (&options, &info, nullptr));
  EXPECT_EQ (info.lsn, 1); /* the one before is whole */
  EXPECT_EQ (restored (), "");
  push ();
  ASSERT_EQ (write (options, &info), "");
  EXPECT_EQ (disk.folders.size (), 3u);
}

TEST_F (Folders, WaitForTheLog)
{
  options.flush = [] (gpointer, gint64 lsn, GError **error) -> gboolean {
    EXPECT_EQ (lsn, 1);
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL, "the log is broken");
    return FALSE;
  };
  EXPECT_EQ (write (options, &info), "INTERNAL the log is broken");
  ASSERT_TRUE (tps_snapshot_find (&options, &info, nullptr));
  EXPECT_STREQ (info.name, "");
}

/* The log has not been handed a command that is admitted and has not been completed: to flush it says nothing of
 * that one. */
TEST_F (Folders, WaitForCommandsThatAreUnderWay)
{
  struct Late
  {
    TpsSequencer *sequencer;
    TpsCommand command {};
    TpsOrdered ordered {};
    int n_asked = 0, n_pieces = 0;
    bool is_flushed = false;
  } late;

  late.sequencer = server.sequencer;
  late.command.kind = TPS_COMMAND_DROP_TABLE;
  late.command.drop = "another";
  late.ordered.command = &late.command;
  options.user_data = &late;
  options.is_cancelled = [] (gpointer data) -> gboolean {
    static_cast<Late *> (data)->n_pieces++;
    return FALSE;
  };
  ASSERT_EQ (write (options, &info), "");
  push ();
  options.is_cancelled = [] (gpointer data) -> gboolean {
    Late *self = static_cast<Late *> (data);

    if (++self->n_asked == 1)
      tps_sequencer_admit (self->sequencer, &self->ordered, nullptr);
    if (self->n_asked == self->n_pieces + 1) /* all files are written */
      tps_sequencer_finish (self->sequencer, &self->ordered);
    return FALSE;
  };
  options.flush = [] (gpointer data, gint64 lsn, GError **) -> gboolean {
    Late *self = static_cast<Late *> (data);

    self->is_flushed = true;
    EXPECT_EQ (lsn, self->command.lsn);
    EXPECT_EQ (tps_sequencer_get_ended_lsn (self->sequencer), lsn);
    return TRUE;
  };
  EXPECT_EQ (write (options, &info), "");
  EXPECT_TRUE (late.is_flushed);
  EXPECT_EQ (info.end_lsn, late.command.lsn);
}

TEST_F (Folders, MayBeCancelled)
{
  options.is_cancelled = [] (gpointer) -> gboolean { return TRUE; };
  EXPECT_EQ (write (options, &info), "ABORTED the snapshot was cancelled");
}

/* Every seventh byte of each file, damaged, is noticed. */
TEST_F (Folders, NoticeDamage)
{
  ASSERT_EQ (write (options, &info), "");
  ASSERT_EQ (restored (), "");
  for (const char *name : { "manifest.json", "table-000000.safetensors", "table-pushes.ids" })
    {
      std::string &bytes = file (name);

      for (size_t at = 0; at < bytes.size (); at += 7)
        {
          std::string whole = bytes;

          bytes[at] = static_cast<char> (bytes[at] ^ 4);
          ASSERT_NE (restored (), "") << name << " at " << at;
          bytes = whole;
        }
    }
}

TEST_F (Folders, NameWhatIsWrong)
{
  std::string table = "table-000000.safetensors";
  std::string folder, whole;

  ASSERT_EQ (write (options, &info), "");
  folder = std::string ("snapshots/") + info.name + "/";
  whole = file (table);
  file (table).resize (whole.size () - 1);
  EXPECT_EQ (restored (), "ABORTED " + folder + table
                              + ": the file ends before its tensors do at offset "
                              + std::to_string (whole.size () - 1));
  file (table) = whole;
  file (table)[4096] ^= 1;
  EXPECT_THAT (restored (),
               testing::AllOf (testing::HasSubstr (folder + table),
                               testing::HasSubstr ("tensor emb.lsn at offset 4096 to 4896")));
  disk.files.erase (folder + table);
  EXPECT_EQ (restored (), "NOT_FOUND open " + folder + table);
  file ("manifest.json").resize (10);
  EXPECT_EQ (restored (),
             "ABORTED " + folder + "manifest.json: the manifest is truncated at offset 10");
}

/* Direct writes, folders that are removed, and lengths that are no multiples of blocks, on a real file system. */
TEST_F (Folders, MayBeOnARealDisk)
{
  g_autoptr (TpsDisk) real = tps_disk_new_posix ();
  std::string folder = testing::TempDir () + "/snapshots";
  Server other (0, true);
  TpsSnapshotInfo found;

  options.disk = real;
  options.folder = folder.c_str ();
  options.keep = 1;
  for (int i = 0; i < 3; i++)
    {
      push ();
      ASSERT_EQ (write (options, &info), "");
    }
  g_auto (GStrv) names = real->list (real, folder.c_str (), nullptr);
  ASSERT_EQ (g_strv_length (names), 1u);
  TpsSnapshotOptions others = options_of (disk, other);
  others.disk = real;
  others.folder = folder.c_str ();
  ASSERT_EQ (restore (others, &found), "");
  EXPECT_EQ (server.rows_of ("emb", { 0, 1, 2, 3 }), other.rows_of ("emb", { 0, 1, 2, 3 }));
}

/* ---- power cuts ------------------------------------------------------------------------------ */

/* The power fails in the middle of one of the disk's operations. What is found afterwards is whole: the snapshot that was
 * written last, or the one before. (The log is taken to be there.) */
void
cut_power (uint32_t seed)
{
  Random random (seed);
  thriftps::SimulatedDisk disk (seed);
  MemoryDisk unused;
  Plan plan (random);
  Server server (0, true), other (0, true);
  Caller caller (server, plan, seed, 0);
  TpsSnapshotOptions options = options_of (unused, server);
  TpsSnapshotInfo info {}, found;
  gint64 written = -1;

  options.disk = disk.get ();
  options.keep = static_cast<guint> (1 + random () % 2);
  options.max_increments = static_cast<guint> (random () % 4);
  for (const char *name : kNames)
    {
      Spec spec = plan.draw_spec (random, name);

      ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
    }
  for (bool is_cut = false; !is_cut;)
    {
      caller.run (10);
      if (random () % 2 == 0)
        disk.cut_after (1 + random () % 60);
      is_cut = !write (options, &info).empty ();
      written = is_cut ? written : info.lsn;
    }
  ASSERT_TRUE (disk.is_off ());
  disk.restart ();
  TpsSnapshotOptions others = options_of (unused, other);
  others.disk = disk.get ();
  std::string problem = restore (others, &found);
  if (found.name[0] == '\0')
    {
      ASSERT_EQ (written, -1) << problem; /* only the first one may be lost */
      return;
    }
  ASSERT_EQ (problem, "");
  ASSERT_GE (found.lsn, written);
  replay_rest (server, other, found.lsn);
  compare_ids (server, other);
  compare (server, other, plan);
}

TEST (PowerCuts, LeaveWholeSnapshots)
{
  unsigned long first = number_of ("FIRST_SEED", 1);

  for (unsigned long seed = first; seed < first + number_of ("SEEDS", 150); seed++)
    {
      cut_power (static_cast<uint32_t> (seed));
      ASSERT_FALSE (HasFailure ()) << "FIRST_SEED=" << seed;
    }
}

/* NumPy and safetensors read a table's file; skipped where there is no NumPy. */
TEST (Files, AreReadByOthers)
{
  g_autoptr (TpsDisk) disk = tps_disk_new_posix ();
  std::string folder = testing::TempDir () + "/read_by_others";
  std::string expected = folder + "/expected";
  MemoryDisk unused;
  Server server (0, true);
  Spec spec = spec_of ("a/b", 700, 6, TPS_OPTIMIZER_ADAM).shard (hash_shard (700, 0, 1));
  TpsSnapshotOptions options = options_of (unused, server);
  TpsSnapshotInfo info;
  Ids all (700);

  for (size_t i = 0; i < all.size (); i++)
    all[i] = static_cast<int64_t> (i);
  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  server.probe ("a/b", all, 6);
  options.disk = disk;
  options.folder = folder.c_str ();
  ASSERT_EQ (write (options, &info), "");
  std::string rows = server.rows_of ("a/b", all);
  ASSERT_TRUE (g_file_set_contents (expected.c_str (), rows.data (),
                                    static_cast<gssize> (rows.size ()), nullptr));
  std::string command = "/usr/bin/python3 tests/runtime/server/snapshot/read_snapshot.py " + folder
                        + "/" + info.name + "/table-000000.safetensors a/b " + expected;
  int status = system (command.c_str ());
  if (WEXITSTATUS (status) == 77)
    GTEST_SKIP () << "python3-numpy is not installed";
  EXPECT_EQ (status, 0);
}

/* Three shards, each of a server of its own, on a real disk. */
class Checkpoints : public testing::Test
{
protected:
  static constexpr int64_t kRows = 1001;
  static constexpr int32_t kDim = 5;

  Checkpoints ()
  {
    Server whole_table (0, true);
    Spec spec = spec_of ("emb", kRows, kDim, TPS_OPTIMIZER_ADAM);
    Ids ids = all_of (spec);

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

  static Ids
  all_of (const Spec &spec)
  {
    Ids ids;

    for (int64_t slot = 0; slot < spec.value.shard.n_rows; slot++)
      ids.push_back (tps_shard_get_row (&spec.value.shard, slot));
    return ids;
  }

  static void
  push (Server &server, const Ids &ids)
  {
    Floats values;

    for (int64_t id : ids) /* the same for a row in every shard */
      for (int32_t column = 0; column < kDim; column++)
        values.push_back (static_cast<float> (id % 13 + column));
    EXPECT_TRUE (
        tps_table_store_apply_rows (server.store, "emb", view (ids), view (values, kDim), nullptr));
  }

  /* A whole snapshot and an increment; the folder of the latter, or with `is_whole` of one like it
   * that is whole. */
  std::string
  write_shard (const TpsShard &shard, bool is_whole)
  {
    Server server (0, true);
    Spec spec = spec_of ("emb", kRows, kDim, TPS_OPTIMIZER_ADAM).shard (shard);
    TpsSnapshotOptions options = options_of (unused, server);
    std::string path = folder + "/shard" + std::to_string (n_shards++);
    TpsSnapshotInfo info;
    Ids late;

    for (int64_t id : { int64_t { 0 }, int64_t { 500 }, kRows - 1 })
      for (int64_t own : all_of (spec))
        if (own == id)
          late.push_back (id);
    EXPECT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
    push (server, all_of (spec));
    options.disk = disk;
    options.folder = path.c_str ();
    options.max_increments = is_whole ? 0 : 1;
    EXPECT_EQ (write (options, &info), "");
    if (!late.empty ())
      push (server, late);
    EXPECT_EQ (write (options, &info), "");
    EXPECT_EQ (info.n_increments, is_whole || late.empty () ? 0u : 1u);
    return path + "/" + info.name;
  }

  /* The exit status of a reader of others. */
  int
  read (const std::string &checkpoint, const std::string &kind)
  {
    std::string command = "/usr/bin/python3 tests/runtime/server/snapshot/read_checkpoint.py "
                          + checkpoint + " emb " + folder + "/expected " + kind;

    return WEXITSTATUS (system (command.c_str ()));
  }

  std::string folder, expected;
  MemoryDisk unused;
  TpsDisk *disk = tps_disk_new_posix ();
  int n_shards = 0;
};

/* Files of all shards in one folder, under names of their own. */
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

/* Chains of hash shards become one table in order. */
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
  EXPECT_THAT (describe (error), testing::HasSubstr ("is in none of the files"));
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

TEST_F (Folders, NeedRowsWithLsns)
{
  Server plain (0);

  EXPECT_EQ (write (options_of (disk, plain), &info),
             "INVALID_ARGUMENT snapshots need a store of tables that keeps the LSNs of rows");
}

/* ---- imports --------------------------------------------------------------------------------- */

std::string
import_into (Server &server, MemoryDisk &disk, const std::vector<std::string> &paths,
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

/* Three hash shards become a whole table, a range and two other hash shards: rows and states of each id stay. */
TEST (Import, IntoOtherShards)
{
  constexpr int64_t n_rows = 1001;
  constexpr int32_t dim = 5;
  const TpsShard targets[] = { whole (n_rows), range_shard (n_rows, 2, 4),
                               hash_shard (n_rows, 0, 2), hash_shard (n_rows, 1, 2) };
  MemoryDisk disk;
  Server reference (0, true), twice (0, true);
  std::vector<std::string> paths;
  Spec spec = spec_of ("emb", n_rows, dim, TPS_OPTIMIZER_ADAM);

  ASSERT_TRUE (tps_table_store_create (reference.store, &spec.value, nullptr));
  for (int32_t i = 0; i < 3; i++)
    {
      Server server (0, true);
      Spec part =
          spec_of ("emb", n_rows, dim, TPS_OPTIMIZER_ADAM).shard (hash_shard (n_rows, i, 3));
      TpsSnapshotOptions options = options_of (disk, server);
      std::string folder = "shard" + std::to_string (i);
      TpsSnapshotInfo info;
      Ids ids;

      for (int64_t slot = 0; slot < part.value.shard.n_rows; slot++)
        ids.push_back (tps_shard_get_row (&part.value.shard, slot));
      ASSERT_TRUE (tps_table_store_create (server.store, &part.value, nullptr));
      server.probe ("emb", ids, dim);
      options.folder = folder.c_str ();
      ASSERT_EQ (write (options, &info), "");
      paths.push_back (folder + "/" + info.name + "/table-000000.safetensors");
    }
  Ids all;
  for (int64_t row = 0; row < n_rows; row++)
    all.push_back (row);
  reference.probe ("emb", all, dim);
  ASSERT_TRUE (tps_table_store_create (twice.store, &spec.value, nullptr));
  twice.probe ("emb", all, dim);
  twice.probe ("emb", all, dim);
  for (const TpsShard &target : targets)
    {
      Server server (0, true);
      Spec into = spec_of ("emb", n_rows, dim, TPS_OPTIMIZER_ADAM).shard (target);
      Ids ids;

      for (int64_t slot = 0; slot < target.n_rows; slot++)
        ids.push_back (tps_shard_get_row (&target, slot));
      ASSERT_EQ (import_into (server, disk, paths, into), "");
      EXPECT_EQ (tps_sequencer_get_lsn (server.sequencer), 1);
      EXPECT_TRUE (server.rows_of ("emb", ids) == reference.rows_of ("emb", ids));
      server.probe ("emb", ids, dim); /* what the states say */
      EXPECT_TRUE (server.rows_of ("emb", ids) == twice.rows_of ("emb", ids));
    }
  paths.pop_back ();
  Server server (0, true);
  EXPECT_THAT (import_into (server, disk, paths, spec),
               testing::HasSubstr ("is in none of the files"));
}

/* Adam's second step needs moments and the number of steps of the first one. */
TEST (Import, KeepsStates)
{
  MemoryDisk disk;
  Server server (0, true), other (0, true);
  Spec spec = spec_of ("emb", 50, 3, TPS_OPTIMIZER_ADAM);
  TpsSnapshotInfo info;
  Ids ids { 3, 17, 49 };

  ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  server.probe ("emb", ids, 3);
  ASSERT_EQ (write (options_of (disk, server), &info), "");
  ASSERT_EQ (import_into (other, disk,
                          { std::string ("snapshots/") + info.name + "/table-000000.safetensors" },
                          Spec (spec).shard (whole (50))),
             "");
  EXPECT_TRUE (server.state_of ("emb") == other.state_of ("emb"));
  server.probe ("emb", ids, 3);
  other.probe ("emb", ids, 3);
  EXPECT_TRUE (server.rows_of ("emb", ids) == other.rows_of ("emb", ids));
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

TEST (Import, TakesArraysOfNumPyAndConvertsThem)
{
  MemoryDisk disk;
  Server server (0, true);
  Spec spec = Spec ("emb", 3, 2).dtype (TPS_DTYPE_BFLOAT16);

  disk.files["a.npy"] = std::make_shared<std::string> (npy (
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }", { 1, 2, 3, 4, 5, 6.01f }));
  ASSERT_EQ (import_into (server, disk, { "a.npy" }, spec), "");
  EXPECT_EQ (to_floats (server.rows_of ("emb", { 2, 1, 0 }), TPS_DTYPE_BFLOAT16),
             (Floats { 5, 6, 3, 4, 1, 2 }));
  for (const char *wrong : { "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }",
                             "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 2), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2", "{" })
    {
      Server another (0, true);

      disk.files["a.npy"] = std::make_shared<std::string> (npy (wrong, { 1, 2, 3, 4, 5, 6 }));
      EXPECT_NE (import_into (another, disk, { "a.npy" }, spec), "") << wrong;
      EXPECT_TRUE (another.list ().empty ());
    }
}

/* Numbers and names of headers that say something else: taken or refused, with no memory left charged. */
TEST (Import, BelievesNoHeader)
{
  MemoryDisk disk;
  Server server (0, true);
  Spec spec = spec_of ("emb", 60, 3, TPS_OPTIMIZER_ADAM).shard (hash_shard (60, 1, 2));
  TpsSnapshotOptions options = options_of (disk, server);
  TpsSnapshotInfo info;
  Random random (11);
  std::vector<std::string> paths;
  int n_taken = 0;
  Ids ids;

  for (int64_t slot = 0; slot < spec.value.shard.n_rows; slot++)
    ids.push_back (tps_shard_get_row (&spec.value.shard, slot));
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
      std::string &bytes = *disk.files.at (paths[i % 2]);
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
  EXPECT_EQ (import_into (server, disk, paths, spec),
             "ALREADY_EXISTS table emb: there is one already");
}

/* As torch.distributed.checkpoint writes them: a part of a tensor, with its offset. */
TEST (Import, TakesPartsOfATensor)
{
  MemoryDisk disk;
  Server server (0, true);
  auto part = [&disk] (const std::string &path, int first_row, const Floats &values) {
    std::string json =
        "{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"w\\\":{\\\"saved_offsets\\\":["
        + std::to_string (first_row) + ",0]}}\"},\"w\":{\"dtype\":\"F32\",\"shape\":["
        + std::to_string (values.size () / 2) + ",2],\"data_offsets\":[0,"
        + std::to_string (values.size () * 4) + "]}}";
    uint64_t n_bytes = json.size ();
    std::string length (reinterpret_cast<const char *> (&n_bytes), 8);

    disk.files[path] = std::make_shared<std::string> (
        length + json
        + std::string (reinterpret_cast<const char *> (values.data ()), 4 * values.size ()));
  };

  part ("a.safetensors", 1, { 3, 4, 5, 6 });
  part ("b.safetensors", 0, { 1, 2 });
  ASSERT_EQ (import_into (server, disk, { "a.safetensors", "b.safetensors" }, Spec ("emb", 3, 2)),
             "");
  EXPECT_EQ (to_floats (server.rows_of ("emb", { 0, 1, 2 }), TPS_DTYPE_FLOAT32),
             (Floats { 1, 2, 3, 4, 5, 6 }));
}

} // namespace
