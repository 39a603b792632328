/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables and a model over a data directory in this process, on a disk that can be full or fail. */

#include "runtime/server/durable/durable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "runtime/base/error.h"
#include "tests/runtime/base/trace_capture.h"
#include "tests/runtime/server/durable/durable_fixture.h"
#include "tests/runtime/server/durable/model_calls.h"
#include "tests/runtime/server/durable/recovery_driver.h"

namespace thriftps {
namespace {

using testing::HasSubstr;

/* Files of the system, with faults on request. The flags are static, so only one such disk may
 * exist at a time. */
class FaultyDisk
{
public:
  FaultyDisk ()
  {
    disk_ = tps_disk_new_posix ();
    preallocate_ = disk_->preallocate;
    write_ = disk_->write;
    disk_->preallocate = preallocate;
    disk_->write = write;
    is_full = fails = false;
  }
  ~FaultyDisk ()
  {
    tps_disk_free (disk_);
  }

  TpsDisk *
  get ()
  {
    return disk_;
  }

  static std::atomic<bool> is_full, fails;

private:
  static gboolean
  preallocate (TpsDiskFile *file, gint64 n_bytes, GError **error)
  {
    if (!is_full)
      return preallocate_ (file, n_bytes, error);
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "no room here");
    return FALSE;
  }

  static gboolean
  write (TpsDiskFile *file, gconstpointer data, gsize n_bytes, gint64 offset, gboolean is_sync,
         GError **error)
  {
    if (!fails)
      return write_ (file, data, n_bytes, offset, is_sync, error);
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL, "a bad sector");
    return FALSE;
  }

  static decltype (TpsDisk::preallocate) preallocate_;
  static decltype (TpsDisk::write) write_;
  TpsDisk *disk_;
};

std::atomic<bool> FaultyDisk::is_full, FaultyDisk::fails;
decltype (TpsDisk::preallocate) FaultyDisk::preallocate_;
decltype (TpsDisk::write) FaultyDisk::write_;

class Durable : public testing::Test
{
protected:
  Durable ()
  {
    const char *tmp = getenv ("TEST_TMPDIR");

    folder = std::string (tmp != nullptr ? tmp : "/tmp") + "/durable-XXXXXX";
    EXPECT_NE (mkdtemp (&folder[0]), nullptr);
    start ();
  }

  void
  start (TpsDurability durability = TPS_DURABILITY_COMMIT, gsize max_row_bytes_of_call = 0)
  {
    server.reset ();
    server.reset (new Server (disk.get (), folder, durability, {}, max_row_bytes_of_call));
    EXPECT_EQ (server->recover (), "");
  }

  std::string folder;
  FaultyDisk disk;
  std::unique_ptr<Server> server;
};

} // namespace

TEST_F (Durable, aStopMayBePreparedDuringTheRecovery)
{
  std::promise<int> code;

  EXPECT_EQ (server->create ("emb"), 0);
  server.reset ();
  server.reset (new Server (disk.get (), folder, TPS_DURABILITY_INTERVAL));
  EXPECT_EQ (server->phase (), TPS_DURABLE_RECOVERING);
  tps_durable_prepare_stop (
      server->durable,
      [] (gpointer user_data, gint64, const GError *error) {
        static_cast<std::promise<int> *> (user_data)->set_value (error != nullptr ? error->code
                                                                                  : 0);
      },
      &code);
  EXPECT_EQ (code.get_future ().get (), 0);
  EXPECT_EQ (server->recover (), "");
  EXPECT_EQ (server->row ("emb"), all (0));
  EXPECT_EQ (server->create ("more"), 0);
}

/* The push was within the limit at the time of its call, so the recovery must not apply the new
 * limit. */
TEST_F (Durable, aLowerLimitOfCallsDoesNotStopTheRecovery)
{
  const Ids ids { 3, 3 }, offsets { 0 };
  const Floats gradient (kDim, -1.0f);
  TpsBagGradient bag = {};
  TpsTablePush push = {};
  std::promise<int> code;

  ASSERT_EQ (server->create ("a"), 0);
  bag.query.table = "a";
  bag.query.indices = view (ids);
  bag.query.offsets = view (offsets);
  bag.query.pooling = TPS_POOLING_SUM;
  bag.gradient = view (gradient, kDim);
  push.may_wait = TRUE;
  push.gradients = &bag;
  push.n_gradients = 1;
  tps_table_store_push (
      server->store, &push,
      [] (gpointer data, const GError *error) {
        static_cast<std::promise<int> *> (data)->set_value (error != nullptr ? error->code : 0);
      },
      &code);
  EXPECT_EQ (code.get_future ().get (), 0);
  start (TPS_DURABILITY_COMMIT, 1);
  EXPECT_EQ (server->row ("a"), all (2));
}

