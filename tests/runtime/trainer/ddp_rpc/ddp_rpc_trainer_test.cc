/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ddp_rpc/ddp_rpc_trainer.h"

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trainer/pass/trainer.h"
#include "runtime/device/device_library.h"
#include "runtime/base/error.h"
#include "tests/oracle/vectors.h"
#include "tests/runtime/trainer/ddp/fakes.h"
#include "tests/runtime/trainer/ddp_rpc/local_tables.h"
#include "tests/runtime/trainer/ddp_rpc/scatter.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace {

using oracle::vectors;
using oracle::worst_difference;
using testing::HasSubstr;

constexpr float LEARNING_RATE = 0.05f;

/* -- parts of a pass that the tests add -- */

/* The parameters of the trainers of the last run with "RememberingTrainer", by name. */
std::mutex remembered_lock;
std::map<std::string, std::vector<float>> remembered;

/* Makes a model whose parameters have the values of the oracle's vectors. */
gboolean
create_scattered (TpsPass *pass, GError **error)
{
  TpsStream *stream = pass->model->stream;

  if (!tps_ddp_model_maker_find ("basic_ddp_model", nullptr)->create (pass, error))
    return FALSE;
  for (guint i = 0; i < pass->model->n_parameters; i++)
    {
      const TpsParameter *parameter = &pass->model->parameters[i];
      std::vector<float> values (static_cast<size_t> (tps_shape_n_elems (&parameter->shape)));

      scatter (values.data (), static_cast<gint64> (values.size ()), i, PARAMETER_BOUND);
      stream->device->ops->copy (stream, parameter->value, values.data (),
                                 tps_shape_n_bytes (&parameter->shape));
      if (!stream->device->ops->stream_sync (stream, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
run_and_remember (TpsPass *pass, GError **error)
{
  if (!tps_ddp_rpc_trainer_class.run (pass, error))
    return FALSE;
  std::lock_guard<std::mutex> lock (remembered_lock);
  for (guint i = 0; i < pass->model->n_parameters; i++)
    {
      const TpsParameter *parameter = &pass->model->parameters[i];
      TpsStream *stream = pass->model->stream;
      std::vector<float> &values = remembered[parameter->name];

      values.resize (static_cast<size_t> (tps_shape_n_elems (&parameter->shape)));
      stream->device->ops->copy (stream, values.data (), parameter->value,
                                 tps_shape_n_bytes (&parameter->shape));
      if (!stream->device->ops->stream_sync (stream, error))
        return FALSE;
    }
  return TRUE;
}

const TpsDdpModelMaker scattered_maker = { "scattered_ddp_model", create_scattered };
const TpsTrainerClass remembering_trainer = { "RememberingTrainer", tps_ddp_rpc_trainer_class.check,
                                              run_and_remember, TRUE };

void
register_parts ()
{
  static bool is_done = false;

  if (is_done)
    return;
  is_done = true;
  tps_ddp_model_maker_register (&scattered_maker);
  tps_trainer_class_register (&remembering_trainer);
}

/* -- runs -- */

struct Task
{
  guint n_tables = 2;
  gint64 dim = 256;
  gint64 num_embeddings = 30;
  guint epochs = 2;
  guint batches = 3;
  std::string arguments; /* for example ", 'task': <'learnable'>" */
  std::string model = "HybridModel";
  std::string maker = "basic_ddp_model";
  double table_bound = 0.5;
  std::string device = "cpu"; /* "cuda": a fake device that computes like the CPU */
};

std::string
table_names (guint n)
{
  std::string names = "emb0";

  for (guint t = 1; t < n; t++)
    names += ",emb" + std::to_string (t);
  return names;
}

void
set (gchar **field, const std::string &value)
{
  g_free (*field);
  *field = g_strdup (value.c_str ());
}

class Fleet
{
public:
  explicit Fleet (const Task &task, guint n_trainers = 1) : tables (LEARNING_RATE), task_ (task)
  {
    register_parts ();
    for (guint t = 0; t < task.n_tables; t++)
      tables.add ("emb" + std::to_string (t), task.num_embeddings, task.dim,
                  SCATTER_FIRST_TABLE + t, task.table_bound);
    for (guint r = 0; r < n_trainers; r++)
      {
        TpsTrainerLinks links = {};

        links.connect_store = [] (gpointer self, const TpsTrainPlan *, GError **) {
          return static_cast<Fleet *> (self)->store_.open ();
        };
        links.connect_tables = [] (gpointer self, const TpsTrainPlan *, TpsDevice *device,
                                   GError **) {
          Fleet *fleet = static_cast<Fleet *> (self);

          return fleet->tables.open (fleet->other_device != nullptr ? fleet->other_device : device);
        };
        links.user_data = this;
        metrics_.push_back (tps_metrics_new (nullptr, nullptr));
        trainers_.push_back (tps_trainer_new (&links, metrics_[r]));
      }
  }

  ~Fleet ()
  {
    for (TpsTrainer *trainer : trainers_)
      tps_trainer_free (trainer);
    for (TpsMetrics *metrics : metrics_)
      tps_metrics_unref (metrics);
  }

  /* Returns "" if the pass has started, or the error. */
  std::string
  start (guint rank)
  {
    GError *error = nullptr;

    tps_trainer_train (trainers_[rank], make_plan (rank), &error);
    return text_of (error);
  }

  /* Returns "SUCCEEDED", "CANCELLED", or the error. */
  std::string
  wait (guint rank)
  {
    for (;; std::this_thread::yield ())
      {
        g_auto (TpsTrainStatus) status = {};

        tps_trainer_get_status (trainers_[rank], &status);
        loss = status.loss;
        samples = status.samples;
        digest.assign (reinterpret_cast<char *> (status.parameters_digest), 16);
        if (status.state == TPS_TRAIN_SUCCEEDED)
          return "SUCCEEDED";
        if (status.state == TPS_TRAIN_CANCELLED)
          return "CANCELLED";
        if (status.state == TPS_TRAIN_FAILED)
          return std::string (tps_error_code_name (status.error->code)) + ": "
                 + status.error->message;
      }
  }

  std::string
  run ()
  {
    for (guint r = 0; r < trainers_.size (); r++)
      EXPECT_EQ (start (r), "");
    for (guint r = 0; r + 1 < trainers_.size (); r++)
      EXPECT_EQ (wait (r), "SUCCEEDED");
    return wait (static_cast<guint> (trainers_.size ()) - 1);
  }

  void
  cancel (guint rank)
  {
    tps_trainer_cancel (trainers_[rank]);
  }

  LocalTables tables;
  TpsDevice *other_device = nullptr; /* of results; if NULL, the trainer's device */

  /* The results of the trainer of the last wait(). */
  double loss = 0;
  gint64 samples = 0;
  std::string digest;

private:
  TpsTrainPlan *
  make_plan (guint rank)
  {
    TpsTrainPlan *plan = tps_train_plan_new ();
    std::string arguments = "{'tables': <'" + table_names (task_.n_tables)
                            + "'>, 'embedding_dim': <int64 " + std::to_string (task_.dim)
                            + ">, 'num_embeddings': <int64 " + std::to_string (task_.num_embeddings)
                            + ">" + task_.arguments + "}";

    set (&plan->pass_name, "pass-1");
    set (&plan->trainer, "RememberingTrainer");
    set (&plan->model_class, task_.model);
    set (&plan->create_ddp_model, task_.maker);
    set (&plan->device, task_.device);
    g_variant_unref (plan->trainer_config);
    plan->trainer_config = g_variant_ref_sink (g_variant_new_parsed (arguments.c_str ()));
    plan->rank = rank;
    plan->world_size = static_cast<guint> (trainers_.size ());
    plan->epochs = task_.epochs;
    plan->steps_per_epoch = task_.batches;
    plan->seed = 7;
    plan->learning_rate = static_cast<double> (LEARNING_RATE);
    return plan;
  }

  Task task_;
  MemoryStore store_;
  std::vector<TpsMetrics *> metrics_;
  std::vector<TpsTrainer *> trainers_;
};

/* -- against PyTorch -- */

void
expect_equal_to_pytorch (const std::string &name, const Task &task)
{
  Fleet fleet (task);
  constexpr double TOLERANCE = 2e-6;

  remembered.clear ();
  EXPECT_EQ (fleet.run (), "SUCCEEDED");
  EXPECT_NEAR (fleet.loss, static_cast<double> (vectors ().floats (name + "/loss")[0]), 1e-5);
  EXPECT_EQ (fleet.samples, vectors ().ints (name + "/samples")[0]);
  for (guint t = 0; t < task.n_tables; t++)
    {
      const std::vector<float> &values = fleet.tables.values ("emb" + std::to_string (t));

      EXPECT_LT (worst_difference (sample (values.data (), static_cast<int64_t> (values.size ()),
                                           SAMPLE_OF_TABLES),
                                   vectors ().floats (name + "/table" + std::to_string (t))),
                 TOLERANCE);
    }
  EXPECT_EQ (remembered.size (), 10u);
  for (const auto &[parameter, values] : remembered)
    EXPECT_LT (worst_difference (sample (values.data (), static_cast<int64_t> (values.size ()),
                                         SAMPLE_OF_PARAMETERS),
                                 vectors ().floats (name + "/" + parameter)),
               TOLERANCE)
        << parameter;
}

class DdpRpcTrainerOnDevices : public testing::TestWithParam<std::string>
{
};

INSTANTIATE_TEST_SUITE_P (Devices, DdpRpcTrainerOnDevices, testing::Values ("cpu", "cuda"),
                          [] (const auto &device) { return device.param; });

TEST_P (DdpRpcTrainerOnDevices, TrainsTablesAndLayersAsPyTorchDoes)
{
  Task task;

  task.device = GetParam ();
  task.maker = "scattered_ddp_model";
  expect_equal_to_pytorch ("ddp_rpc", task);
}

TEST_P (DdpRpcTrainerOnDevices, RepeatsTargetsWhereABagGivesSeveralRows)
{
  Task task;

  task.device = GetParam ();
  task.maker = "scattered_ddp_model";
  task.dim = 512;
  task.num_embeddings = 20;
  task.epochs = 1;
  task.batches = 4;
  task.arguments = ", 'task': <'learnable'>";
  expect_equal_to_pytorch ("ddp_rpc_two_rows_a_bag", task);
}

/* -- behaviour -- */

TEST (DdpRpcTrainer, ADeviceComesToTheBitsOfTheCpu)
{
  Task task;
  Fleet here (task);

  task.device = "cuda";
  Fleet there (task);
  EXPECT_EQ (here.run (), "SUCCEEDED");
  EXPECT_EQ (there.run (), "SUCCEEDED");
  EXPECT_EQ (here.digest, there.digest);
  EXPECT_EQ (here.loss, there.loss);
  EXPECT_EQ (here.tables.values ("emb0"), there.tables.values ("emb0"));
}

/* -- results of lookups in memory of the trainer's device -- */

const TpsFakeDeviceControl *
fake_devices ()
{
  return static_cast<const TpsFakeDeviceControl *> (
      tps_device_library_get ()->library->find_interface (TPS_FAKE_DEVICE_CONTROL));
}

TEST (DdpRpcTrainer, AResultOnAnotherDeviceIsRefused)
{
  Task task;

  task.device = "cuda:0";
  Fleet fleet (task);
  fleet.tables.on_device = { "emb1" };
  fleet.other_device = tps_device_find ("cuda:1", nullptr);
  EXPECT_EQ (fleet.run (),
             "INVALID_ARGUMENT: epoch 0, batch 0: lookup: table emb1: its pooled rows "
             "are in memory of cuda:1, expected host memory or cuda:0");
}

/* -- failures -- */

TEST (DdpRpcTrainer, EndsWithTheErrorOfAFailedDeviceAllocation)
{
  TpsDevice *device = tps_device_find ("cuda:0", nullptr);
  std::string result;
  guint n_failed = 0;
  Task task;

  task.device = "cuda:0";
  task.epochs = task.batches = 1;
  do
    {
      Fleet fleet (task);

      fake_devices ()->fail_alloc (device, ++n_failed);
      result = fleet.start (0);
      result = result.empty () ? fleet.wait (0) : result;
      EXPECT_THAT (result,
                   testing::AnyOf ("SUCCEEDED", testing::StartsWith ("RESOURCE_EXHAUSTED")));
      EXPECT_EQ (fake_devices ()->get_n_bytes (device), 0u) << "memory is left over";
    }
  while (result != "SUCCEEDED" && n_failed < 1000);
  EXPECT_GT (n_failed, 10u);
  fake_devices ()->fail_alloc (device, 0);
}

TEST (DdpRpcTrainer, EndsWhenItsDeviceIsLost)
{
  static TpsDevice *device = tps_device_find ("cuda:1", nullptr);
  Task task;

  task.device = "cuda:1";
  Fleet fleet (task);
  fleet.tables.failure = [] (size_t call, bool) {
    if (call == 5)
      fake_devices ()->set_lost (device, TRUE);
    return "";
  };
  EXPECT_EQ (fleet.start (0), "");
  EXPECT_THAT (fleet.wait (0), testing::StartsWith ("DEVICE_LOST: epoch"));
  fake_devices ()->set_lost (device, FALSE);
}

TEST (DdpRpcTrainer, ReleasesTheOthersWhenOneFails)
{
  Fleet fleet (Task (), 2);
  size_t n_pushes = 0;

  /* It does not matter which trainer's push fails: the other trainer waits in the all-reduce of the
   * next step, or at the end. */
  fleet.tables.failure = [&n_pushes] (size_t, bool is_push) {
    return is_push && ++n_pushes == 2 ? "out of ink" : "";
  };
  EXPECT_EQ (fleet.start (0), "");
  EXPECT_EQ (fleet.start (1), "");
  std::string results = fleet.wait (0) + "\n" + fleet.wait (1);
  EXPECT_THAT (results, HasSubstr ("out of ink"));
  EXPECT_THAT (results, HasSubstr ("GROUP_BROKEN"));
}

TEST (DdpRpcTrainer, CanBeCancelledInALookupAndInAPush)
{
  for (size_t held : { 6u, 7u })
    {
      Fleet fleet ((Task ()));

      fleet.tables.first_held = held;
      EXPECT_EQ (fleet.start (0), "");
      fleet.tables.wait_for_calls (held + 1);
      fleet.cancel (0);
      EXPECT_EQ (fleet.wait (0), "CANCELLED");
    }
}

TEST (DdpRpcTrainer, RefusesATableOfAnotherWidth)
{
  Fleet fleet ((Task ()));

  fleet.tables.add ("emb1", 30, 128, 1, 1.0);
  EXPECT_THAT (fleet.run (), HasSubstr ("lookup: table emb1: its pooled rows are FLOAT32 ["));
}

TEST (DdpRpcTrainer, RefusesPlansThatItCannotTrain)
{
  struct
  {
    const char *what;
    std::function<void (Task *)> change;
    const char *message;
  } cases[] = {
    { "too narrow", [] (Task *task) { task->dim = 64; },
      "2 tables of dimension 64: their product must be a multiple of 512" },
    { "not a multiple", [] (Task *task) { task->dim = 300; },
      "2 tables of dimension 300: their product must be a multiple of 512" },
    { "another model", [] (Task *task) { task->model = "DummyModel"; },
      "model_class is DummyModel, expected HybridModel" },
    { "unknown task", [] (Task *task) { task->arguments = ", 'task': <'hard'>"; },
      "unknown task \"hard\"; known: learnable, random" },
    { "unknown argument", [] (Task *task) { task->arguments = ", 'depth': <int64 2>"; },
      "trainer DdpRpcTrainer: unknown argument: depth" },
    { "no rows", [] (Task *task) { task->num_embeddings = 0; }, "num_embeddings: 0 is outside" },
    { "wrong type", [] (Task *task) { task->arguments = ", 'sequential_lookups': <'yes'>"; },
      "sequential_lookups: expected a boolean, found a string" },
  };

  for (const auto &test : cases)
    {
      Task task;

      test.change (&task);
      task.table_bound = 0;
      Fleet fleet (task);
      EXPECT_THAT (fleet.start (0), HasSubstr (test.message)) << test.what;
    }
}

/* Checks only the rule, without a table of that size. */
TEST (DdpRpcTrainer, RefusesTablesThatAreTooWide)
{
  gint64 rows;
  g_autoptr (GError) error = nullptr;

  EXPECT_FALSE (tps_ddp_rpc_check_shape (2, 512 * 1024, &rows, &error));
  EXPECT_THAT (error->message, HasSubstr ("at most 524288"));
}

TEST (DdpRpcTrainer, ReportsUnreachableTables)
{
  g_autoptr (TpsMetrics) metrics = tps_metrics_new (nullptr, nullptr);
  TpsTrainerLinks links = {};
  g_autoptr (TpsTrainer) trainer = tps_trainer_new (&links, metrics);
  TpsTrainPlan *plan = tps_train_plan_new ();
  g_auto (TpsTrainStatus) status = {};

  set (&plan->trainer, "DdpRpcTrainer");
  set (&plan->model_class, "HybridModel");
  plan->steps_per_epoch = 1;
  g_variant_unref (plan->trainer_config);
  plan->trainer_config = g_variant_ref_sink (g_variant_new_parsed (
      "{'tables': <'emb0'>, 'embedding_dim': <int64 512>, 'num_embeddings': <int64 3>}"));
  ASSERT_TRUE (tps_trainer_train (trainer, plan, nullptr));
  do
    {
      tps_train_status_clear (&status);
      tps_trainer_get_status (trainer, &status);
    }
  while (status.state == TPS_TRAIN_RUNNING);
  ASSERT_EQ (status.state, TPS_TRAIN_FAILED);
  EXPECT_STREQ (status.error->message, "this process cannot reach embedding tables");
}

} // namespace
