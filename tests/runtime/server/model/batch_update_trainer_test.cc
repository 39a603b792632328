/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Trainers of a model on a server in the same process, on the CPU and on devices that may fail.
 * They must agree and compute the bits of the definition. */

#include "runtime/trainer/batch_update/batch_update_trainer.h"

#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/device/device_library.h"
#include "runtime/base/error.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/nn/linear_model.h"
#include "runtime/base/rng.h"
#include "runtime/server/model/model_server.h"
#include "tests/runtime/fake_device/fake_device.h"
#include "tests/runtime/server/model/models.h"

namespace updating_test {
namespace {

constexpr gint64 SECOND_NS = 1000000000;

/* A client that calls the server directly. A cancelled pending call ends with a reset of the
 * server. */
struct LocalModel
{
  TpsModelClient base;
  TpsModelServer *server;
  gint32 trainer;
  int n_memory_calls = 0;
};

void
local_init_model (TpsModelClient *base, const TpsNamedTensor *parameters, guint n_parameters,
                  const TpsOptimizerSpec *optimizer, gint64, TpsModelAnswered done,
                  gpointer user_data)
{
  std::vector<TpsNamedTensor> copies (n_parameters);
  g_autoptr (GError) error = nullptr;

  for (guint i = 0; i < n_parameters; i++)
    {
      copies[i].name = g_strdup (parameters[i].name);
      tps_tensor_init_ref (&copies[i].tensor, &parameters[i].tensor);
    }
  tps_model_server_init_model (reinterpret_cast<LocalModel *> (base)->server, copies.data (),
                               n_parameters, optimizer, &error);
  done (user_data, nullptr, error);
}

void
local_get_model (TpsModelClient *base, gint64, TpsModelAnswered done, gpointer user_data)
{
  g_autoptr (GError) error = nullptr;
  g_autoptr (TpsModelVersion)
      model = tps_model_server_get_model (reinterpret_cast<LocalModel *> (base)->server, &error);

  done (user_data, model, error);
}

void
local_update (TpsModelClient *base, const TpsTensor *gradients, guint n_gradients, gint64 version,
              gint64, TpsModelAnswered done, gpointer user_data)
{
  auto self = reinterpret_cast<LocalModel *> (base);
  std::vector<TpsTensor> copies (n_gradients);

  for (guint i = 0; i < n_gradients; i++)
    tps_tensor_init_ref (&copies[i], &gradients[i]);
  TpsModelPush push = {};
  push.trainer = self->trainer;
  push.n_gradients = n_gradients;
  push.gradients = copies.data ();
  push.version = version;
  push.may_wait = TRUE;
  tps_model_server_update_and_fetch (self->server, &push, done, user_data);
}

void
local_cancel (TpsModelClient *base)
{
  tps_model_server_reset_state (reinterpret_cast<LocalModel *> (base)->server, nullptr);
}

void
local_free (TpsModelClient *base)
{
  delete reinterpret_cast<LocalModel *> (base);
}

/* Returns memory after the first two calls. Later the memory changes, and sometimes there is
 * none. */
TpsBuffer *
local_get_memory (TpsModelClient *base, gsize n_bytes, TpsBuffer *current)
{
  int n = reinterpret_cast<LocalModel *> (base)->n_memory_calls++;

  if (n < 2 || n % 7 == 6)
    return nullptr;
  return n % 5 == 4 ? tps_buffer_ref (current) : tps_buffer_new (n_bytes);
}

const TpsModelClientOps local_ops = { local_init_model, local_get_model, local_update,
                                      local_cancel,     local_free,      local_get_memory };

TpsModelClient *
connect_local (gpointer server, const TpsTrainPlan *plan, GError **)
{
  auto self = new LocalModel ();

  self->base.ops = &local_ops;
  self->server = static_cast<TpsModelServer *> (server);
  self->trainer = static_cast<gint32> (plan->rank);
  return &self->base;
}

struct Job
{
  gint64 in_features = 100, out_features = 30, batch_size = 20;
  guint n_steps = 4;
  double momentum = 0.9;
  std::string device = "cpu";
};

GVariant *
dictionary (std::initializer_list<std::pair<const char *, GVariant *>> entries)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, nullptr);
  for (const auto &entry : entries)
    g_variant_dict_insert_value (&dict, entry.first, entry.second);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

class BatchUpdateTrainer : public testing::Test
{
protected:
  BatchUpdateTrainer ()
  {
    workers_ = tps_worker_pool_new ("test", 2);
    metrics_ = tps_metrics_new (nullptr, nullptr);
    options_.n_trainers = 3;
    options_.workers = workers_;
  }
  ~BatchUpdateTrainer () override
  {
    for (TpsTrainer *trainer : trainers_)
      tps_trainer_free (trainer);
    tps_model_server_free (server_);
    tps_metrics_unref (metrics_);
    tps_worker_pool_free (workers_);
  }

