/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The PyTorch benchmark that //bench:parameter_server repeats moves the batches to the trainer's
 * GPU. Here, the pass moves them after every kind of preprocessing. This preprocessing only refuses
 * batches that do not fit the model. The batches are still in host memory, and no other trainer
 * depends on this trainer yet. */

#include "runtime/trainer/parts/pass_parts.h"

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

const TpsPreprocess tps_preprocess_dummy_data = {
  .name = "preprocess_dummy_data",
  .run = preprocess_dummy_data_run,
};
