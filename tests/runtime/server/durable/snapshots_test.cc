/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The times of snapshots, the deletion of old files after a snapshot, copies of snapshots, and
 * tables that are read from files. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/server/durable/snapshot_thread.h"
#include "tests/runtime/base/trace_capture.h"
#include "tests/runtime/server/durable/durable_fixture.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace thriftps {
namespace {

constexpr gint64 kSecond = 1000000000;

/* ---- times of snapshots ---------------------------------------------------------------------- */

/* The state of a snapshot thread, with simulated time and without the thread itself. */
class Due : public testing::Test
{
protected:
  ~Due () override
  {
    tps_snapshot_thread_clear (&thread);
  }

  void
  begin (gint64 interval_ns, gint64 n_log_bytes)
  {
    TpsSnapshotThreadOptions options = {};

    options.interval_ns = interval_ns;
    options.log_bytes = n_log_bytes;
    options.write = [] (gpointer data) -> gboolean {
      Due *self = static_cast<Due *> (data);

      self->n_written++;
      return !self->fails;
    };
    options.get_log_bytes = [] (gpointer data) { return static_cast<Due *> (data)->log_bytes; };
    options.user_data = this;
    tps_snapshot_thread_init (&thread, &options);
    EXPECT_FALSE (step (100 * kSecond)) << "nothing is due before the server is live";
    EXPECT_EQ (wake_ns, G_MAXINT64);
    tps_snapshot_thread_begin (&thread, 0, log_bytes);
  }

  bool
  step (gint64 now_ns)
  {
    return tps_snapshot_thread_step (&thread, now_ns, &wake_ns);
  }

  TpsSnapshotThread thread {};
  gint64 log_bytes = 1000, wake_ns = 0;
  int n_written = 0;
  bool fails = false;
};

} // namespace

TEST_F (Due, byTimeAnIntervalAfterTheLastOneWasBegun)
{
  begin (10 * kSecond, 0);
  EXPECT_FALSE (step (10 * kSecond - 1));
  EXPECT_EQ (wake_ns, 10 * kSecond);
  EXPECT_TRUE (step (10 * kSecond));
  EXPECT_FALSE (step (20 * kSecond - 1));
  tps_snapshot_thread_note (&thread, 15 * kSecond, 0); /* a snapshot on request */
  EXPECT_FALSE (step (20 * kSecond));
  EXPECT_EQ (wake_ns, 25 * kSecond);
  EXPECT_TRUE (step (25 * kSecond));
  EXPECT_EQ (n_written, 2);
}

TEST_F (Due, bySizeWhenTheLogHasGrown)
{
  begin (0, 500);
  log_bytes = 1499;
  EXPECT_FALSE (step (1));
  EXPECT_LT (wake_ns, 2 * kSecond) << "the log is looked at again";
  log_bytes = 1500;
  EXPECT_TRUE (step (2));
  EXPECT_FALSE (step (3));
  log_bytes = 2000;
  EXPECT_TRUE (step (4));
  EXPECT_EQ (n_written, 2);
}

TEST_F (Due, aMinuteAfterAFailureAndNotBefore)
{
  begin (1000 * kSecond, 500);
  fails = true;
  log_bytes = 1500;
  EXPECT_TRUE (step (1));
  EXPECT_FALSE (step (TPS_SNAPSHOT_RETRY_NS));
  EXPECT_EQ (wake_ns, TPS_SNAPSHOT_RETRY_NS + 1);
  fails = false;
  EXPECT_TRUE (step (TPS_SNAPSHOT_RETRY_NS + 1));
  EXPECT_FALSE (step (TPS_SNAPSHOT_RETRY_NS + 2));
  EXPECT_EQ (n_written, 2);
}

