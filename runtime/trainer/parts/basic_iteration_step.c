/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One step has the order of the PyTorch benchmarks that bench/ repeats: next batch, zero gradients,
 * forward pass and loss, backward pass, optimizer. The backward pass waits for all hooks. A failed
 * step leaves its spans open, and summaries ignore open spans. */

#include "runtime/trainer/parts/pass_parts.h"

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

const TpsIterationStep tps_basic_iteration_step = {
  .name = "basic_iteration_step",
  .run = basic_iteration_step_run,
};
