/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The creation, the run and the release of a pass. Other threads observe and cancel a pass through
 * pass_control.c. pass_links.c contains its connections. */

#include "runtime/trainer/pass/pass.h"

#include "runtime/trainer/pass/partition.h"
#include "runtime/trainer/pass/device_spans.h"
#include "runtime/trainer/pass/pass_control.h"
#include "runtime/trainer/pass/piece_plan.h"

TpsPass *
tps_pass_new (TpsTrainPlan *plan, const TpsTrainerLinks *links, TpsMetrics *metrics)
{
  TpsPass *pass = g_new0 (TpsPass, 1);

  pass->plan = plan;
  pass->metrics = tps_metrics_ref (metrics);
  pass->control = tps_pass_control_new (links, plan);
  pass->budget = links->budget != NULL ? tps_budget_ref (links->budget) : NULL;
  return pass;
}

/* Releases the parameters, gradients and batches, because an ended pass is kept only for its
 * status. */
static void
release_memory (TpsPass *pass)
{
  g_clear_pointer (&pass->ddp, tps_ddp_free);
  g_clear_pointer (&pass->spans, tps_device_spans_free);
  if (pass->hook_state != NULL)
    pass->hook_state->klass->free (pass->hook_state);
  pass->hook_state = NULL;
  if (pass->model != NULL)
    pass->model->klass->free (pass->model);
  pass->model = NULL;
  g_clear_pointer (&pass->pieces, tps_piece_plan_free);
  tps_tensor_clear (&pass->output_gradient);
  g_clear_pointer (&pass->loss, tps_buffer_unref);
  tps_train_plan_clear_batches (pass->plan);
  tps_budget_release (pass->budget, pass->n_charged);
  pass->n_charged = 0;
}

void
tps_pass_free (TpsPass *pass)
{
  if (pass == NULL)
    return;
  tps_pass_disconnect (pass);
  release_memory (pass);
  tps_pass_control_free (pass->control);
  tps_budget_unref (pass->budget);
  tps_metrics_unref (pass->metrics);
  tps_train_plan_free (pass->plan);
  g_free (pass);
}

/* -- the model -- */

static void
plan_pieces (TpsPass *pass)
{
  const TpsBucketLayout *layout = tps_ddp_get_layout (pass->ddp);
  const TpsTrainPlan *plan = pass->plan;
  g_autofree TpsPieceBucket *buckets = g_new (TpsPieceBucket, layout->n_buckets);
  TpsPiecePlanOptions options = { .buckets = buckets,
                                  .n_buckets = layout->n_buckets,
                                  .n_servers = plan->n_servers,
                                  .only_server = -1,
                                  .piece_bytes = plan->piece_bytes };

  if (options.n_servers == 0)
    return;
  for (guint b = 0; b < layout->n_buckets; b++)
    {
      const TpsBucketCall *call = tps_ddp_get_call (pass->ddp, b);

      buckets[b].travels_as = call->travels_as;
      buckets[b].n_units = call->travels_as == TPS_GRADIENT_DENSE ? (gint64) call->n_elems
                                                                  : call->rows;
      buckets[b].n_wire_bytes = call->n_wire_bytes;
    }
  if (plan->partition_by_trainer)
    options.only_server = (gint) tps_partition_find_server (plan->rank, plan->world_size,
                                                            options.n_servers);
  pass->pieces = tps_piece_plan_new (&options);
  pass->context.routes = pass->pieces->routes;
}

static void
alive_func (gpointer user_data, gint64 until_ns)
{
  tps_pass_alive (user_data, until_ns);
}

gboolean
tps_pass_create_ddp (TpsPass *pass, GError **error)
{
  TpsDdpOptions options = {
    .first_bucket_mib = pass->plan->first_bucket_mib,
    .bucket_cap_mib = pass->plan->bucket_cap_mib,
    .compression = pass->compression,
    .hook = pass->hook,
    .context = &pass->context,
    .alive = alive_func,
    .user_data = pass,
  };

  pass->context.state = pass->hook_state;
  pass->ddp = tps_ddp_new (pass->model, &options, error);
  if (pass->ddp == NULL
      || !tps_ddp_check_layouts (pass->ddp, &pass->context.group_on_devices, error))
    return FALSE;
  tps_pass_leave_store (pass);
  plan_pieces (pass);
  return tps_model_fill_parameters (pass->model, pass->plan->seed, error);
}

static gboolean
publish_digest (TpsPass *pass, GError **error)
{
  guint8 digest[16];

  if (pass->ddp == NULL) /* a trainer class need not use a DDP */
    return TRUE;
  if (!tps_ddp_digest (pass->ddp, digest, error))
    return FALSE;
  tps_pass_set_digest (pass, digest);
  return TRUE;
}

/* Publishes the digest and records the remaining spans, which waits for the device. */
static gboolean
finish (TpsPass *pass, GError **error)
{
  return publish_digest (pass, error)
         && (pass->spans == NULL || tps_device_spans_settle (pass->spans, error));
}

gboolean
tps_pass_run (TpsPass *pass, GError **error)
{
  gboolean ok = pass->trainer->run (pass, error) && finish (pass, error);

  /* After a failure, disconnecting must not wait for the other ranks. */
  if (!ok)
    tps_pass_cancel_links (pass);
  tps_pass_alive (pass, tps_clock_now_ns () + pass->plan->rpc_timeout_ns);
  tps_pass_disconnect (pass);
  release_memory (pass);
  tps_pass_alive (pass, 0);
  return ok;
}
