/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A snapshot of the model of a batch-updating server, followed by the later records, must give the
 * bits of the server that continued.
 *
 *   SEEDS=1000 FIRST_SEED=1     number of histories, and the first seed (--test_env) */

#include <atomic>

#include "runtime/server/snapshot/snapshot.h"
#include "tests/runtime/server/log/simulated_disk.h"
#include "tests/runtime/server/model/model_histories.h"

namespace updating_test {
namespace {

using thriftps::SimulatedDisk;

TpsSnapshotOptions
options_of (SimulatedDisk &disk, Server &server)
{
  TpsSnapshotOptions options {};

  options.disk = disk.get ();
  options.folder = "snapshots";
  options.sequencer = server.sequencer;
  options.model = server.server;
  return options;
}

std::string
text_of (GError *error)
{
  std::string text = error != nullptr ? error->message : "no error";

  g_clear_error (&error);
  return text;
}

void
write (SimulatedDisk &disk, Server &server, TpsSnapshotInfo *info)
{
  TpsSnapshotOptions options = options_of (disk, server);
  GError *error = nullptr;

  ASSERT_TRUE (tps_snapshot_write (&options, info, &error)) << text_of (error);
}

/* Restores the newest snapshot and applies the later records. */
void
restore_and_replay (SimulatedDisk &disk, const Server &from, Server &to)
{
  TpsSnapshotOptions options = options_of (disk, to);
  TpsSnapshotInfo info;
  GError *error = nullptr;

  ASSERT_TRUE (tps_snapshot_find (&options, &info, &error)) << text_of (error);
  ASSERT_TRUE (tps_snapshot_restore (&options, &info, &error)) << text_of (error);
  for (const auto &record : from.records)
    {
      if (record->command.lsn <= info.lsn)
        continue;
      ASSERT_TRUE (tps_model_server_replay (to.server, &record->command, &error))
          << record->command.lsn << ": " << text_of (error);
      ASSERT_EQ (tps_sequencer_get_lsn (to.sequencer), record->command.lsn);
    }
}

void
run_history (uint32_t seed)
{
  std::mt19937 random (seed);
  guint n_trainers = 1 + random () % 4;
  SimulatedDisk disk;
  Server server (n_trainers), other (n_trainers);
  std::vector<std::thread> threads;
  std::atomic<guint> n_left { n_trainers };
  TpsSnapshotInfo info;

  if (random () % 2 == 0)
    server.init (&random);
  for (guint i = 0; i < n_trainers; i++)
    threads.emplace_back ([&server, &n_left, i, seed] {
      train (&server, static_cast<gint32> (i), seed * 10 + i);
      n_left--;
    });
  do
    write (disk, server, &info);
  while (n_left > 0 && !testing::Test::HasFailure ());
  for (std::thread &thread : threads)
    thread.join ();
  ASSERT_FALSE (testing::Test::HasFailure ());
  restore_and_replay (disk, server, other);
  ASSERT_TRUE (server.model () == other.model ());
  for (int i = 0; i < 2; i++) /* the result depends on the optimizer's state */
    {
      Values probe = draw_values (kShapes, &random);

      ASSERT_EQ (server.push (0, probe, nullptr, 0), other.push (0, probe, nullptr, 0));
      ASSERT_TRUE (server.model () == other.model ()) << "state, probe " << i;
    }
}

} // namespace

TEST (ModelSnapshot, HasTheSameBits)
{
  unsigned long first = number_of ("FIRST_SEED", 1);

  for (unsigned long seed = first; seed < first + number_of ("SEEDS", 40); seed++)
    {
      run_history (static_cast<uint32_t> (seed));
      ASSERT_FALSE (testing::Test::HasFailure ()) << "FIRST_SEED=" << seed;
    }
}

/* The reply to a repeated push must have the version of the first reply. */
TEST (ModelSnapshot, RemembersPushIdsAndTheirAnswers)
{
  SimulatedDisk disk;
  Server server (2), other (2);
  std::mt19937 random (1);
  Values gradients = draw_values (kShapes, &random);
  TpsSnapshotInfo info;
  gint64 version = 0;

  server.init (&random);
  ASSERT_EQ (server.push (0, gradients, "c", 7), 0);
  ASSERT_EQ (server.push (1, gradients, "d", 1), 0);
  write (disk, server, &info);
  EXPECT_TRUE (info.has_model);
  server.records.clear (); /* as if the log had been deleted up to the snapshot */
  restore_and_replay (disk, server, other);
  EXPECT_EQ (other.push (0, gradients, "c", 7, &version), 0);
  EXPECT_EQ (version, 2);
  EXPECT_EQ (other.push (0, draw_values (kShapes, &random), "c", 7), TPS_ERROR_DUPLICATE);
  EXPECT_EQ (other.model ().first, 3);
}

/* The name of a parameter may be an invalid key in the file's format. */
TEST (ModelSnapshot, KeepsAnyName)
{
  SimulatedDisk disk;
  Server server (1), other (1);
  TpsSnapshotInfo info;
  TpsOptimizerSpec sgd = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.1);
  std::mt19937 random (1);
  auto parameters = to_parameters (kShapes, draw_values (kShapes, &random));
  TpsModelVersion *model;

