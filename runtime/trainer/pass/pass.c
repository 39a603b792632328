/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The creation, the run and the release of a pass, and its connections. Other threads use only the
 * TpsPassControl. Order of locks: links_lock, then the locks taken by cancelling an exchange or a
 * group. `lock` is a leaf. */

#include "runtime/trainer/pass/pass.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/trainer/nn/device_tensor.h"
#include "runtime/trainer/pass/device_spans.h"
#include "runtime/trainer/pass/partition.h"
#include "runtime/trainer/pass/piece_plan.h"

/* -- the part that other threads may use -- */

struct TpsPassControl
{
  TpsTrainerLinks links;
  TpsStore *store; /* used by the training thread until all trainers have joined */

  TpsMutex links_lock; /* keeps the links alive while they are cancelled */
  TpsExchange *exchange;
  TpsProcessGroup *group;
  TpsTableClient *tables;
  TpsModelClient *model_client;

  TpsMutex lock;
  gboolean is_cancelled;
  gint64 steps_done;
  gint64 steps_total;
  gint64 heartbeat;
  gint64 alive_until_ns; /* the training thread's current wait ends by then */
  gboolean has_loss;
  gdouble loss;
  gboolean has_digest;
  guint8 digest[16];
  gint64 samples;
  gint64 epoch_samples;
};

/* Creates the control of one pass, owned by the caller. Copies `links`. */
static TpsPassControl *
pass_control_new (const TpsTrainerLinks *links, const TpsTrainPlan *plan)
{
  TpsPassControl *control = g_new0 (TpsPassControl, 1);

  control->links = *links;
  control->steps_total = (gint64) plan->epochs * plan->steps_per_epoch;
  tps_mutex_init (&control->links_lock);
  tps_mutex_init (&control->lock);
  return control;
}

static void
pass_control_free (TpsPassControl *control)
{
  tps_mutex_clear (&control->links_lock);
  tps_mutex_clear (&control->lock);
  g_free (control);
}

guint
tps_pass_get_local_rank (const TpsPass *pass)
{
  return pass->control->links.local_rank;
}

void
tps_pass_set_digest (TpsPass *pass, const guint8 digest[16])
{
  TpsPassControl *control = pass->control;

  TPS_LOCK_SCOPE (&control->lock);
  memcpy (control->digest, digest, sizeof control->digest);
  control->has_digest = TRUE;
}

/* Cancels all connections, which ends waits for other processes. Thread: any. */
static void
pass_cancel_links (TpsPass *pass)
{
  TpsPassControl *control = pass->control;

  TPS_LOCK_SCOPE (&control->links_lock);
  if (control->exchange != NULL)
    control->exchange->ops->cancel (control->exchange);
  if (control->group != NULL)
    control->group->ops->abort (control->group);
  if (control->tables != NULL)
    control->tables->ops->cancel (control->tables);
  if (control->model_client != NULL)
    control->model_client->ops->cancel (control->model_client);
}

/* -- access from other threads -- */

void
tps_pass_cancel (TpsPass *pass)
{
  TpsPassControl *control = pass->control;

  tps_mutex_lock (&control->lock);
  control->is_cancelled = TRUE;
  tps_mutex_unlock (&control->lock);
  pass_cancel_links (pass);
}

gboolean
tps_pass_is_cancelled (TpsPass *pass)
{
  TPS_LOCK_SCOPE (&pass->control->lock);
  return pass->control->is_cancelled;
}

gboolean
tps_pass_check_cancelled (TpsPass *pass, GError **error)
{
  if (!tps_pass_is_cancelled (pass))
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED, "pass %s was cancelled", pass->plan->pass_name);
}

void
tps_pass_show_loss (TpsPass *pass)
{
  TpsPassControl *control = pass->control;

  TPS_LOCK_SCOPE (&control->lock);
  control->has_loss = TRUE;
  control->loss = *(const gdouble *) (gpointer) tps_buffer_get_data (pass->loss);
}

void
tps_pass_step_done (TpsPass *pass)
{
  if (pass->loss != NULL)
    tps_pass_show_loss (pass);
  tps_mutex_lock (&pass->control->lock);
  pass->control->steps_done++;
  tps_mutex_unlock (&pass->control->lock);
  tps_pass_alive (pass, 0);
}

void
tps_pass_set_samples (TpsPass *pass, gint64 samples, gint64 epoch_samples)
{
  TPS_LOCK_SCOPE (&pass->control->lock);
  pass->control->samples = samples;
  pass->control->epoch_samples = epoch_samples;
}