TEST_F (Due, oneJobAtATime)
{
  struct Steps
  {
    TpsSnapshotThread *thread;
    std::vector<int> done;
  } steps { &thread, {} };
  TpsSnapshotJob job = {};
  g_autoptr (GError) error = nullptr;

  job.run = [] (gpointer data) { static_cast<Steps *> (data)->done.push_back (1); };
  job.ended = [] (gpointer data) {
    Steps *self = static_cast<Steps *> (data);
    TpsSnapshotJob next = {};

    self->done.push_back (2);
    next.run = [] (gpointer more) { static_cast<Steps *> (more)->done.push_back (3); };
    next.ended = [] (gpointer) {};
    next.data = self;
    if (self->done.size () == 2)
      {
        EXPECT_TRUE (tps_snapshot_thread_submit (self->thread, &next, nullptr));
      }
  };
  job.data = &steps;
  begin (0, 0);
  EXPECT_TRUE (tps_snapshot_thread_submit (&thread, &job, nullptr));
  EXPECT_FALSE (tps_snapshot_thread_submit (&thread, &job, &error));
  EXPECT_EQ (error->code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_GT (tps_error_get_retry_after_ms (error), 0);
  EXPECT_TRUE (step (1));
  EXPECT_TRUE (step (1)) << "the end of a job may bring the next one";
  EXPECT_FALSE (step (1));
  EXPECT_EQ (steps.done, (std::vector<int> { 1, 2, 3 }));
  tps_snapshot_thread_stop (&thread);
  EXPECT_FALSE (tps_snapshot_thread_submit (&thread, &job, nullptr));
}

/* ---- snapshots of a server ------------------------------------------------------------------- */

namespace {

std::vector<std::string>
list (TpsDisk *disk, const std::string &folder)
{
  g_auto (GStrv) names = disk->list (disk, folder.c_str (), nullptr);
  std::vector<std::string> found;

  for (guint i = 0; names != nullptr && names[i] != nullptr; i++)
    found.push_back (names[i]);
  return found;
}

} // namespace

/* The server must keep three snapshots, and the log from the oldest of them on. */
TEST (Snapshots, staySoManyWithTheLogThatTheyNeed)
{
  SimulatedDisk disk (1);
  TpsDurableOptions options = {};
  Pushes pushes ("emb");
  std::vector<gint64> lsns;

  options.keep_snapshots = 3;
  Server server (disk.get (), "data", TPS_DURABILITY_COMMIT, options);
  ASSERT_EQ (server.recover (), "");
  ASSERT_EQ (server.create ("emb"), 0);
  for (int round = 0; round < 5; round++)
    {
      for (int i = 0; i < 60; i++) /* several segments */
        pushes.send (server);
      pushes.wait ();
      Snapshot snapshot (server);
      ASSERT_EQ (snapshot.message, "");
      lsns.push_back (snapshot.lsn);
      EXPECT_EQ (snapshot.oldest_lsn, lsns[round < 2 ? 0 : lsns.size () - 3]);
    }
  EXPECT_EQ (list (disk.get (), "data/snapshots").size (), 3u);
  EXPECT_GE (list (disk.get (), "data/log").front (), "00000000000000000003.log");
}

/* ---- a start with a copy --------------------------------------------------------------------- */

namespace {

/* Makes the data directory "from". It has a snapshot after two pushes, and a third push in its
 * log. */
void
make_source (TpsDisk *disk)
{
  Server server (disk, "from", TPS_DURABILITY_COMMIT);
  Pushes pushes ("emb");

  ASSERT_EQ (server.recover (), "");
  ASSERT_EQ (server.create ("emb"), 0);
  for (int i = 0; i < 3; i++)
    {
      pushes.send (server);
      pushes.wait ();
      if (i == 1)
        {
          Snapshot snapshot (server);
          ASSERT_EQ (snapshot.message, "");
        }
    }
}

} // namespace

TEST (Copies, areWhereAnEmptyServerBegins)
{
  SimulatedDisk disk (1);
  TpsDurableOptions options = {};
  Pushes pushes ("emb");

  make_source (disk.get ());
  for (const char *path : { "from", "from/snapshots" })
    {
      std::string folder = std::string (path) + "/copy";

      options.restore_from = path;
      Server server (disk.get (), folder, TPS_DURABILITY_COMMIT, options);
      ASSERT_EQ (server.recover (), "");
      EXPECT_EQ (server.row ("emb"), all (2));
      pushes.send (server);
      pushes.wait ();
      EXPECT_EQ (pushes.n_failed, 0);
      EXPECT_EQ (server.row ("emb"), all (3)) << "rows of the copy take later changes";
    }
  for (const char *from : { "nowhere", static_cast<const char *> (nullptr), "from" })
    {
      options.restore_from = from; /* not read, because the server already has state */
      Server server (disk.get (), "from/copy", TPS_DURABILITY_COMMIT, options);
      ASSERT_EQ (server.recover (), "");
      EXPECT_EQ (server.row ("emb"), all (3));
    }
}

/* Wherever the power fails, the server must finally start with the copy and continue from there. */
TEST (Copies, mayBeReadAgainAfterAPowerCut)
{
  bool is_cut = true;

  for (unsigned n = 1; is_cut && n < 1000; n++)
    {
      thriftps_test::TraceCapture log;
      SimulatedDisk disk (n);
      TpsDurableOptions options = {};

      make_source (disk.get ());
      options.restore_from = "from";
      {
        Server server (disk.get (), "data", TPS_DURABILITY_COMMIT, options);
        disk.cut_after (n);
        is_cut = !server.recover ().empty ();
        EXPECT_EQ (is_cut, server.phase () == TPS_DURABLE_FAILED);
        EXPECT_EQ (log.Lines ("recovery_failed").size (), is_cut ? 1u : 0u);
      }
      disk.restart ();
      Server server (disk.get (), "data", TPS_DURABILITY_COMMIT, options);
      ASSERT_EQ (server.recover (), "") << "cut at " << n;
      ASSERT_EQ (server.row ("emb"), all (2)) << "cut at " << n;
    }
  EXPECT_FALSE (is_cut);
}

/* ---- tables from files ----------------------------------------------------------------------- */

namespace {

/* A server that may read below "from", the data directory of make_source(). */
class Tables : public testing::Test
{
protected:
  Tables ()
  {
    make_source (disk.get ());
    options.import_folder = "from";
    options.snapshot_increments = 4;
    start ();
  }

  void
  start ()
  {
    server.reset ();
    server.reset (new Server (disk.get (), "data", TPS_DURABILITY_COMMIT, options));
    ASSERT_EQ (server->recover (), "");
  }

  /* Returns the error message, or "". Sets `code`. */
  std::string
  restore (const std::vector<std::string> &paths, const std::vector<Spec> &specs = {},
           bool are_snapshots = true)
  {
    std::vector<const gchar *> names;
    std::vector<TpsTableSpec> values;
    TpsTableSource source = {};
    Snapshot snapshot;

    for (const std::string &path : paths)
      names.push_back (path.c_str ());
    for (const Spec &spec : specs)
      values.push_back (spec.value);
    source.paths = names.data ();
    source.n_paths = static_cast<guint> (names.size ());
    source.are_snapshots = are_snapshots;
    source.specs = values.data ();
    source.n_specs = static_cast<guint> (values.size ());
    tps_durable_restore (server->durable, &source, Snapshot::done, &snapshot);
    snapshot.wait ();
    code = snapshot.code;
    return snapshot.message;
  }

  void
  push (int n = 1)
  {
    Pushes pushes ("emb");

    for (int i = 0; i < n; i++)
      pushes.send (*server);
    pushes.wait ();
    EXPECT_EQ (pushes.n_failed, 0) << pushes.message ();
  }

  SimulatedDisk disk { 1 };
  TpsDurableOptions options = {};
  std::unique_ptr<Server> server;
  int code = 0;
};

} // namespace

/* The directory is the server's own, and its snapshots form a chain of increments. */
TEST_F (Tables, ofIncrementsAreThoseOfTheLastOne)
{
  options.import_folder = "data";
  start ();
  ASSERT_EQ (server->create ("emb"), 0);
  ASSERT_EQ (Snapshot (*server, true).message, "");
  for (int i = 0; i < 2; i++)
    {
      TpsTablePush one = {};
      Ids ids { 3 };
      Floats values (kDim, -1.0f);

      one.may_wait = TRUE;
      one.table = "emb";
      one.indices = view (ids);
      one.values = view (values, kDim);
      ASSERT_TRUE (tps_table_store_push_and_wait (server->store, &one, nullptr));
      Snapshot snapshot (*server, true);
      EXPECT_EQ (snapshot.n_increments, static_cast<guint> (i + 1));
    }
  ASSERT_TRUE (tps_table_store_drop (server->store, "emb", nullptr));
  EXPECT_EQ (restore ({ "snapshots" }), "");
  EXPECT_EQ (server->row ("emb"), all (2));
}

TEST_F (Tables, comeAllOrNone)
{
  Spec emb = Spec ("emb", kRows, kDim).zeros ();
  Spec missing = Spec ("missing", kRows, kDim).zeros ();

  EXPECT_THAT (restore ({ "snapshots" }, { emb, missing }), testing::HasSubstr ("missing"));
  EXPECT_EQ (code, TPS_ERROR_NOT_FOUND);
  EXPECT_NE (restore ({ "snapshots" }, { emb, emb }), "");
  EXPECT_EQ (code, TPS_ERROR_ALREADY_EXISTS);
  EXPECT_EQ (tps_table_store_estimate_rows (server->store, "emb", 1), 0);
  EXPECT_EQ (server->create ("emb"), 0) << "the name is free";
  EXPECT_NE (restore ({ "snapshots" }), "");
  EXPECT_EQ (code, TPS_ERROR_ALREADY_EXISTS);
  EXPECT_EQ (server->row ("emb"), all (0));
}

/* The header of the file declares more bytes than all tables may take. */
TEST_F (Tables, takeNoMoreThanTheirBudget)
{
  Spec spec = Spec ("big", 1, 1);
  std::string n_bytes (8, '\0');
  gsize held = tps_budget_get_held (server->store->budget);

  tps_budget_set_max (server->store->budget, 64 << 20);
  n_bytes[3] = 5; /* 80 MiB, but 16 times as much is charged */
  TpsDiskFile *file = disk.get ()->open (disk.get (), "from/big.safetensors", TPS_DISK_CREATE,
                                         nullptr);
  disk.get ()->write (file, n_bytes.data (), 8, 0, TRUE, nullptr);
  disk.get ()->preallocate (file, 100 << 20, nullptr);
  disk.get ()->close (file);
  EXPECT_THAT (restore ({ "big.safetensors" }, { spec }, false), testing::HasSubstr ("header"));
  EXPECT_EQ (code, TPS_ERROR_RESOURCE_EXHAUSTED);
  file = disk.get ()->open (disk.get (), "from/copy/manifest.json", TPS_DISK_CREATE, nullptr);
  disk.get ()->preallocate (file, 10 << 20, nullptr);
  disk.get ()->close (file);
  EXPECT_THAT (restore ({ "copy" }), testing::HasSubstr ("manifest"));
  EXPECT_EQ (code, TPS_ERROR_RESOURCE_EXHAUSTED);
  Spec many = Spec ("emb", int64_t { 1 } << 40, kDim);
  EXPECT_NE (restore ({ "snapshots" }, { many }), "");
  EXPECT_EQ (code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (tps_budget_get_held (server->store->budget), held);
}

/* After a cut, the table must be the one of the snapshot, or be absent. */
TEST (Restorations, mayBeCutAnywhere)
{
  bool is_cut = true;
  int n_there = 0;

  for (unsigned n = 1; is_cut && n < 1000; n++)
    {
      SimulatedDisk disk (n);
      TpsDurableOptions options = {};
      const gchar *path = "snapshots";
      TpsTableSource source = { &path, 1, TRUE, nullptr, 0, nullptr };

      make_source (disk.get ());
      options.import_folder = "from";
      {
        Server server (disk.get (), "data", TPS_DURABILITY_COMMIT, options);
        Snapshot snapshot;

        ASSERT_EQ (server.recover (), "");
        disk.cut_after (n);
        tps_durable_restore (server.durable, &source, Snapshot::done, &snapshot);
        snapshot.wait ();
        is_cut = !snapshot.message.empty ();
        disk.cut_after (1);
      }
      disk.restart ();
      Server server (disk.get (), "data", TPS_DURABILITY_COMMIT, options);
      ASSERT_EQ (server.recover (), "") << "cut at " << n;
      bool is_there = tps_table_store_estimate_rows (server.store, "emb", 1) > 0;
      EXPECT_TRUE (is_there || is_cut);
      n_there += is_there ? 1 : 0;
      if (is_there)
        {
          EXPECT_EQ (server.row ("emb"), all (2)) << "cut at " << n;
        }
    }
  EXPECT_FALSE (is_cut);
  EXPECT_GT (n_there, 0);
}

} // namespace thriftps