  g_free (parameters[0].name);
  parameters[0].name = g_strdup ("__metadata__");
  g_free (parameters[1].name);
  parameters[1].name = g_strdup ("\xff\"");
  ASSERT_TRUE (tps_model_server_init_model (
      server.server, parameters.data (), static_cast<guint> (parameters.size ()), &sgd, nullptr));
  write (disk, server, &info);
  restore_and_replay (disk, server, other);
  EXPECT_TRUE (server.model () == other.model ());
  model = tps_model_server_get_model (other.server, nullptr);
  EXPECT_STREQ (model->parameters[0].name, "__metadata__");
  EXPECT_STREQ (model->parameters[1].name, "\xff\"");
  EXPECT_STREQ (model->parameters[2].name, "p2");
  tps_model_version_unref (model);
}

/* A snapshot waits for commands whose records are not durable yet, unless its caller cancels it. */
TEST (ModelSnapshot, MayBeCancelledWhileTheLogWaits)
{
  struct Log
  {
    TpsOrdered *held = nullptr;
  } log;
  SimulatedDisk disk;
  TpsSequencerOptions ordering {};
  TpsModelServerOptions model {};
  TpsSnapshotOptions options {};
  TpsSnapshotInfo info;
  GError *error = nullptr;
  std::mt19937 random (1);
  auto parameters = to_parameters (kShapes, draw_values (kShapes, &random));
  TpsOptimizerSpec sgd = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.1);
  TpsWorkerPool *workers = tps_worker_pool_new ("model", 1);
  std::mutex lock;
  std::condition_variable changed;

  static std::mutex *held_lock = &lock;
  static std::condition_variable *held_changed = &changed;
  ordering.user_data = &log;
  ordering.observe = [] (gpointer data, TpsOrdered *ordered) {
    std::lock_guard<std::mutex> guard (*held_lock);
    static_cast<Log *> (data)->held = ordered;
    held_changed->notify_all ();
  };
  TpsSequencer *sequencer = tps_sequencer_new (&ordering);
  model.n_trainers = 1;
  model.workers = workers;
  model.sequencer = sequencer;
  TpsModelServer *server = tps_model_server_new (&model, nullptr);
  std::thread thread ([&] {
    tps_model_server_init_model (server, parameters.data (),
                                 static_cast<guint> (parameters.size ()), &sgd, nullptr);
  });

  {
    std::unique_lock<std::mutex> guard (lock);
    changed.wait (guard, [&log] { return log.held != nullptr; });
  }
  options.disk = disk.get ();
  options.folder = "snapshots";
  options.sequencer = sequencer;
  options.model = server;
  int n_asked = 0;
  options.user_data = &n_asked;
  options.is_cancelled = [] (gpointer data) -> gboolean {
    return ++*static_cast<int *> (data) > 10; /* more calls than there are pieces */
  };
  EXPECT_FALSE (tps_snapshot_write (&options, &info, &error));
  EXPECT_EQ (text_of (error), "the snapshot was cancelled");
  tps_ordered_release (log.held, nullptr);
  thread.join ();
  error = nullptr;
  options.is_cancelled = nullptr;
  EXPECT_TRUE (tps_snapshot_write (&options, &info, &error));
  EXPECT_EQ (info.lsn, 1);
  tps_model_server_free (server);
  tps_sequencer_free (sequencer);
  tps_worker_pool_free (workers);
}

} // namespace updating_test
