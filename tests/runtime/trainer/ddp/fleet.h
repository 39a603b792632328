/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whole passes in this process: trainers on threads, averaging servers, and a store in memory. */

#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/trainer/pass/trainer.h"
#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/fakes.h"
#include "tests/runtime/trainer/ddp/local_exchange.h"

inline constexpr const char *HOOKS[] = { "allreduce_hook", "hybrid_hook", "rpc_hook",
                                         "sparse_rpc_hook" };
constexpr gint64 SECOND_NS = G_GINT64_CONSTANT (1000000000);

/* Returns arguments of DummyModel. The caller owns them. */
GVariant *model_config (bool sparse, gint64 rows = 40, gint64 width = 16, gint64 layers = 3);

/* Returns a batch whose ids and targets are functions of their position. The caller owns it. */
TpsTrainBatch make_batch (gint64 n, gint64 length, const std::function<gint64 (gint64)> &id,
                          const std::function<gint64 (gint64)> &target);

/* The options of a run, from which the plan of each trainer is made. */
struct Task
{
  std::string pass_name = "pass-1";
  const char *hook = "rpc_hook";
  const char *iteration_step = "basic_iteration_step";
  const char *ddp_model = "basic_ddp_model";
  const char *reduce = "mean";
  const char *compress = "none";
  const char *backend = "gloo";
  std::vector<std::string> devices; /* one per rank; if empty, the CPU */
  bool sparse = true;
  guint n_batches = 5;
  guint epochs = 2;
  double bucket_mib = 0.002;
  gint64 piece_bytes = 0;
  gint64 timeout_ns = 20 * SECOND_NS;
};

/* Returns the status at the end of the pass. The caller must clear it. */
inline TpsTrainStatus
wait_for_end (TpsTrainer *trainer)
{
  TpsTrainStatus status = {};

  do
    {
      tps_train_status_clear (&status);
      tps_trainer_get_status (trainer, &status);
      std::this_thread::yield ();
    }
  while (status.state == TPS_TRAIN_RUNNING);
  return status;
}

/* The trainers of one process, their servers and their rendezvous. */
class Fleet
{
public:
  explicit Fleet (guint n_trainers, guint n_servers = 1, gint64 round_timeout_ns = 20 * SECOND_NS,
                  TpsReduce reduce = TPS_REDUCE_MEAN)
      : n_servers_ (n_servers), servers_ (n_servers, n_trainers, round_timeout_ns, reduce)
  {
    for (guint r = 0; r < n_trainers; r++)
      {
        TpsTrainerLinks links = this->links (r);

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

  TpsTrainerLinks
  links (guint rank)
  {
    TpsTrainerLinks links = {};

    links.connect_servers = connect_servers;
    links.connect_store = connect_store;
    links.user_data = this;
    links.local_rank = rank;
    return links;
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
    set (&plan->compress, task.compress);
    set (&plan->backend, task.backend);
    if (rank < task.devices.size ())
      set (&plan->device, task.devices[rank].c_str ());
    plan->rank = rank;
    plan->world_size = n_trainers ();
    g_variant_unref (plan->model_config);
    plan->model_config = model_config (task.sparse);
    plan->epochs = task.epochs;
    plan->seed = 42;
    plan->first_bucket_mib = plan->bucket_cap_mib = task.bucket_mib;
    plan->piece_bytes = task.piece_bytes;
    plan->learning_rate = 10; /* large, because the gradient of a double softmax is almost zero */
    plan->rpc_timeout_ns = task.timeout_ns;
    plan->steps_per_epoch = (task.n_batches + n_trainers () - 1) / n_trainers ();
    for (guint b = rank; b < task.n_batches; b += n_trainers ())
      {
        TpsTrainBatch batch = make_batch (
            4, 7, [b] (gint64 i) { return (i * 13 + b * 7) % 40; },
            [b] (gint64 i) { return (i + b) % 16; });

        tps_train_plan_take_batch (plan, &batch);
      }
    for (guint s = 0; s < n_servers_; s++)
      tps_train_plan_add_server (plan, static_cast<gint32> (n_trainers () + s), "memory");
    return plan;
  }

  static void
  set (gchar **field, const char *value)
  {
    g_free (*field);
    *field = g_strdup (value);
  }

  /* Returns "" if the pass has started, or the error. */
  std::string
  start (const Task &task, guint rank)
  {
    GError *error = nullptr;

    tps_trainer_train (trainers_[rank], make_plan (task, rank), &error);
    return text_of (error);
  }

  /* Resets the servers, starts all trainers, and waits for them. */
  void
  run (const Task &task)
  {
    servers_.reset ();
    for (guint r = 0; r < n_trainers (); r++)
      EXPECT_EQ (start (task, r), "");
    for (guint r = 0; r < n_trainers (); r++)
      wait (r);
  }

  /* Waits for the end of the trainer's pass. Returns "SUCCEEDED", "CANCELLED", or "FAILED: " and
   * the error. */
  std::string
  wait (guint rank)
  {
    g_auto (TpsTrainStatus) status = wait_for_end (trainers_[rank]);

    if (status.state == TPS_TRAIN_SUCCEEDED)
      return "SUCCEEDED";
    if (status.state == TPS_TRAIN_CANCELLED)
      return "CANCELLED";
    return std::string ("FAILED: ") + tps_error_code_name (status.error->code) + ": "
           + status.error->message;
  }

  void
  reset_servers ()
  {
    servers_.reset ();
  }

  /* Returns the digest of the trainer's pass, which must have succeeded. */
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

  /* Runs a pass, which must succeed. Returns its digest, on which all trainers must agree. */
  std::string
  digest_of_run (const Task &task, const std::string &what = "")
  {
    SCOPED_TRACE (what + " " + task.hook + " " + task.compress);
    run (task);
    for (guint r = 0; r < n_trainers (); r++)
      EXPECT_EQ (wait (r), "SUCCEEDED") << "trainer " << r;
    if (testing::Test::HasFailure ())
      return "";
    for (guint r = 1; r < n_trainers (); r++)
      EXPECT_EQ (digest (r), digest (0)) << "trainer " << r;
    return digest (0);
  }

  size_t
  n_keys ()
  {
    return store_.n_keys ();
  }

  /* Returns the number of samples of a metric. */
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

  /* If it is not empty, each connection fails with this error. */
  std::string connect_error;

private:
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