void
tps_pass_alive (TpsPass *pass, gint64 until_ns)
{
  TPS_LOCK_SCOPE (&pass->control->lock);
  pass->control->heartbeat++;
  pass->control->alive_until_ns = until_ns;
}

void
tps_pass_get_progress (TpsPass *pass, TpsTrainStatus *status)
{
  TpsPassControl *control = pass->control;

  TPS_LOCK_SCOPE (&control->lock);
  /* A pass that waits with a deadline is alive. Until the deadline, each query counts as a
   * heartbeat. */
  if (tps_clock_now_ns () < control->alive_until_ns)
    control->heartbeat++;
  status->steps_done = control->steps_done;
  status->steps_total = control->steps_total;
  status->heartbeat = control->heartbeat;
  status->has_loss = control->has_loss;
  status->loss = control->loss;
  status->has_digest = control->has_digest;
  memcpy (status->parameters_digest, control->digest, sizeof control->digest);
  status->samples = control->samples;
  status->epoch_samples = control->epoch_samples;
}

/* -- metrics -- */

gboolean
tps_pass_record_start (TpsPass *pass, const gchar *type, const gchar *key, const gchar *name,
                       GError **error)
{
  if (pass->spans != NULL)
    return tps_device_spans_start (pass->spans, type, key, name, error);
  return tps_metrics_record_start (pass->metrics, type, key, name, error);
}

gboolean
tps_pass_record_end (TpsPass *pass, const gchar *type, const gchar *key, GError **error)
{
  if (pass->spans != NULL)
    return tps_device_spans_end (pass->spans, type, key, error);
  return tps_metrics_record_end (pass->metrics, type, key, error);
}

void
tps_pass_record_method (TpsPass *pass, const gchar *type, const gchar *name,
                        void (*method) (gpointer user_data), gpointer user_data)
{
  gint64 start_ns = tps_clock_now_ns ();

  method (user_data);
  tps_metrics_record (pass->metrics, type == NULL ? "method_metric" : type, name,
                      (gdouble) (tps_clock_now_ns () - start_ns) / 1e6);
}

gchar *
tps_pass_epoch_key (guint epoch, guint index)
{
  return g_strdup_printf ("%u,%u", epoch, index);
}

/* -- connections -- */

/* The connections of a pass. Any thread may cancel them, so they are stored in the pass's
 * control. */

/* The time that connecting may take in addition to the timeout of a round. The links have deadlines
 * of their own. */
#define CONNECT_NS (G_GINT64_CONSTANT (30) * 1000 * 1000 * 1000)

/* Takes the connections out of the control before it frees them, so that no thread cancels a
 * connection that is being freed. Must be called before the gradient memory is released, because
 * the exchange, the group and the tables may use this memory until they are freed. */
static void
pass_disconnect (TpsPass *pass)
{
  TpsPassControl *control = pass->control;
  TpsExchange *exchange;
  TpsProcessGroup *group;
  TpsTableClient *tables;
  TpsModelClient *model_client;

  tps_mutex_lock (&control->links_lock);
  exchange = g_steal_pointer (&control->exchange);
  group = g_steal_pointer (&control->group);
  tables = g_steal_pointer (&control->tables);
  model_client = g_steal_pointer (&control->model_client);
  tps_mutex_unlock (&control->links_lock);
  pass->context.exchange = NULL;
  pass->context.group = NULL;
  pass->tables = NULL;
  pass->model_client = NULL;
  if (control->store != NULL)
    control->store->ops->free (control->store);
  control->store = NULL;
  if (exchange != NULL)
    exchange->ops->free (exchange);
  if (group != NULL)
    group->ops->free (group);
  if (tables != NULL)
    tables->ops->free (tables);
  if (model_client != NULL)
    model_client->ops->free (model_client);
}

/* Stores the exchange where pass_cancel_links() finds it. Returns FALSE if the pass has been
 * cancelled in the meantime. The functions adopt_group(), adopt_tables() and adopt_model_client()
 * do the same. */
static gboolean
adopt_exchange (TpsPass *pass, TpsExchange *exchange, GError **error)
{
  tps_mutex_lock (&pass->control->links_lock);
  pass->control->exchange = exchange;
  tps_mutex_unlock (&pass->control->links_lock);
  pass->context.exchange = exchange;
  return tps_pass_check_cancelled (pass, error);
}

static gboolean
adopt_group (TpsPass *pass, TpsProcessGroup *group, GError **error)
{
  tps_mutex_lock (&pass->control->links_lock);
  pass->control->group = group;
  tps_mutex_unlock (&pass->control->links_lock);
  pass->context.group = group;
  return tps_pass_check_cancelled (pass, error);
}

