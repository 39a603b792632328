/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The connections of a pass. Any thread may cancel them, so they are stored in the pass's
 * control. */

#include "runtime/trainer/pass/pass_control.h"

#include "runtime/base/error.h"

/* The time that connecting may take in addition to the timeout of a round. The links have deadlines
 * of their own. */
#define CONNECT_NS (G_GINT64_CONSTANT (30) * 1000 * 1000 * 1000)

/* Takes the connections out of the control before it frees them, so that no thread cancels a
 * connection that is being freed. Must be called before the gradient memory is released, because
 * the exchange, the group and the tables may use this memory until they are freed. */
void
tps_pass_disconnect (TpsPass *pass)
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

void
tps_pass_cancel_links (TpsPass *pass)
{
  TpsPassControl *control = pass->control;

  tps_mutex_lock (&control->links_lock);
  if (control->exchange != NULL)
    control->exchange->ops->cancel (control->exchange);
  if (control->group != NULL)
    control->group->ops->abort (control->group);
  if (control->tables != NULL)
    control->tables->ops->cancel (control->tables);
  if (control->model_client != NULL)
    control->model_client->ops->cancel (control->model_client);
  tps_mutex_unlock (&control->links_lock);
}

/* Stores the exchange where tps_pass_cancel_links() finds it. Returns FALSE if the pass has been
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
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                           "this process cannot reach embedding tables");
      return FALSE;
    }
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
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                           "this process cannot reach models on servers");
      return FALSE;
    }
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
void
tps_pass_leave_store (TpsPass *pass)
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
  g_set_error (error, TPS_ERROR, TPS_ERROR_PERMISSION_DENIED,
               "backend %s: trainers exchange gradients without encryption, and this process "
               "requires it; --allow-plain-collectives permits it",
               pass->plan->backend);
  return FALSE;
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
