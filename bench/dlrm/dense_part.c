/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/dense_part.h"

#include "runtime/base/metrics.h"

#define BUCKET_MIB 25 /* the default of trainers */
#define FIRST_BUCKET_MIB 1
#define TIMEOUT_NS (G_GINT64_CONSTANT (60) * 1000000000)

static gboolean
init_context (TpsDlrmDense *dense, TpsProcessGroup *group, GError **error)
{
  const TpsHookStateClass *klass = tps_hook_state_class_find ("BasicHookState", error);

  if (klass == NULL)
    return FALSE;
  dense->context = (TpsHookContext) {
    .state = klass->create (),
    .metrics = tps_metrics_new (NULL, NULL),
    .group = group,
    .delivers_sum = TRUE,
    .timeout_ns = TIMEOUT_NS,
  };
  return TRUE;
}

gboolean
tps_dlrm_dense_init (TpsDlrmDense *dense, gsize dim, gsize max_samples, gint64 seed,
                     gdouble learning_rate, TpsProcessGroup *group, GError **error)
{
  TpsDlrmShape shape = { .n_dense = TPS_CLICK_DENSE,
                         .n_tables = TPS_CLICK_TABLES,
                         .dim = dim,
                         .bottom = { 512, 256 },
                         .top = { 512, 256 } };
  TpsDdpOptions options = { .first_bucket_mib = FIRST_BUCKET_MIB,
                            .bucket_cap_mib = BUCKET_MIB,
                            .hook = tps_hook_find ("allreduce_hook", error),
                            .context = &dense->context };

  *dense = (TpsDlrmDense) { .learning_rate = learning_rate };
  if (options.hook == NULL || !init_context (dense, group, error))
    return FALSE;
  dense->model = tps_dlrm_model_new (&shape, error);
  if (dense->model == NULL)
    return FALSE;
  dense->ddp = tps_ddp_new (dense->model, &options, error);
  dense->output_gradient = g_new (gfloat, max_samples);
  return dense->ddp != NULL && tps_model_fill_parameters (dense->model, seed, error)
         && tps_ddp_check_layouts (dense->ddp, &dense->context.group_on_devices, error);
}

void
tps_dlrm_dense_clear (TpsDlrmDense *dense)
{
  g_clear_pointer (&dense->ddp, tps_ddp_free);
  if (dense->model != NULL)
    dense->model->klass->free (dense->model);
  g_clear_pointer (&dense->context.metrics, tps_metrics_unref);
  if (dense->context.state != NULL)
    dense->context.state->klass->free (dense->context.state);
  g_free (dense->output_gradient);
}

gboolean
tps_dlrm_dense_forward (TpsDlrmDense *dense, const TpsClickBatch *batch, gdouble divisor,
                        const gfloat **logits, GError **error)
{
  TpsTensorView output,
      input = { .shape = { .dtype = TPS_DTYPE_FLOAT32,
                           .n_dims = 2,
                           .dims = { (gint64) batch->n_samples, TPS_CLICK_DENSE } },
                .data = batch->dense };

  if (!dense->model->klass->forward (dense->model, input, &output, error))
    return FALSE;
  tps_binary_cross_entropy (output.data, batch->labels, batch->n_samples, divisor,
                            dense->output_gradient);
  *logits = output.data;
  return TRUE;
}

gboolean
tps_dlrm_dense_backward (TpsDlrmDense *dense, GError **error)
{
  /* nothing reads the records of the hook, which would accumulate */
  tps_metrics_clear (dense->context.metrics);
  dense->context.state->klass->next_batch (dense->context.state);
  if (!tps_ddp_backward (dense->ddp, dense->output_gradient, error))
    return FALSE;
  tps_ddp_step_sgd (dense->ddp, dense->learning_rate);
  return TRUE;
}