static gboolean
adopt_tables (TpsPass *pass, TpsTableClient *tables, GError **error)
{
  tps_mutex_lock (&pass->control->links_lock);
  pass->control->tables = tables;
  tps_mutex_unlock (&pass->control->links_lock);
  pass->tables = tables;
  return tps_pass_check_cancelled (pass, error);
}

gboolean
tps_pass_connect_tables (TpsPass *pass, TpsDevice *lookup_device, GError **error)
{
  const TpsTrainerLinks *links = &pass->control->links;
  TpsTableClient *tables;

  if (links->connect_tables == NULL)
    return tps_fail (error, TPS_ERROR_UNAVAILABLE, "this process cannot reach embedding tables");
  tps_pass_alive (pass, tps_clock_now_ns () + CONNECT_NS + pass->plan->rpc_timeout_ns);
  tables = links->connect_tables (links->user_data, pass->plan, lookup_device, error);
  tps_pass_alive (pass, 0);
  return tables != NULL && adopt_tables (pass, tables, error);
}

static gboolean
adopt_model_client (TpsPass *pass, TpsModelClient *model_client, GError **error)
{
  tps_mutex_lock (&pass->control->links_lock);
  pass->control->model_client = model_client;
  tps_mutex_unlock (&pass->control->links_lock);
  pass->model_client = model_client;
  return tps_pass_check_cancelled (pass, error);
}

gboolean
tps_pass_connect_model (TpsPass *pass, GError **error)
{
  const TpsTrainerLinks *links = &pass->control->links;
  TpsModelClient *model_client;

  if (links->connect_model == NULL)
    return tps_fail (error, TPS_ERROR_UNAVAILABLE, "this process cannot reach models on servers");
  model_client = links->connect_model (links->user_data, pass->plan, error);
  return model_client != NULL && adopt_model_client (pass, model_client, error);
}

static gboolean
connect_servers (TpsPass *pass, GError **error)
{
  const TpsTrainerLinks *links = &pass->control->links;
  TpsExchange *exchange;

  tps_pass_alive (pass, tps_clock_now_ns () + CONNECT_NS + pass->plan->rpc_timeout_ns);
  exchange = links->connect_servers (links->user_data, pass->plan, error);
  tps_pass_alive (pass, 0);
  return exchange != NULL && adopt_exchange (pass, exchange, error);
}

static gboolean
is_cancelled_func (gpointer user_data)
{
  return tps_pass_is_cancelled (user_data);
}

/* Returns the prefix of the group's keys in the store; owned by the caller. */
static gchar *
dup_prefix (const TpsTrainPlan *plan)
{
  return g_strdup_printf ("%s/group/", plan->pass_name);
}

/* A failure to remove the keys is ignored, because they do not affect this pass. */
static void
pass_leave_store (TpsPass *pass)
{
  TpsStore *store = g_steal_pointer (&pass->control->store);
  g_autofree gchar *prefix = dup_prefix (pass->plan);

  if (store == NULL)
    return;
  if (pass->plan->rank == 0)
    store->ops->remove (store, prefix, NULL);
  store->ops->free (store);
}

/* Returns the timeout of a round among the trainers. With tables, a trainer may be waiting for a
 * table server while the other trainers wait for this trainer. The timeout of the round is then
 * longer, so the error of the waiting trainer arrives first. This error names the server, while the
 * errors of the other trainers would only name the trainer. */
static gint64
get_round_timeout (const TpsPass *pass)
{
  return (pass->tables != NULL ? 2 : 1) * pass->plan->rpc_timeout_ns;
}

/* Returns the device of the group, or NULL if the trainer is on the CPU or the backend uses no
 * device. */
static TpsDevice *
choose_group_device (const TpsPass *pass)
{
  return pass->device->is_host || g_str_equal (pass->plan->backend, "gloo") ? NULL : pass->device;
}

/* Refuses a group of several trainers if this process requires encryption, because neither Gloo nor
 * NCCL encrypts. */
static gboolean
may_join_group (const TpsPass *pass, GError **error)
{
  if (!pass->control->links.no_plain_groups || pass->plan->world_size <= 1)
    return TRUE;
  return tps_fail (error, TPS_ERROR_PERMISSION_DENIED,
                   "backend %s: trainers exchange gradients without encryption, and this process "
                   "requires it; --allow-plain-collectives permits it",
                   pass->plan->backend);
}

