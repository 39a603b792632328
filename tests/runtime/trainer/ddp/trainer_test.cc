/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/pass/trainer.h"

#include <map>
#include <mutex>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trainer/pass/pass.h"
#include "tests/oracle/vectors.h"
#include "tests/runtime/base/trace_capture.h"
#include "tests/runtime/trainer/ddp/fleet.h"

namespace {

using testing::HasSubstr;

TEST (Trainer, LeavesNoKeysInTheStore)
{
  Fleet fleet (3);
  Task task;

  task.hook = "allreduce_hook";
  fleet.run (task);
  EXPECT_EQ (fleet.n_keys (), 0u);
}

/* Failures */

TEST (Trainer, OnePassAtATime)
{
  Fleet fleet (2);

  EXPECT_EQ (fleet.start (Task (), 0), ""); /* the pass waits for trainer 1 */
  EXPECT_EQ (fleet.start (Task (), 0), "ALREADY_EXISTS: pass pass-1 is still running");
  EXPECT_EQ (fleet.start (Task (), 1), "");
  EXPECT_EQ (fleet.wait (0), "SUCCEEDED");
  EXPECT_EQ (fleet.wait (1), "SUCCEEDED");
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
      if (status.heartbeat == last) /* normal between two phases, but must not last */
        i--;
      last = status.heartbeat;
    }
  tps_trainer_cancel (fleet.trainer (0));
  EXPECT_EQ (fleet.wait (0), "CANCELLED");
}

/* A step that cancels trainer 1 from within its second epoch. */
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
  Fleet fleet (2, 1, 10 * SECOND_NS);
  Task task;

  tps_iteration_step_register (&step);
  cancelled_trainer = fleet.trainer (1);
  task.iteration_step = "cancelling_step";
  for (const char *hook : { "rpc_hook", "allreduce_hook" })
    {
      task.hook = hook;
      task.pass_name = hook;
      task.timeout_ns = 10 * SECOND_NS;
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
  fleet.digest_of_run (Task ());
}

/* Other trainers would receive gradients without encryption. They must not leave a process that
 * requires encryption. */
TEST (Trainer, JoinsNoPlainGroupWhereItIsToldNotTo)
{
  Fleet fleet (2);
  TpsTrainerLinks links = fleet.links (0);
  thriftps_test::TraceCapture capture;
  links.no_plain_groups = TRUE;
  g_autoptr (TpsMetrics) metrics = tps_metrics_new (nullptr, nullptr);
  g_autoptr (TpsTrainer) trainer = tps_trainer_new (&links, metrics);
  Task task;
  task.hook = "allreduce_hook";
  ASSERT_TRUE (tps_trainer_train (trainer, fleet.make_plan (task, 0), nullptr));
  g_auto (TpsTrainStatus) status = wait_for_end (trainer);
  EXPECT_EQ (status.state, TPS_TRAIN_FAILED);
  ASSERT_NE (status.error, nullptr);
  EXPECT_EQ (status.error->code, TPS_ERROR_PERMISSION_DENIED);
  EXPECT_THAT (status.error->message, HasSubstr ("--allow-plain-collectives"));
  EXPECT_THAT (capture.WaitFor ("pass_failed"), HasSubstr ("rank=0 cancelled=false reason="));
}

/* If the links have a budget, a pass must charge its model to this budget, not to the budget of the
 * default pool. */
TEST (Trainer, ChargesItsModelToTheBudgetOfItsLinks)
{
  Fleet fleet (1);
  TpsTrainerLinks links = fleet.links (0);
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "passes", 16);
  thriftps_test::TraceCapture capture;
  links.budget = budget;
  g_autoptr (TpsMetrics) metrics = tps_metrics_new (nullptr, nullptr);
  g_autoptr (TpsTrainer) trainer = tps_trainer_new (&links, metrics);
  g_autoptr (GError) error = nullptr;
  EXPECT_FALSE (tps_trainer_train (trainer, fleet.make_plan (Task (), 0), &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
  tps_budget_set_max (budget, (gsize) 1 << 30);
  ASSERT_TRUE (tps_trainer_train (trainer, fleet.make_plan (Task (), 0), nullptr));
  g_auto (TpsTrainStatus) status = wait_for_end (trainer);
  EXPECT_EQ (status.state, TPS_TRAIN_SUCCEEDED);
  EXPECT_THAT (capture.WaitFor ("pass_ended"), HasSubstr ("rank=0 cancelled=false"));
  EXPECT_GT (tps_budget_get_peak (budget), 16u);
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
}

/* Parts of a pass that a program adds, and the oracle */

/* A step that runs basic_iteration_step and then copies the parameters. */
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

/* Runs basic_ddp_model, and then sets the oracle's initial parameters. */
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
          tps_train_plan_clear_batches (plan);
          for (int s = 0; s < 3; s++)
            {
              std::string name = "trainers/" + std::to_string (s) + "/" + std::to_string (r);
              const std::vector<int64_t> &input = oracle.ints (name + "/input"),
                                         &target = oracle.ints (name + "/target");
              TpsTrainBatch batch = make_batch (
                  static_cast<gint64> (target.size ()), oracle.get (name + "/input").dims[1],
                  [&] (gint64 i) { return input[static_cast<size_t> (i)]; },
                  [&] (gint64 i) { return target[static_cast<size_t> (i)]; });

              tps_train_plan_take_batch (plan, &batch);
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

/* A trainer class of a program that uses the recording helpers. */
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
