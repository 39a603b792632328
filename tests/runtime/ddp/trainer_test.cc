/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/ddp/trainer.h"

#include <cstring>
#include <functional>
#include <map>
#include <cmath>
#include <mutex>
#include <thread>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/ddp/pass.h"
#include "runtime/error.h"
#include "tests/oracle/vectors.h"
#include "tests/runtime/ddp/fakes.h"
#include "tests/runtime/ddp/local_exchange.h"

namespace {

using testing::HasSubstr;

constexpr gint64 SECOND_NS = G_GINT64_CONSTANT (1000000000);

const char *const HOOKS[] = { "allreduce_hook", "hybrid_hook", "rpc_hook", "sparse_rpc_hook" };

GVariant *
model_config (bool sparse, gint64 rows = 40, gint64 width = 16, gint64 layers = 3)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, nullptr);
  g_variant_dict_insert (&dict, "num_embeddings", "x", rows);
  g_variant_dict_insert (&dict, "embedding_dim", "x", width);
  g_variant_dict_insert (&dict, "dense_input_size", "x", width);
  g_variant_dict_insert (&dict, "dense_output_size", "x", width);
  g_variant_dict_insert (&dict, "dense_layers_count", "x", layers);
  g_variant_dict_insert (&dict, "sparse", "b", static_cast<gboolean> (sparse));
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

TpsTrainBatch
make_batch (gint64 n, gint64 length, const std::function<gint64 (gint64)> &id,
            const std::function<gint64 (gint64)> &target)
{
  TpsTrainBatch batch = {};

  tps_tensor_init_2d (&batch.input, TPS_DTYPE_INT64, n, length);
  tps_tensor_init_1d (&batch.target, TPS_DTYPE_INT64, n);
  for (gint64 i = 0; i < n * length; i++)
    static_cast<gint64 *> (tps_tensor_data (&batch.input))[i] = id (i);
  for (gint64 i = 0; i < n; i++)
    static_cast<gint64 *> (tps_tensor_data (&batch.target))[i] = target (i);
  return batch;
}

/* What a run is about; a plan is made of it for each trainer. */
struct Task
{
  std::string pass_name = "pass-1";
  const char *hook = "rpc_hook";
  const char *iteration_step = "basic_iteration_step";
  const char *ddp_model = "basic_ddp_model";
  const char *reduce = "mean";
  bool sparse = true;
  guint n_batches = 5;
  guint epochs = 2;
  double bucket_mib = 0.002;
  gint64 timeout_ns = 20 * SECOND_NS;
};