static gboolean
join_group (TpsPass *pass, GError **error)
{
  const TpsTrainerLinks *links = &pass->control->links;
  const TpsTrainPlan *plan = pass->plan;
  g_autofree gchar *prefix = dup_prefix (plan);
  TpsProcessGroupOptions options = {
    .rank = plan->rank,
    .size = plan->world_size,
    .prefix = prefix,
    .timeout_ns = pass->context.timeout_ns,
    .host = links->host,
    .first_port = links->first_port,
    .last_port = links->last_port,
    .no_shared_memory = links->no_shared_memory,
    .device = choose_group_device (pass),
    .is_cancelled = is_cancelled_func,
    .user_data = pass,
  };
  TpsProcessGroup *group;

  tps_pass_alive (pass, tps_clock_now_ns () + CONNECT_NS + options.timeout_ns);
  if (plan->world_size > 1)
    {
      pass->control->store = links->connect_store (links->user_data, plan, error);
      if (pass->control->store == NULL)
        return FALSE;
      options.store = pass->control->store;
    }
  group = tps_process_group_new (plan->backend, &options, error);
  tps_pass_alive (pass, 0);
  return group != NULL && adopt_group (pass, group, error);
}

gboolean
tps_pass_connect (TpsPass *pass, GError **error)
{
  TpsHookContext *context = &pass->context;

  context->metrics = pass->metrics;
  context->owned_by_block = pass->plan->partition_by_trainer;
  context->delivers_sum = g_str_equal (pass->plan->reduce, "sum");
  context->timeout_ns = get_round_timeout (pass);
  if ((pass->hook->needs & TPS_HOOK_NEEDS_SERVERS) != 0 && !connect_servers (pass, error))
    return FALSE;
  if ((pass->hook->needs & TPS_HOOK_NEEDS_GROUP) != 0
      && (!may_join_group (pass, error) || !join_group (pass, error)))
    return FALSE;
  return TRUE;
}

/* -- pass -- */

TpsPass *
tps_pass_new (TpsTrainPlan *plan, const TpsTrainerLinks *links, TpsMetrics *metrics)
{
  TpsPass *pass = g_new0 (TpsPass, 1);

  pass->plan = plan;
  pass->metrics = tps_metrics_ref (metrics);
  pass->control = pass_control_new (links, plan);
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
  pass_disconnect (pass);
  release_memory (pass);
  pass_control_free (pass->control);
  tps_budget_unref (pass->budget);
  tps_metrics_unref (pass->metrics);
  tps_train_plan_free (pass->plan);
  g_free (pass);
}

/* -- the forward pass -- */

/* Provides memory for the gradient of the output. The memory only grows. Before a smaller memory is
 * released, the function waits for the stream, which may still be using it. */
static gboolean
provide_output_gradient (TpsPass *pass, const TpsShape *shape, GError **error)
{
  TpsTensor *gradient = &pass->output_gradient;

  if (gradient->buffer != NULL
      && tps_buffer_get_size (gradient->buffer) >= tps_shape_n_bytes (shape))
    {
      gradient->shape = *shape;
      return TRUE;
    }
  if (!pass->device->ops->stream_sync (pass->model->stream, error))
    return FALSE;
  tps_tensor_clear (gradient);
  return tps_device_tensor_init (gradient, pass->device, shape, error);
}

/* Allocates host memory to which the device can write. */
static gboolean
provide_loss (TpsPass *pass, GError **error)
{
  if (pass->loss == NULL)
    pass->loss = pass->device->ops->alloc_host (pass->device, sizeof (gdouble), error);
  return pass->loss != NULL;
}

gboolean
tps_pass_forward (TpsPass *pass, const TpsTrainBatch *batch, GError **error)
{
  TpsTensorView output;

  tps_pass_alive (pass, tps_clock_now_ns () + pass->plan->rpc_timeout_ns);
  if (!pass->model->klass->forward (pass->model, tps_tensor_view (&batch->input), &output, error)
      || !provide_output_gradient (pass, &output.shape, error) || !provide_loss (pass, error))
    return FALSE;
  pass->criterion->forward_backward (pass->model->stream, output, tps_tensor_view (&batch->target),
                                     (gdouble *) (gpointer) tps_buffer_get_data (pass->loss),
                                     tps_tensor_data (&pass->output_gradient));
  if (pass->device->is_host)
    tps_pass_show_loss (pass);
  return TRUE;
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
  pass_leave_store (pass);
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
    pass_cancel_links (pass);
  tps_pass_alive (pass, tps_clock_now_ns () + pass->plan->rpc_timeout_ns);
  pass_disconnect (pass);
  release_memory (pass);
  tps_pass_alive (pass, 0);
  return ok;
}
