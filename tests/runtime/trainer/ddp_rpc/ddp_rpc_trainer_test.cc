/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ddp_rpc/ddp_rpc_trainer.h"

#include <map>
#include <mutex>
#include <numeric>
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
#include "tests/runtime/trainer/ddp_rpc/scatter.h"
#include "tests/runtime/trainer/table_steps/store_client.h"
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
  std::string maker = "basic_ddp_model";
  double table_bound = 0.5;
  std::string device = "cpu"; /* "cuda": a fake device that computes like the CPU */
};

std::string
table_names (guint n)
{
  std::string names = "t0";

  for (guint t = 1; t < n; t++)
    names += ",t" + std::to_string (t);
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
  explicit Fleet (const Task &task) : task_ (task)
  {
    TpsTrainerLinks links = {};

    register_parts ();
    tps_test::create_tables (table_store, task.num_embeddings,
                             std::vector<gsize> (task.n_tables, static_cast<gsize> (task.dim)),
                             TPS_INITIALIZER_ZEROS,
                             tps_optimizer_spec (TPS_OPTIMIZER_SGD, LEARNING_RATE));
    for (guint t = 0; t < task.n_tables; t++)
      scatter_table (t);
    links.connect_store = [] (gpointer self, const TpsTrainPlan *, GError **) {
      return static_cast<Fleet *> (self)->store_.open ();
    };
    links.connect_tables = [] (gpointer self, const TpsTrainPlan *, TpsDevice *, GError **) {
      return static_cast<Fleet *> (self)->tables.get ();
    };
    links.user_data = this;
    metrics_ = tps_metrics_new (nullptr, nullptr);
    trainer_ = tps_trainer_new (&links, metrics_);
  }

  ~Fleet ()
  {
    tps_trainer_free (trainer_);
    tps_metrics_unref (metrics_);
    tps_table_store_free (table_store);
  }

  /* Returns the values of a table. */
  std::vector<float>
  values (guint t)
  {
    const std::vector<gint64> ids = all_ids ();
    g_auto (TpsTensor) rows = {};
    TpsTensorView indices = { { TPS_DTYPE_INT64, 1, { task_.num_embeddings } }, ids.data () };

    EXPECT_TRUE (tps_table_store_lookup_rows (table_store, nullptr,
                                              ("t" + std::to_string (t)).c_str (), indices, &rows,
                                              nullptr, nullptr));
    auto data = static_cast<const float *> (tps_tensor_data (&rows));
    return { data, data + tps_shape_n_elems (&rows.shape) };
  }

  /* Returns "" if the pass has started, or the error. */
  std::string
  start ()
  {
    GError *error = nullptr;

    tps_trainer_train (trainer_, make_plan (), &error);
    return text_of (error);
  }

  /* Returns "SUCCEEDED", "CANCELLED", or the error. */
  std::string
  wait ()
  {
    g_auto (TpsTrainStatus) status = {};

    do
      {
        std::this_thread::yield ();
        tps_train_status_clear (&status);
        tps_trainer_get_status (trainer_, &status);
      }
    while (status.state == TPS_TRAIN_RUNNING);
    loss = status.loss;
    samples = status.samples;
    if (status.state == TPS_TRAIN_SUCCEEDED)
      return "SUCCEEDED";
    if (status.state == TPS_TRAIN_CANCELLED)
      return "CANCELLED";
    return std::string (tps_error_code_name (status.error->code)) + ": " + status.error->message;
  }

  std::string
  run ()
  {
    EXPECT_EQ (start (), "");
    return wait ();
  }

  void
  cancel ()
  {
    tps_trainer_cancel (trainer_);
  }

  TpsTableStoreOptions store_options = {};
  TpsTableStore *table_store = tps_table_store_new (&store_options);
  tps_test::StoreClient tables { table_store, tps_test::StoreClient::Mode::AT_ONCE };

  /* The results of the last wait(). */
  double loss = 0;
  gint64 samples = 0;

private:
  std::vector<gint64>
  all_ids () const
  {
    std::vector<gint64> ids (static_cast<size_t> (task_.num_embeddings));

    std::iota (ids.begin (), ids.end (), 0);
    return ids;
  }

  /* Gives a table the values that the oracle began with. */
  void
  scatter_table (guint t)
  {
    const std::string name = "t" + std::to_string (t);
    const std::vector<gint64> ids = all_ids ();
    const std::vector<float> rows = scatter (task_.num_embeddings * task_.dim,
                                             SCATTER_FIRST_TABLE + t, task_.table_bound);
    TpsTablePush push = {};

    push.table = name.c_str ();
    push.indices = { { TPS_DTYPE_INT64, 1, { task_.num_embeddings } }, ids.data () };
    push.values = { { TPS_DTYPE_FLOAT32, 2, { task_.num_embeddings, task_.dim } }, rows.data () };
    push.is_assignment = TRUE;
    ASSERT_TRUE (tps_table_store_push_and_wait (table_store, &push, nullptr));
  }

  TpsTrainPlan *
  make_plan ()
  {
    TpsTrainPlan *plan = tps_train_plan_new ();
    std::string arguments = "{'tables': <'" + table_names (task_.n_tables)
                            + "'>, 'embedding_dim': <int64 " + std::to_string (task_.dim)
                            + ">, 'num_embeddings': <int64 " + std::to_string (task_.num_embeddings)
                            + ">" + task_.arguments + "}";

    set (&plan->pass_name, "pass-1");
    set (&plan->trainer, "RememberingTrainer");
    set (&plan->model_class, "HybridModel");
    set (&plan->create_ddp_model, task_.maker);
    set (&plan->device, task_.device);
    g_variant_unref (plan->trainer_config);
    plan->trainer_config = g_variant_ref_sink (g_variant_new_parsed (arguments.c_str ()));
    plan->world_size = 1;
    plan->epochs = task_.epochs;
    plan->steps_per_epoch = task_.batches;
    plan->seed = 7;
    plan->learning_rate = static_cast<double> (LEARNING_RATE);
    return plan;
  }

  Task task_;
  MemoryStore store_;
  TpsMetrics *metrics_;
  TpsTrainer *trainer_;
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
      const std::vector<float> values = fleet.values (t);

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
  fleet.tables.device = tps_device_find ("cuda:1", nullptr);
  EXPECT_EQ (fleet.run (), "INVALID_ARGUMENT: epoch 0, batch 0: lookup: table t0: its pooled rows "
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
      result = fleet.start ();
      result = result.empty () ? fleet.wait () : result;
      EXPECT_THAT (result,
                   testing::AnyOf ("SUCCEEDED", testing::StartsWith ("RESOURCE_EXHAUSTED")));
      EXPECT_EQ (fake_devices ()->get_n_bytes (device), 0u) << "memory is left over";
    }
  while (result != "SUCCEEDED" && n_failed < 1000);
  EXPECT_GT (n_failed, 10u);
  fake_devices ()->fail_alloc (device, 0);
}

TEST (DdpRpcTrainer, CanBeCancelledInALookupAndInAPush)
{
  for (size_t held : { 6u, 7u })
    {
      Fleet fleet ((Task ()));

      fleet.tables.first_held = held;
      EXPECT_EQ (fleet.start (), "");
      fleet.tables.wait_for_calls (held + 1);
      fleet.cancel ();
      EXPECT_EQ (fleet.wait (), "CANCELLED");
    }
}

} // namespace