TEST_F (Durable, nothingIsServedBeforeTheRecoveryHasEnded)
{
  g_autoptr (GError) error = nullptr;

  server.reset ();
  server.reset (new Server (disk.get (), folder, TPS_DURABILITY_COMMIT));
  EXPECT_FALSE (tps_durable_check (server->durable, &error));
  EXPECT_EQ (error->code, TPS_ERROR_UNAVAILABLE);
  EXPECT_GT (tps_error_get_retry_after_ms (error), 0);
  EXPECT_EQ (server->recover (), "");
  EXPECT_TRUE (tps_durable_check (server->durable, nullptr));
  EXPECT_EQ (server->phase (), TPS_DURABLE_LIVE);
}

/* Otherwise each query of the status would leave the phase FULL, and each large push would enter
 * it. */
TEST_F (Durable, aDiskIsFullWhileShortCommandsStillFit)
{
  Pushes pushes ("emb");
  auto deadline = std::chrono::steady_clock::now () + std::chrono::seconds (60);

  EXPECT_EQ (server->create ("emb"), 0);
  disk.is_full = true;
  while (tps_sequencer_may_admit (server->sequencer, kSegmentBytes, nullptr)
         && std::chrono::steady_clock::now () < deadline)
    if (server->n_written () < kSegmentBytes * 5 / 8)
      {
        pushes.send (*server);
        pushes.wait ();
        server->phase ();
      }
    else
      /* The log needs its next segment. It may take time to find that there is no room for it. */
      std::this_thread::yield ();
  EXPECT_EQ (server->phase (), TPS_DURABLE_FULL);
  EXPECT_THAT (server->reason, HasSubstr ("no room here"));
  pushes.send (*server);
  pushes.wait ();
  EXPECT_EQ (pushes.n_failed, 0);
  EXPECT_EQ (server->phase (), TPS_DURABLE_FULL);
  disk.is_full = false;
  while (server->phase () != TPS_DURABLE_LIVE && std::chrono::steady_clock::now () < deadline)
    std::this_thread::yield ();
  EXPECT_TRUE (tps_sequencer_may_admit (server->sequencer, kSegmentBytes, nullptr));
}

TEST_F (Durable, aFailedWriteMakesTheServerReadOnly)
{
  Pushes kept ("emb"), lost ("emb"), refused ("emb");
  thriftps_test::TraceCapture capture;

  EXPECT_EQ (server->create ("emb"), 0);
  kept.send (*server);
  kept.wait ();
  disk.fails = true;
  lost.send (*server);
  lost.wait ();
  EXPECT_EQ (lost.code, TPS_ERROR_UNAVAILABLE);
  EXPECT_THAT (lost.message (), HasSubstr ("read-only"));
  EXPECT_THAT (lost.message (), HasSubstr ("a bad sector"));

  disk.fails = false; /* the failed write is not retried */
  refused.send (*server);
  refused.wait ();
  EXPECT_EQ (refused.code, TPS_ERROR_UNAVAILABLE);
  EXPECT_EQ (server->create ("more"), TPS_ERROR_UNAVAILABLE);
  EXPECT_EQ (server->phase (), TPS_DURABLE_READ_ONLY);
  EXPECT_THAT (capture.WaitFor ("durability_changed"), HasSubstr ("a bad sector"));
  EXPECT_NE (Snapshot (*server).message, "");
  EXPECT_THAT (capture.WaitFor ("snapshot_failed"), HasSubstr ("a bad sector"));
  EXPECT_EQ (server->row ("emb"), all (2)) << "the lost push is still visible";
  start ();
  EXPECT_EQ (server->row ("emb"), all (1));
}

/* The group of the last push has several sectors, and one of them is not on the disk. */
TEST_F (Durable, aTornTailIsLogged)
{
  Pushes pushes ("emb");
  thriftps_test::TraceCapture capture;

  g_autofree gchar *format = nullptr;

  EXPECT_EQ (server->create ("emb"), 0);
  ASSERT_TRUE (g_file_get_contents ((folder + "/FORMAT").c_str (), &format, nullptr, nullptr));
  pushes.send (*server);
  pushes.wait ();
  server.reset ();
  /* A server that ends without a shutdown does not note the end of its log. */
  ASSERT_TRUE (g_file_set_contents ((folder + "/FORMAT").c_str (), format, -1, nullptr));
  std::string path = folder + "/log/00000000000000000001.log";
  g_autofree gchar *contents = nullptr;
  gsize n_bytes;
  ASSERT_TRUE (g_file_get_contents (path.c_str (), &contents, &n_bytes, nullptr));
  std::string log (contents, n_bytes);
  size_t last = log.find_last_not_of ('\0') / 512 * 512;
  log.replace (last, 512, 512, '\0');
  ASSERT_TRUE (g_file_set_contents (path.c_str (), log.data (), (gssize) log.size (), nullptr));
  start ();
  EXPECT_THAT (capture.WaitFor ("log_torn"), testing::EndsWith (" last_lsn=1"));
  EXPECT_EQ (server->row ("emb"), all (0));
}

