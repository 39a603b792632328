/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* DdpTrainer runs epochs of steps, each on the trainer's next batch. All trainers run the same
 * number of steps, because every step needs all trainers. A trainer that has no batch left in an
 * epoch takes part without data and also applies the averages. */

#include "runtime/trainer/parts/pass_parts.h"

#include "runtime/base/config.h"

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

const TpsTrainerClass tps_ddp_trainer_class = {
  .name = "DdpTrainer",
  .check = ddp_trainer_check,
  .run = ddp_trainer_run,
  .takes_devices = TRUE,
};
