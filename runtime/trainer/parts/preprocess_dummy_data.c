/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The original moves the batches to the trainer's GPU, which is done for every preprocessing here.
 * What is left is to refuse those that do not fit the model, while the host can read them and
 * before anything waits for them. */

#include "runtime/trainer/parts/pass_parts.h"

static gboolean
preprocess_dummy_data_run (TpsPass *pass, GError **error)
{
  GArray *batches = pass->plan->batches;

  for (guint i = 0; i < batches->len; i++)
    if (!pass->model->klass->check_batch (pass->model, &g_array_index (batches, TpsTrainBatch, i),
                                          error))
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