TEST_F (Durable, aTableOfNoDurabilityIsThereAsItBegan)
{
  Pushes pushes ("none"), later ("emb");

  EXPECT_EQ (server->create ("none", TPS_DURABILITY_NONE), 0);
  pushes.send (*server);
  pushes.send (*server);
  pushes.wait ();
  EXPECT_EQ (server->create ("emb"), 0);
  later.send (*server);
  later.wait ();
  pushes.send (*server);
  pushes.wait ();
  start ();
  EXPECT_EQ (server->row ("none"), all (0));
  EXPECT_EQ (server->row ("emb"), all (1));
  EXPECT_GE (tps_sequencer_get_lsn (server->sequencer), 5);
}

/* A table without its own durability must keep the mode that the server had at the table's
 * creation. */
TEST_F (Durable, aTableKeepsTheDurabilityThatItWasMadeWith)
{
  Pushes pushes ("emb");

  EXPECT_EQ (server->create ("emb"), 0);
  start (TPS_DURABILITY_NONE);
  EXPECT_EQ (server->create ("emb"), 0) << "it is there; nothing else was said";
  EXPECT_EQ (server->create ("emb", TPS_DURABILITY_NONE), TPS_ERROR_ALREADY_EXISTS);
  pushes.send (*server);
  pushes.wait ();
  start (TPS_DURABILITY_NONE);
  EXPECT_EQ (server->row ("emb"), all (1));
}

TEST_F (Durable, withoutALogTablesThatWantOneAreRefused)
{
  TpsTableStoreOptions options = {};
  TpsTableStore *store = tps_table_store_new (&options);
  Spec spec ("emb", kRows, kDim);
  g_autoptr (GError) error = nullptr;

  spec.value.durability = TPS_DURABILITY_INTERVAL;
  EXPECT_FALSE (tps_table_store_create (store, &spec.value, &error));
  EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT (error->message, HasSubstr ("no data directory"));
  spec.value.durability = TPS_DURABILITY_NONE;
  EXPECT_TRUE (tps_table_store_create (store, &spec.value, nullptr));
  tps_table_store_free (store);
}

/* Reading the snapshot may take longer than reading the log. */
TEST_F (Durable, aRecoveryCountsTheBytesOfTheSnapshotAndOfTheLog)
{
  Pushes pushes ("emb");
  thriftps_test::TraceCapture capture;
  TpsSnapshotInfo info;
  gboolean is_writing;

  EXPECT_EQ (server->create ("emb"), 0);
  EXPECT_EQ (Snapshot (*server).message, "");
  pushes.send (*server);
  pushes.wait ();
  tps_durable_get_snapshot (server->durable, &info, &is_writing);
  start ();
  std::string line = capture.WaitFor ("recovery_started");
  EXPECT_THAT (line, HasSubstr (" bytes=0 "));
  std::string all_bytes = line.substr (line.find ("all_bytes=") + strlen ("all_"));
  all_bytes = all_bytes.substr (0, all_bytes.find (' '));
  EXPECT_GT (std::stoull (all_bytes.substr (strlen ("bytes="))), info.n_bytes);
  std::string name = std::string (" name=") + info.name + " ";
  EXPECT_THAT (capture.WaitFor ("snapshot_written"), HasSubstr (name));
  EXPECT_THAT (capture.WaitFor ("snapshot_restored"), HasSubstr (name));
  EXPECT_THAT (capture.Lines ("recovery_done").back (), HasSubstr (" " + all_bytes + " "));
}

TEST (Recovery, tracesItsProgressEveryTwoSeconds)
{
  constexpr gint64 second_ns = 1000000000;
  thriftps_test::TraceCapture capture;

  recovery_driver_run (50, second_ns);
  EXPECT_EQ (capture.Lines ("recovery_started").size (), 1u);
  EXPECT_EQ (capture.Lines ("recovery_progress").size (), 0u);
  recovery_driver_run (50, 2 * second_ns);
  ASSERT_EQ (capture.Lines ("recovery_progress").size (), 1u);
  EXPECT_THAT (capture.Lines ("recovery_progress")[0],
               HasSubstr (" lsn=0 last_lsn=9 bytes=50 all_bytes=100 remaining_ms=20"));
}

/* ---- the model ------------------------------------------------------------------------------- */

namespace {

int
init_model (Server &server)
{
  return init_model (server, { 1, 2, 3, 4 }, tps_optimizer_spec (TPS_OPTIMIZER_ADAM, 0.5));
}

Update
update (Server &server, gint64 sequence, float value)
{
  return Update (server, sequence, { value, 0, -value, 1 });
}

} // namespace

TEST_F (Durable, anUpdateThatIsLostIsNotAnswered)
{
  EXPECT_EQ (init_model (*server), 0);
  disk.fails = true;
  EXPECT_EQ (update (*server, 1, 0.5f).code, TPS_ERROR_UNAVAILABLE);
  EXPECT_EQ (update (*server, 1, 0.5f).code, TPS_ERROR_UNAVAILABLE);
  EXPECT_EQ (init_model (*server), TPS_ERROR_UNAVAILABLE);
  disk.fails = false;
  start ();
  EXPECT_EQ (update (*server, 1, 0.5f).version, 2);
}

} // namespace thriftps
