/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The built-in parts of a pass, and the registries that find parts by name. */

#include "runtime/trainer/pass/pass.h"

#include "runtime/base/config.h"
#include "runtime/trainer/batch_update/batch_update_trainer.h"
#include "runtime/trainer/ddp_rpc/ddp_rpc_trainer.h"

/* -- DdpTrainer -- */

/* DdpTrainer runs epochs of steps, each on the trainer's next batch. All trainers run the same
 * number of steps, because every step needs all trainers. A trainer that has no batch left in an
 * epoch takes part without data and also applies the averages. */

static gboolean
ddp_trainer_check (const TpsTrainPlan *plan, GError **error)
{
  TpsConfig config;

  tps_config_init (&config, plan->trainer_config, "trainer DdpTrainer", error);
  return tps_config_finish (&config); /* refuses any argument */
}

static gboolean
run_step (TpsPass *pass, guint epoch, guint index, GError **error)
{
  const TpsTrainPlan *plan = pass->plan;
  const TpsTrainBatch *batch = index < plan->n_batches ? &plan->batches[index] : NULL;

  if (!tps_pass_check_cancelled (pass, error)
      || !pass->iteration_step->run (pass, epoch, index, batch, error))
    return FALSE;
  tps_pass_step_done (pass);
  return TRUE;
}

static gboolean
ddp_trainer_run (TpsPass *pass, GError **error)
{
  if (!tps_pass_check_cancelled (pass, error) || !tps_pass_connect (pass, error)
      || !pass->ddp_model->create (pass, error))
    return FALSE;
  for (guint epoch = 0; epoch < pass->plan->epochs; epoch++)
    for (guint index = 0; index < pass->plan->steps_per_epoch; index++)
      if (!run_step (pass, epoch, index, error))
        return FALSE;
  return TRUE;
}

static const TpsTrainerClass ddp_trainer_class = {
  .name = "DdpTrainer",
  .check = ddp_trainer_check,
  .run = ddp_trainer_run,
  .takes_devices = TRUE,
};

/* -- preprocess_dummy_data -- */

/* The PyTorch benchmark that //bench:parameter_server repeats moves the batches to the trainer's
 * GPU. Here, the pass moves them after every kind of preprocessing. This preprocessing only refuses
 * batches that do not fit the model. The batches are still in host memory, and no other trainer
 * depends on this trainer yet. */

static gboolean
preprocess_dummy_data_run (TpsPass *pass, GError **error)
{
  const TpsTrainPlan *plan = pass->plan;

  for (guint i = 0; i < plan->n_batches; i++)
    if (!pass->model->klass->check_batch (pass->model, &plan->batches[i], error))
      {
        g_prefix_error (error, "batches[%u]: ", i);
        return FALSE;
      }
  return TRUE;
}

static const TpsPreprocess dummy_data_preprocess = {
  .name = "preprocess_dummy_data",
  .run = preprocess_dummy_data_run,
};

/* -- basic_ddp_model -- */

static gboolean
basic_ddp_model_create (TpsPass *pass, GError **error)
{
  pass->hook_state = pass->hook_state_class->create ();
  return tps_pass_create_ddp (pass, error);
}

static const TpsDdpModelMaker basic_ddp_model = {
  .name = "basic_ddp_model",
  .create = basic_ddp_model_create,
};

/* -- basic_iteration_step -- */

/* One step has the order of the PyTorch benchmarks that bench/ repeats: next batch, zero gradients,
 * forward pass and loss, backward pass, optimizer. The backward pass waits for all hooks. A failed
 * step leaves its spans open, and summaries ignore open spans. */

#define BATCH_METRIC "batch_level_metric"
#define FORWARD_METRIC "forward_metric"
#define BACKWARD_METRIC "backward_metric"

static gboolean
run_forward (TpsPass *pass, const gchar *key, const TpsTrainBatch *batch, GError **error)
{
  if (!tps_pass_record_start (pass, FORWARD_METRIC, key, "forward_pass", error))
    return FALSE;
  if (!tps_pass_forward (pass, batch, error))
    return FALSE;
  /* Here and below, an error means that the metrics were cleared in the meantime. The step must not
   * fail for this reason. */
  tps_pass_record_end (pass, FORWARD_METRIC, key, NULL);
  return TRUE;
}

static gboolean
run_backward (TpsPass *pass, const gchar *key, const TpsTrainBatch *batch, GError **error)
{
  gboolean ok;

  if (!tps_pass_record_start (pass, BACKWARD_METRIC, key, "backward", error))
    return FALSE;
  if (batch != NULL)
    ok = tps_ddp_backward (pass->ddp, tps_tensor_data (&pass->output_gradient), error);
  else
    ok = tps_ddp_join_step (pass->ddp, error);
  if (ok)
    tps_pass_record_end (pass, BACKWARD_METRIC, key, NULL);
  return ok;
}

static gboolean
basic_iteration_step_run (TpsPass *pass, guint epoch, guint index, const TpsTrainBatch *batch,
                          GError **error)
{
  g_autofree gchar *key = tps_pass_epoch_key (epoch, index);

  pass->hook_state->klass->next_batch (pass->hook_state);
  if (!tps_pass_record_start (pass, BATCH_METRIC, key, "batch_all", error))
    return FALSE;
  tps_ddp_zero_grad (pass->ddp);
  if (batch != NULL && !run_forward (pass, key, batch, error))
    return FALSE;
  if (!run_backward (pass, key, batch, error))
    return FALSE;
  tps_ddp_step_sgd (pass->ddp, pass->plan->learning_rate);
  tps_pass_record_end (pass, BATCH_METRIC, key, NULL);
  return TRUE;
}

static const TpsIterationStep basic_iteration_step = {
  .name = "basic_iteration_step",
  .run = basic_iteration_step_run,
};

/* -- registries -- */

static const gconstpointer built_in_trainers[] = { &ddp_trainer_class, &tps_ddp_rpc_trainer_class,
                                                   &tps_batch_update_trainer_class };
static const gconstpointer built_in_preprocesses[] = { &dummy_data_preprocess };
static const gconstpointer built_in_ddp_models[] = { &basic_ddp_model };
static const gconstpointer built_in_iteration_steps[] = { &basic_iteration_step };

TpsRegistry tps_trainer_class_registry = TPS_REGISTRY_INIT ("trainer", built_in_trainers);
TpsRegistry tps_preprocess_registry = TPS_REGISTRY_INIT ("preprocessing", built_in_preprocesses);
TpsRegistry tps_ddp_model_maker_registry = TPS_REGISTRY_INIT ("ddp model", built_in_ddp_models);
TpsRegistry tps_iteration_step_registry = TPS_REGISTRY_INIT ("iteration step",
                                                             built_in_iteration_steps);