  void
  start (guint n_trainers)
  {
    TpsTrainerLinks links = {};

    server_ = tps_model_server_new (&options_, nullptr);
    links.connect_model = connect_local;
    links.user_data = server_;
    for (guint i = 0; i < n_trainers; i++)
      trainers_.push_back (tps_trainer_new (&links, metrics_));
  }

  static TpsTrainPlan *
  make_plan (guint rank, const Job &job)
  {
    TpsTrainPlan *plan = tps_train_plan_new ();
    auto set = [] (gchar **field, const std::string &value) {
      g_free (*field);
      *field = g_strdup (value.c_str ());
    };

    set (&plan->pass_name, "pass");
    plan->rank = rank;
    plan->world_size = 3;
    set (&plan->model_class, "LinearModel");
    g_clear_pointer (&plan->model_config, g_variant_unref);
    plan->model_config = dictionary (
        { { "in_features", g_variant_new_int64 (job.in_features) },
          { "out_features", g_variant_new_int64 (job.out_features) } });
    plan->steps_per_epoch = job.n_steps;
    plan->epochs = 1;
    plan->seed = 17;
    set (&plan->trainer, "BatchUpdateTrainer");
    g_clear_pointer (&plan->trainer_config, g_variant_unref);
    plan->trainer_config = dictionary ({ { "batch_size", g_variant_new_int64 (job.batch_size) },
                                         { "momentum", g_variant_new_double (job.momentum) } });
    set (&plan->backend, "gloo");
    set (&plan->preprocess_data, "preprocess_dummy_data");
    set (&plan->create_criterion, "l1");
    set (&plan->create_ddp_model, "basic_ddp_model");
    set (&plan->hook_state, "BasicHookState");
    set (&plan->ddp_hook, "rpc_hook");
    set (&plan->iteration_step, "basic_iteration_step");
    set (&plan->reduce, "mean");
    set (&plan->rendezvous, "");
    set (&plan->device, job.device);
    tps_train_plan_add_server (plan, 3, "unix:nowhere");
    plan->learning_rate = 0.001;
    plan->rpc_timeout_ns = 30 * SECOND_NS;
    return plan;
  }

  std::string
  train (guint rank, const Job &job)
  {
    g_autoptr (GError) error = nullptr;

    tps_trainer_train (trainers_[rank], make_plan (rank, job), &error);
    return error == nullptr ? "" : error->message;
  }

  /* Waits for the end of the pass and returns its status. */
  void
  wait (guint rank, TpsTrainStatus *status)
  {
    tps_trainer_get_status (trainers_[rank], status);
    while (status->state == TPS_TRAIN_RUNNING)
      {
        std::this_thread::yield ();
        tps_train_status_clear (status);
        tps_trainer_get_status (trainers_[rank], status);
      }
  }