/* Trainers of one process, their servers and their rendezvous. */
class Fleet
{
public:
  explicit Fleet (guint n_trainers, guint n_servers = 1, gint64 round_timeout_ns = 20 * SECOND_NS,
                  TpsReduce reduce = TPS_REDUCE_MEAN)
      : n_servers_ (n_servers), servers_ (n_servers, n_trainers, round_timeout_ns, reduce)
  {
    for (guint r = 0; r < n_trainers; r++)
      {
        TpsTrainerLinks links = {};

        links.connect_servers = connect_servers;
        links.connect_store = connect_store;
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

  TpsTrainer *
  trainer (guint rank)
  {
    return trainers_[rank];
  }

  guint
  n_trainers () const
  {
    return static_cast<guint> (trainers_.size ());
  }

  TpsTrainPlan *
  make_plan (const Task &task, guint rank)
  {
    TpsTrainPlan *plan = tps_train_plan_new ();

    set (&plan->pass_name, task.pass_name.c_str ());
    set (&plan->ddp_hook, task.hook);
    set (&plan->iteration_step, task.iteration_step);
    set (&plan->create_ddp_model, task.ddp_model);
    set (&plan->reduce, task.reduce);
    plan->rank = rank;
    plan->world_size = n_trainers ();
    g_variant_unref (plan->model_config);
    plan->model_config = model_config (task.sparse);
    plan->epochs = task.epochs;
    plan->seed = 42;
    plan->first_bucket_mib = plan->bucket_cap_mib = task.bucket_mib;
    plan->learning_rate = 10; /* double softmax leaves hardly any gradient */
    plan->rpc_timeout_ns = task.timeout_ns;
    plan->steps_per_epoch = (task.n_batches + n_trainers () - 1) / n_trainers ();
    for (guint b = rank; b < task.n_batches; b += n_trainers ())
      {
        TpsTrainBatch batch = make_batch (
            4, 7, [b] (gint64 i) { return (i * 13 + b * 7) % 40; },
            [b] (gint64 i) { return (i + b) % 16; });

        g_array_append_val (plan->batches, batch);
      }
    for (guint s = 0; s < n_servers_; s++)
      {
        TpsServerAddress address = { static_cast<gint32> (n_trainers () + s), g_strdup ("memory") };

        g_array_append_val (plan->servers, address);
      }
    return plan;
  }

  static void
  set (gchar **field, const char *value)
  {
    g_free (*field);
    *field = g_strdup (value);
  }

  /* Empty, or what is wrong. */
  std::string
  start (const Task &task, guint rank)
  {
    GError *error = nullptr;

    tps_trainer_train (trainers_[rank], make_plan (task, rank), &error);
    return text_of (error);
  }

  /* Starts all, waits for all; the servers are new again before. */
  void
  run (const Task &task)
  {
    servers_.reset ();
    for (guint r = 0; r < n_trainers (); r++)
      EXPECT_EQ (start (task, r), "");
    for (guint r = 0; r < n_trainers (); r++)
      wait (r);
  }

  /* Until the trainer's pass has ended; then "SUCCEEDED", "CANCELLED", or "FAILED: " and the error. */
  std::string
  wait (guint rank)
  {
    for (;; std::this_thread::yield ())
      {
        TpsTrainStatus status;

        tps_trainer_get_status (trainers_[rank], &status);
        TpsTrainState state = status.state;
        std::string text = status.error == nullptr
                               ? ""
                               : std::string (tps_error_code_name (status.error->code)) + ": "
                                     + status.error->message;
        tps_train_status_clear (&status);
        if (state == TPS_TRAIN_SUCCEEDED)
          return "SUCCEEDED";
        if (state == TPS_TRAIN_CANCELLED)
          return "CANCELLED";
        if (state == TPS_TRAIN_FAILED)
          return "FAILED: " + text;
      }
  }

  void
  reset_servers ()
  {
    servers_.reset ();
  }

  /* Of a pass that succeeded. */
  std::string
  digest (guint rank)
  {
    g_auto (TpsTrainStatus) status = {};

    tps_trainer_get_status (trainers_[rank], &status);
    EXPECT_EQ (status.state, TPS_TRAIN_SUCCEEDED)
        << (status.error == nullptr ? "" : status.error->message);
    EXPECT_TRUE (status.has_digest);
    return std::string (reinterpret_cast<char *> (status.parameters_digest), 16);
  }

  size_t
  n_keys ()
  {
    return store_.n_keys ();
  }

  /* How often a metric was taken. */
  gint64
  count (guint rank, const std::string &type_and_name)
  {
    GPtrArray *summaries = tps_metrics_summarize (metrics_[rank], FALSE);
    gint64 n = 0;

    for (guint i = 0; i < summaries->len; i++)
      {
        const TpsMetricSummary *summary = static_cast<const TpsMetricSummary *> (
            summaries->pdata[i]);

        if (type_and_name == std::string (summary->type) + "," + summary->name)
          n = summary->count;
      }
    g_ptr_array_unref (summaries);
    return n;
  }

  /* Set: connecting fails with this. */
  std::string connect_error;

private:
  static std::string
  text_of (GError *error)
  {
    std::string text = error == nullptr ? ""
                                        : std::string (tps_error_code_name (error->code)) + ": "
                                              + error->message;

    g_clear_error (&error);
    return text;
  }

  static TpsExchange *
  connect_servers (gpointer user_data, const TpsTrainPlan *plan, GError **error)
  {
    Fleet *self = static_cast<Fleet *> (user_data);

    if (self->connect_error.empty ())
      return self->servers_.open (plan->rank);
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, self->connect_error.c_str ());
    return nullptr;
  }

  static TpsStore *
  connect_store (gpointer user_data, const TpsTrainPlan *, GError **)
  {
    return static_cast<Fleet *> (user_data)->store_.open ();
  }

  guint n_servers_;
  LocalServers servers_;
  MemoryStore store_;
  std::vector<TpsMetrics *> metrics_;
  std::vector<TpsTrainer *> trainers_;
};

/* The digest of all trainers after one pass, which must agree. */
std::string
digest_of_run (Fleet *fleet, const Task &task)
{
  fleet->run (task);
  std::string digest = fleet->digest (0);
  for (guint r = 1; r < fleet->n_trainers (); r++)
    EXPECT_EQ (fleet->digest (r), digest) << task.hook << ", trainer " << r;
  return digest;
}

class Trainers : public testing::TestWithParam<guint>
{
};

TEST_P (Trainers, AllHooksGiveTheSameBits)
{
  /* 5 batches: for 2 and 3 trainers some take part without data. */
  for (bool sparse : { true, false })
    {
      std::map<std::string, std::string> digests;

      for (guint n_servers : { 1u, 2u })
        {
          Fleet fleet (GetParam (), n_servers);

          for (const char *hook : HOOKS)
            {
              Task task;

              task.pass_name = std::string (hook);
              task.hook = hook;
              task.sparse = sparse;
              digests[std::string (hook) + " " + std::to_string (n_servers)] = digest_of_run (
                  &fleet, task);
            }
        }
      for (const auto &[name, digest] : digests)
        EXPECT_EQ (digest, digests.begin ()->second) << name << (sparse ? " sparse" : " dense");
    }
}

TEST_P (Trainers, AllHooksGiveTheSameBitsWhereSumsAreDelivered)
{
  Fleet fleet (GetParam (), 1, 20 * SECOND_NS, TPS_REDUCE_SUM);
  Fleet averaging (GetParam ());
  std::string first;

  for (const char *hook : HOOKS)
    {
      Task task;

      task.pass_name = std::string (hook);
      task.hook = hook;
      task.reduce = "sum";
      std::string digest = digest_of_run (&fleet, task);
      if (first.empty ())
        first = digest;
      EXPECT_EQ (digest, first) << hook;
    }
  if (GetParam () > 1)
    {
      EXPECT_NE (first, digest_of_run (&averaging, Task ())) << "a sum is no mean";
    }
}

TEST_P (Trainers, BucketSizesDoNotChangeTheResult)
{
  Fleet fleet (GetParam (), 2);
  Task small, large;

  small.bucket_mib = 0;
  large.bucket_mib = 25;
  EXPECT_EQ (digest_of_run (&fleet, small), digest_of_run (&fleet, large));
}

INSTANTIATE_TEST_SUITE_P (Counts, Trainers, testing::Values (1u, 2u, 3u));

TEST (Trainer, StepsMetricsAndProgressCountWhatWasDone)
{
  Fleet fleet (3);
  Task task;

  task.n_batches = 4; /* 2, 1 and 1 */
  fleet.run (task);
  for (guint r = 0; r < 3; r++)
    {
      g_auto (TpsTrainStatus) status = {};

      tps_trainer_get_status (fleet.trainer (r), &status);
      EXPECT_EQ (status.steps_done, 4);
      EXPECT_EQ (status.steps_total, 4);
      EXPECT_STREQ (status.pass_name, "pass-1");
      EXPECT_TRUE (status.has_loss);
      EXPECT_GT (status.loss, 0);
      EXPECT_GT (status.heartbeat, 4);
      EXPECT_EQ (fleet.count (r, "batch_level_metric,batch_all"), 4);
      EXPECT_EQ (fleet.count (r, "backward_metric,backward"), 4);
      EXPECT_EQ (fleet.count (r, "forward_metric,forward_pass"), r == 0 ? 4 : 2);
      EXPECT_EQ (fleet.count (r, "hook_future_metric,rpc_sparse"), 4);
      EXPECT_EQ (fleet.count (r, "hook_future_metric,rpc_dense") % 4, 0);
    }
}

TEST (Trainer, LeavesNoKeysInTheStore)
{
  Fleet fleet (3);
  Task task;

  task.hook = "allreduce_hook";
  fleet.run (task);
  EXPECT_EQ (fleet.n_keys (), 0u);
}

TEST (Trainer, IsIdleBeforeTheFirstPass)
{
  Fleet fleet (1);
  g_auto (TpsTrainStatus) status = {};

  tps_trainer_cancel (fleet.trainer (0)); /* fine when none runs */
  tps_trainer_get_status (fleet.trainer (0), &status);
  EXPECT_EQ (status.state, TPS_TRAIN_IDLE);
  EXPECT_STREQ (status.pass_name, "");
  EXPECT_FALSE (status.has_digest);
}

TEST (Trainer, ThreeOfFiveTrainersMayHaveNoBatchesAtAll)
{
  Fleet fleet (5);
  Task task;

  task.n_batches = 2;
  for (const char *hook : { "rpc_hook", "allreduce_hook" })
    {
      task.hook = hook;
      task.pass_name = hook;
      digest_of_run (&fleet, task);
    }
}

/* Refusals */

struct Refusal
{
  const char *name;
  std::function<void (TpsTrainPlan *)> spoil;
  const char *text;
};

class RefusedPlan : public testing::TestWithParam<Refusal>
{
};

TEST_P (RefusedPlan, IsNamedAndNothingRuns)
{
  Fleet fleet (2);
  TpsTrainPlan *plan = fleet.make_plan (Task (), 1);
  GError *error = nullptr;
  g_auto (TpsTrainStatus) status = {};

  GetParam ().spoil (plan);
  EXPECT_FALSE (tps_trainer_train (fleet.trainer (1), plan, &error));
  ASSERT_NE (error, nullptr);
  EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT (error->message, HasSubstr (GetParam ().text));
  g_error_free (error);
  tps_trainer_get_status (fleet.trainer (1), &status);
  EXPECT_EQ (status.state, TPS_TRAIN_IDLE);
}

INSTANTIATE_TEST_SUITE_P (
    Plans, RefusedPlan,
    testing::Values (
        Refusal { "Rank", [] (TpsTrainPlan *p) { p->rank = 2; }, "rank is 2 of world_size 2" },
        Refusal { "World", [] (TpsTrainPlan *p) { p->world_size = 0; }, "world_size 0" },
        Refusal { "Epochs", [] (TpsTrainPlan *p) { p->epochs = 0; }, "epochs is 0" },
        Refusal { "NoSteps", [] (TpsTrainPlan *p) { p->steps_per_epoch = 0; },
                  "steps_per_epoch is 0" },
        Refusal { "FewSteps", [] (TpsTrainPlan *p) { p->steps_per_epoch = 1; },
                  "2 batches for 1 steps_per_epoch" },
        Refusal { "Timeout", [] (TpsTrainPlan *p) { p->rpc_timeout_ns = 0; },
                  "rpc_timeout is 0 ns" },
        Refusal { "Rate", [] (TpsTrainPlan *p) { p->learning_rate = NAN; },
                  "learning_rate is nan" },
        Refusal { "Bucket", [] (TpsTrainPlan *p) { p->bucket_cap_mib = -1; },
                  "bucket_cap_mib is -1" },
        Refusal { "Reduce", [] (TpsTrainPlan *p) { Fleet::set (&p->reduce, "max"); },
                  "reduce is 'max', expected mean or sum" },
        Refusal { "Trainer", [] (TpsTrainPlan *p) { Fleet::set (&p->trainer, "X"); },
                  "trainer: unknown trainer 'X'; known: DdpTrainer" },
        Refusal { "Model", [] (TpsTrainPlan *p) { Fleet::set (&p->model_class, "X"); },
                  "model_class: unknown model" },
        Refusal { "Preprocess", [] (TpsTrainPlan *p) { Fleet::set (&p->preprocess_data, "X"); },
                  "preprocess_data: unknown preprocessing 'X'; known: preprocess_dummy_data" },
        Refusal { "Criterion", [] (TpsTrainPlan *p) { Fleet::set (&p->create_criterion, "X"); },
                  "create_criterion: unknown" },
        Refusal { "DdpModel", [] (TpsTrainPlan *p) { Fleet::set (&p->create_ddp_model, "X"); },
                  "create_ddp_model: unknown ddp model 'X'; known: basic_ddp_model" },
        Refusal { "HookState", [] (TpsTrainPlan *p) { Fleet::set (&p->hook_state, "X"); },
                  "hook_state: unknown hook state 'X'; known: BasicHookState" },
        Refusal { "Hook", [] (TpsTrainPlan *p) { Fleet::set (&p->ddp_hook, "X"); },
                  "ddp_hook: unknown ddp hook 'X'" },
        Refusal { "Step", [] (TpsTrainPlan *p) { Fleet::set (&p->iteration_step, "X"); },
                  "iteration_step: unknown iteration step 'X'; known: basic_iteration_step" },
        Refusal { "Backend", [] (TpsTrainPlan *p) { Fleet::set (&p->backend, "mpi"); },
                  "backend: unknown backend 'mpi'; known: gloo, multi, nccl" },
        Refusal { "NoServers", [] (TpsTrainPlan *p) { g_array_set_size (p->servers, 0); },
                  "servers: rpc_hook needs at least one parameter server" },
        Refusal { "Batch",
                  [] (TpsTrainPlan *p) {
                    static_cast<gint64 *> (tps_tensor_data (
                        &g_array_index (p->batches, TpsTrainBatch, 1).input))[3] = 40;
                  },
                  "batches[1]: " },
        Refusal { "TrainerConfig",
                  [] (TpsTrainPlan *p) {
                    g_variant_unref (p->trainer_config);
                    p->trainer_config = g_variant_ref_sink (
                        g_variant_new_parsed ("{'momentum': <0.9>}"));
                  },
                  "momentum" }),
    [] (const testing::TestParamInfo<Refusal> &refusal) { return refusal.param.name; });

/* Trouble */

TEST (Trainer, OnePassAtATime)
{
  Fleet fleet (2);

  EXPECT_EQ (fleet.start (Task (), 0), ""); /* waits for trainer 1 */
  EXPECT_EQ (fleet.start (Task (), 0), "ALREADY_EXISTS: pass pass-1 is still running");
  EXPECT_EQ (fleet.start (Task (), 1), "");
  EXPECT_EQ (fleet.wait (0), "SUCCEEDED");
  EXPECT_EQ (fleet.wait (1), "SUCCEEDED");
}

TEST (Trainer, ADeadTrainerIsNamedAtTheDeadlineAndTheNextPassWorks)
{
  Fleet fleet (2, 1, SECOND_NS / 10);
  Task task;

  task.timeout_ns = SECOND_NS / 10;
  EXPECT_EQ (fleet.start (task, 0), "");
  std::string end = fleet.wait (0);
  EXPECT_THAT (end, HasSubstr ("FAILED: DEADLINE_EXCEEDED"));
  EXPECT_THAT (end, HasSubstr ("1")); /* the trainer that has not come */

  task.timeout_ns = 20 * SECOND_NS;
  task.hook = "allreduce_hook";
  task.pass_name = "pass-2";
  digest_of_run (&fleet, task);
}

TEST (Trainer, ATrainerThatDoesNotJoinIsNamed)
{
  Fleet fleet (2);
  Task task;

  task.hook = "allreduce_hook";
  task.timeout_ns = SECOND_NS / 10;
  EXPECT_EQ (fleet.start (task, 0), "");
  EXPECT_EQ (fleet.wait (0),
             "FAILED: DEADLINE_EXCEEDED: process group: rank 1 has not joined within 100 ms");
}

TEST (Trainer, BeatsWhileItWaitsWithinADeadline)
{
  Fleet fleet (2);
  gint64 last = -1;

  EXPECT_EQ (fleet.start (Task (), 0), "");
  for (int i = 0; i < 100; i++)
    {
      g_auto (TpsTrainStatus) status = {};

      tps_trainer_get_status (fleet.trainer (0), &status);
      EXPECT_EQ (status.state, TPS_TRAIN_RUNNING);
      if (status.heartbeat == last) /* between two phases; not for ever */
        i--;
      last = status.heartbeat;
    }
  tps_trainer_cancel (fleet.trainer (0));
  EXPECT_EQ (fleet.wait (0), "CANCELLED");
}

TEST (Trainer, CancelEndsAPassThatWaitsAndTheNextOneWorks)
{
  Fleet fleet (2);
  Task task;

  for (const char *hook : HOOKS)
    {
      task.hook = hook;
      task.pass_name = std::string ("cancelled ") + hook;
      EXPECT_EQ (fleet.start (task, 0), "");
      tps_trainer_cancel (fleet.trainer (0));
      EXPECT_EQ (fleet.wait (0), "CANCELLED");
      task.pass_name = std::string ("complete ") + hook;
      digest_of_run (&fleet, task);
    }
}

/* Cancels trainer 1 from within its second step. */
TpsTrainer *cancelled_trainer;

gboolean
cancelling_step (TpsPass *pass, guint epoch, guint index, const TpsTrainBatch *batch,
                 GError **error)
{
  if (pass->plan->rank == 1 && epoch == 1)
    tps_trainer_cancel (cancelled_trainer);
  return tps_iteration_step_find ("basic_iteration_step", nullptr)
      ->run (pass, epoch, index, batch, error);
}

TEST (Trainer, CancelInMidPassEndsTheOthersWithAnError)
{
  static const TpsIterationStep step = { "cancelling_step", cancelling_step };
  Fleet fleet (2, 1, SECOND_NS / 2);
  Task task;

  tps_iteration_step_register (&step);
  cancelled_trainer = fleet.trainer (1);
  task.iteration_step = "cancelling_step";
  for (const char *hook : { "rpc_hook", "allreduce_hook" })
    {
      task.hook = hook;
      task.pass_name = hook;
      task.timeout_ns = SECOND_NS / 2;
      fleet.run (task);
      EXPECT_EQ (fleet.wait (1), "CANCELLED");
      EXPECT_THAT (fleet.wait (0),
                   HasSubstr (g_str_equal (hook, "rpc_hook") ? "FAILED: DEADLINE_EXCEEDED"
                                                             : "FAILED: GROUP_BROKEN"));
    }
}

TEST (Trainer, FailingToConnectIsTheErrorOfThePass)
{
  Fleet fleet (1);

  fleet.connect_error = "server3 does not answer";
  EXPECT_EQ (fleet.start (Task (), 0), "");
  EXPECT_EQ (fleet.wait (0), "FAILED: UNAVAILABLE: server3 does not answer");
  fleet.connect_error.clear ();
  digest_of_run (&fleet, Task ());
}

TEST (Trainer, MayBeFreedWhileItsPassRuns)
{
  for (const char *hook : HOOKS)
    {
      Fleet fleet (2);
      Task task;

      task.hook = hook;
      EXPECT_EQ (fleet.start (task, 0), "");
    }
}

/* What a program adds, and the oracle */

/* As basic_iteration_step, and then keeps a copy of the parameters. */
std::map<guint, std::map<std::string, std::vector<float>>> kept_parameters;
std::mutex kept_mutex;

gboolean
keeping_step (TpsPass *pass, guint epoch, guint index, const TpsTrainBatch *batch, GError **error)
{
  if (!tps_iteration_step_find ("basic_iteration_step", nullptr)
           ->run (pass, epoch, index, batch, error))
    return FALSE;
  std::lock_guard<std::mutex> lock (kept_mutex);
  for (guint i = 0; i < pass->model->n_parameters; i++)
    {
      const TpsParameter *parameter = &pass->model->parameters[i];

      kept_parameters[pass->plan->rank][parameter->name] = {
        parameter->value, parameter->value + tps_shape_n_elems (&parameter->shape)
      };
    }
  return TRUE;
}

/* As basic_ddp_model, and then starts from the oracle's parameters. */
gboolean
oracle_ddp_model (TpsPass *pass, GError **error)
{
  if (!tps_ddp_model_maker_find ("basic_ddp_model", nullptr)->create (pass, error))
    return FALSE;
  for (guint i = 0; i < pass->model->n_parameters; i++)
    {
      const TpsParameter *parameter = &pass->model->parameters[i];
      const std::vector<float> &initial = oracle::vectors ().floats (
          std::string ("trainers/initial/") + parameter->name);

      std::copy (initial.begin (), initial.end (), parameter->value);
    }
  return TRUE;
}

TEST (Trainer, TwoTrainersTrainAsPyTorchDoesWithEveryHook)
{
  static const TpsIterationStep step = { "keeping_step", keeping_step };
  static const TpsDdpModelMaker maker = { "oracle_ddp_model", oracle_ddp_model };
  const oracle::Vectors &oracle = oracle::vectors ();
  Fleet fleet (2);

  tps_iteration_step_register (&step);
  tps_ddp_model_maker_register (&maker);
  for (const char *hook : HOOKS)
    {
      Task task;

      task.hook = hook;
      task.pass_name = hook;
      task.iteration_step = "keeping_step";
      task.ddp_model = "oracle_ddp_model";
      kept_parameters.clear ();
      fleet.reset_servers ();
      for (guint r = 0; r < 2; r++)
        {
          TpsTrainPlan *plan = fleet.make_plan (task, r);
          GError *error = nullptr;

          g_variant_unref (plan->model_config);
          plan->model_config = model_config (true, 20, 8, 2);
          plan->learning_rate = oracle.floats ("trainers/lr")[0];
          plan->epochs = 1;
          plan->steps_per_epoch = 3;
          g_array_set_size (plan->batches, 0);
          for (int s = 0; s < 3; s++)
            {
              std::string name = "trainers/" + std::to_string (s) + "/" + std::to_string (r);
              const std::vector<int64_t> &input = oracle.ints (name + "/input"),
                                         &target = oracle.ints (name + "/target");
              TpsTrainBatch batch = make_batch (
                  static_cast<gint64> (target.size ()), oracle.get (name + "/input").dims[1],
                  [&] (gint64 i) { return input[static_cast<size_t> (i)]; },
                  [&] (gint64 i) { return target[static_cast<size_t> (i)]; });

              g_array_append_val (plan->batches, batch);
            }
          EXPECT_TRUE (tps_trainer_train (fleet.trainer (r), plan, &error)) << error->message;
        }
      for (guint r = 0; r < 2; r++)
        {
          EXPECT_EQ (fleet.wait (r), "SUCCEEDED");
          for (const auto &[name, values] : kept_parameters[r])
            EXPECT_LT (oracle::worst_difference (values, oracle.floats ("trainers/final/" + name)),
                       1e-5)
                << hook << " " << name;
          EXPECT_EQ (kept_parameters[r].size (), 5u);
        }
    }
}

/* A trainer class of somebody else, which uses the recording helpers. */
gboolean
own_trainer_check (const TpsTrainPlan *, GError **)
{
  return TRUE;
}

gboolean
own_trainer_run (TpsPass *pass, GError **error)
{
  int n_calls = 0;

  tps_pass_record_method (
      pass, nullptr, "counting", [] (gpointer data) { ++*static_cast<int *> (data); }, &n_calls);
  tps_pass_record_method (
      pass, "own_metric", "counting", [] (gpointer data) { ++*static_cast<int *> (data); },
      &n_calls);
  EXPECT_EQ (n_calls, 2);
  EXPECT_TRUE (tps_pass_record_start (pass, "own_metric", "key", "span", error));
  EXPECT_FALSE (tps_pass_record_start (pass, "own_metric", "key", "span", nullptr));
  EXPECT_TRUE (tps_pass_record_end (pass, "own_metric", "key", error));
  return TRUE;
}

TEST (Trainer, AProgramMayAddATrainerOfItsOwn)
{
  static const TpsTrainerClass own = { "OwnTrainer", own_trainer_check, own_trainer_run };
  Fleet fleet (1);
  TpsTrainPlan *plan = fleet.make_plan (Task (), 0);

  tps_trainer_class_register (&own);
  Fleet::set (&plan->trainer, "OwnTrainer");
  EXPECT_TRUE (tps_trainer_train (fleet.trainer (0), plan, nullptr));
  EXPECT_EQ (fleet.wait (0), "SUCCEEDED");
  EXPECT_EQ (fleet.count (0, "method_metric,counting"), 1);
  EXPECT_EQ (fleet.count (0, "own_metric,counting"), 1);
  EXPECT_EQ (fleet.count (0, "own_metric,span"), 1);
}

} /* namespace */