  TpsWorkerPool *workers_;
  TpsMetrics *metrics_;
  TpsModelServerOptions options_ = {};
  TpsModelServer *server_ = nullptr;
  std::vector<TpsTrainer *> trainers_;
};

/* Computes the expected parameters with the same layer, the same draws, and the definition of an
 * update. */
Values
expected_values (const Job &job)
{
  g_autoptr (GVariant)
      config = dictionary ({ { "in_features", g_variant_new_int64 (job.in_features) },
                             { "out_features", g_variant_new_int64 (job.out_features) } });
  TpsModel *layer = tps_linear_model_class.create (config, nullptr, nullptr);
  Values values = { std::vector<float> (static_cast<size_t> (job.out_features * job.in_features)),
                    std::vector<float> (static_cast<size_t> (job.out_features)) };
  Values gradients = values;
  auto bind = [&] (const Values &current) {
    for (size_t i = 0; i < 2; i++)
      {
        layer->parameters[i].value = const_cast<float *> (current[i].data ());
        layer->parameters[i].gradient = gradients[i].data ();
      }
  };

  bind (values);
  layer->klass->init_parameters (layer, 17);
  NaiveModel naive (values, 0.001f, static_cast<float> (job.momentum));
  for (guint step = 0; step < job.n_steps; step++)
    {
      std::vector<Values> all;

      for (guint rank = 0; rank < 3; rank++)
        {
          std::vector<float> input (static_cast<size_t> (job.batch_size * job.in_features));
          TpsRng rng;
          TpsTensor output_gradient = {}, target = {};

          tps_rng_init (&rng, 17, TPS_BATCH_UPDATE_STREAM (rank) + step);
          tps_ziggurat_fill (&rng, input.data (), input.size ());
          TpsTensor x = to_tensor ({ job.batch_size, job.in_features }, input);
          bind (naive.values ());
          TpsTensorView output {};
          double loss;
          EXPECT_TRUE (layer->klass->forward (layer, tps_tensor_view (&x), &output, nullptr));
          tps_tensor_init_zeroed (&target, &output.shape);
          tps_tensor_init (&output_gradient, &output.shape);
          auto data = static_cast<gfloat *> (tps_tensor_data (&output_gradient));
          tps_criterion_find ("l1", nullptr)
              ->forward_backward (layer->stream, output, tps_tensor_view (&target), &loss, data);
          layer->klass->backward (
              layer, data, [] (gpointer, guint) {}, nullptr);
          all.push_back (gradients);
          tps_tensor_clear (&x);
          tps_tensor_clear (&target);
          tps_tensor_clear (&output_gradient);
        }
      naive.update (all);
    }
  layer->klass->free (layer);
  return naive.values ();
}

/* "cuda" selects the fake devices, which compute like the CPU. */
class BatchUpdateTrainerOnDevices : public BatchUpdateTrainer,
                                    public testing::WithParamInterface<std::string>
{
};

INSTANTIATE_TEST_SUITE_P (Devices, BatchUpdateTrainerOnDevices,
                          testing::Values ("cpu", "cuda", "cuda:1"), [] (const auto &device) {
                            return device.param == "cuda:1" ? "cuda1" : device.param;
                          });

TEST_P (BatchUpdateTrainerOnDevices, threeTrainersComeToTheBitsOfTheDefinition)
{
  Job job;
  TpsTrainStatus status[3] = {};

  job.device = GetParam ();
  start (3);
  for (guint rank = 0; rank < 3; rank++)
    ASSERT_EQ (train (rank, job), "");
  for (guint rank = 0; rank < 3; rank++)
    {
      wait (rank, &status[rank]);
      EXPECT_EQ (status[rank].state, TPS_TRAIN_SUCCEEDED)
          << (status[rank].error != nullptr ? status[rank].error->message : "");
      EXPECT_EQ (status[rank].steps_done, 4);
      EXPECT_EQ (status[rank].steps_total, 4);
      EXPECT_TRUE (status[rank].has_loss);
      EXPECT_TRUE (status[rank].has_digest);
      EXPECT_EQ (memcmp (status[rank].parameters_digest, status[0].parameters_digest, 16), 0);
    }
  g_autoptr (TpsModelVersion) model = tps_model_server_get_model (server_, nullptr);
  EXPECT_EQ (model->version, 5);
  EXPECT_STREQ (model->parameters[0].name, "weight");
  EXPECT_EQ (to_values (model), expected_values (job));
  for (auto &each : status)
    tps_train_status_clear (&each);
}

const TpsFakeDeviceControl *
fake_devices ()
{
  return static_cast<const TpsFakeDeviceControl *> (
      tps_device_library_get ()->library->find_interface (TPS_FAKE_DEVICE_CONTROL));
}

TEST_F (BatchUpdateTrainer, aFailedDeviceAllocationEndsThePassWithItsError)
{
  TpsDevice *device = tps_device_find ("cuda:0", nullptr);
  TpsTrainStatus status = {};
  guint n_failed = 0;
  Job job;

  job.device = "cuda:0";
  options_.n_trainers = 1;
  start (1);
  do
    {
      fake_devices ()->fail_alloc (device, ++n_failed);
      tps_train_status_clear (&status);
      ASSERT_EQ (train (0, job), "");
      wait (0, &status);
      EXPECT_TRUE (status.error == nullptr
                   || g_error_matches (status.error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
          << status.error->message;
      EXPECT_EQ (fake_devices ()->get_n_bytes (device), 0u) << "memory is left over";
    }
  while (status.state == TPS_TRAIN_FAILED);
  EXPECT_EQ (status.state, TPS_TRAIN_SUCCEEDED);
  EXPECT_GT (n_failed, 10u);
  fake_devices ()->fail_alloc (device, 0);
  tps_train_status_clear (&status);
}

TEST_F (BatchUpdateTrainer, aDeviceThatIsLostEndsThePass)
{
  static TpsDevice *device = tps_device_find ("cuda:1", nullptr);
  TpsTrainStatus status = {};
  Job job;

  job.device = "cuda:1";
  options_.n_trainers = 1;
  start (1);
  tps_batch_update_trainer_observe (
      [] (gpointer, guint, TpsBatchUpdateEvent event) {
        if (event == TPS_BATCH_UPDATE_CONTINUES)
          fake_devices ()->set_lost (device, TRUE);
      },
      nullptr);
  ASSERT_EQ (train (0, job), "");
  wait (0, &status);
  tps_batch_update_trainer_observe (nullptr, nullptr);
  fake_devices ()->set_lost (device, FALSE);
  EXPECT_EQ (status.state, TPS_TRAIN_FAILED);
  EXPECT_TRUE (g_error_matches (status.error, TPS_ERROR, TPS_ERROR_DEVICE_LOST));
  EXPECT_EQ (status.steps_done, 1);
  tps_train_status_clear (&status);
}

} // namespace
} // namespace updating_test
