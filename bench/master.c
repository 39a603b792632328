/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Happy path: tps_master_new() serves the rendezvous -> tps_master_meet_roles() reads every role's
 * address and connects -> each pass: reset the servers, hand every trainer its plan, look at all of
 * them until they are done, fetch the metrics. Failures end the pass with an error that names the
 * role: a child that died, a trainer whose pass failed or whose heartbeat stands still, a call that
 * did not come back, Ctrl-C.
 */

#include "bench/master.h"

#include <math.h>
#include <string.h>

#include "bench/interrupt.h"
#include "bench/progress.h"
#include "bench/world.h"
#include "plugin/client/client.h"
#include "plugin/client/stubs.h"
#include "plugin/plugin.h"
#include "runtime/error.h"
#include "runtime/nn/dataset.h"
#include "runtime/sync.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define LOOK_US 10000            /* between looks at the trainers */
#define CALL_NS (30 * SECOND_NS) /* for a call that should not take time */
#define STATUS_NS SECOND_NS      /* for a status; a late one counts as no sign of life */
#define STOP_NS (SECOND_NS / 2)  /* for all roles to have seen the stop */
#define PATIENCE_MS 300          /* until the end of a child is seen whose connection has closed */
#define STILL_NS \
  (15 * SECOND_NS) /* how long a heartbeat may stand still, on top of a round's time */

typedef struct
{
  guint rank;
  TpsWorldKind kind;
  gchar *name;
  gchar *address;
  TpsClient *client;

  /* Of the running pass of a trainer. */
  gint64 heartbeat;
  gint64 alive_ns;
  TpsTrainStatus status;
} Role;

struct TpsMaster
{
  const TpsBenchOptions *options;
  TpsSupervisor *supervisor;
  const TpsBenchConfiguration *model;
  GVariant *trainer_arguments;
  GPtrArray *dealt; /* batches of each trainer */
  guint steps_per_epoch;
  GPtrArray *roles; /* of Role, in the order of ranks, without the master */
  guint n_passes;
  TpsPlugin *plugin;
  TpsServer *server;
  gchar *address; /* of the rendezvous */
  TpsClient *self;
};

static gint64
in (gint64 span_ns)
{
  return tps_clock_now_ns () + span_ns;
}

static void
role_free (gpointer data)
{
  Role *role = data;

  g_clear_pointer (&role->client, tps_client_free);
  tps_train_status_clear (&role->status);
  g_free (role->name);
  g_free (role->address);
  g_free (role);
}

static TpsClient *
connect_to (const gchar *address, GError **error)
{
  TpsClientOptions options = { .address = address };

  return tps_client_new (&options, error);
}

/* Signals and children, looked at while anything is waited for. */
static gboolean
check_world (TpsMaster *master, GError **error)
{
  return tps_interrupt_check (error) && tps_supervisor_check (master->supervisor, error);
}

static gboolean
serve (TpsMaster *master, GError **error)
{
  const TpsBenchOptions *o = master->options;
  TpsPluginOptions plugin_options = { .name = "master", .parameter_server = { .n_trainers = 1 } };
  gboolean is_v6 = strchr (o->master_addr, ':') != NULL;
  g_autofree gchar *listen = g_strdup_printf (is_v6 ? "[%s]:%d" : "%s:%d", o->master_addr,
                                              o->master_port);

  master->plugin = tps_plugin_new (&plugin_options, error);
  if (master->plugin == NULL)
    return FALSE;
  master->server = tps_plugin_new_server (master->plugin, NULL);
  if (!tps_server_listen (master->server, listen, error))
    {
      g_prefix_error (error, "the master: ");
      return FALSE;
    }
  if (!tps_server_start (master->server, error))
    return FALSE;
  master->address = g_strdup (tps_server_get_addresses (master->server)[0]);
  master->self = connect_to (master->address, error);
  return master->self != NULL;
}

static gboolean
make_data (TpsMaster *master, const TpsBenchConfiguration *data, GError **error)
{
  const TpsBenchOptions *o = master->options;
  const TpsDataClass *klass = tps_data_class_find (data->class_name, error);
  g_auto (TpsDataset) dataset = { 0 };

  if (klass == NULL || !klass->generate (data->arguments, o->seed, &dataset, error))
    return FALSE;
  master->dealt = tps_dataset_deal (&dataset, (guint) o->batch_size, (guint) o->ntrainer);
  for (guint i = 0; i < master->dealt->len; i++)
    master->steps_per_epoch = MAX (master->steps_per_epoch,
                                   ((GArray *) master->dealt->pdata[i])->len);
  return TRUE;
}

static Role *
role_new (const TpsBenchOptions *options, guint rank)
{
  Role *role = g_new0 (Role, 1);

  role->rank = rank;
  role->kind = tps_world_get_kind (options, rank);
  role->name = tps_world_get_name (options, rank);
  return role;
}

TpsMaster *
tps_master_new (const TpsBenchOptions *options, TpsSupervisor *supervisor,
                const TpsBenchConfiguration *data, const TpsBenchConfiguration *model,
                GVariant *trainer_arguments, GError **error)
{
  g_autoptr (TpsMaster) master = g_new0 (TpsMaster, 1);
  guint world_size = tps_bench_options_get_world_size (options);

  master->options = options;
  master->supervisor = supervisor;
  master->model = model;
  master->trainer_arguments = trainer_arguments;
  master->roles = g_ptr_array_new_with_free_func (role_free);
  for (guint rank = 0; rank + 1 < world_size; rank++)
    g_ptr_array_add (master->roles, role_new (options, rank));
  if (!make_data (master, data, error) || !serve (master, error))
    return NULL;
  return g_steal_pointer (&master);
}

/* Ends the roles that were met, and stays there until they know; those that are lost or hang are
 * not waited for long. */
static void
stop_roles (TpsMaster *master)
{
  g_autoptr (GBytes) stop = g_bytes_new_static ("stop", 4);
  gint64 deadline_ns = in (STOP_NS);

  tps_remote_put (master->self, TPS_WORLD_STOP_KEY, stop, in (CALL_NS), NULL);
  for (guint i = 0; i < master->roles->len && !tps_interrupt_is_set (); i++)
    {
      Role *role = master->roles->pdata[i];
      g_autofree gchar *key = tps_world_get_stopped_key (role->rank);
      GBytes *stopped = NULL;
      gint64 left_ms = MAX (deadline_ns - tps_clock_now_ns (), 0) / 1000000;

      if (role->client != NULL)
        stopped = tps_remote_get (master->self, key, (gint32) left_ms, in (CALL_NS), NULL);
      g_clear_pointer (&stopped, g_bytes_unref);
    }
}

void
tps_master_free (TpsMaster *master)
{
  if (master->self != NULL)
    stop_roles (master);
  g_clear_pointer (&master->self, tps_client_free);
  g_ptr_array_unref (master->roles);
  if (master->server != NULL)
    tps_server_stop (master->server);
  g_clear_object (&master->server);
  g_clear_pointer (&master->plugin, tps_plugin_free);
  g_clear_pointer (&master->dealt, g_ptr_array_unref);
  g_free (master->address);
  g_free (master);
}

guint
tps_master_get_port (const TpsMaster *master)
{
  const gchar *colon = strrchr (master->address, ':');

  return (guint) g_ascii_strtoull (colon + 1, NULL, 10);
}

/* Asks in short turns, so that a child which dies meanwhile is noticed. */
static gboolean
meet (TpsMaster *master, Role *role, gint64 deadline_ns, GError **error)
{
  g_autofree gchar *key = tps_world_get_address_key (role->rank);
  g_autoptr (GBytes) address = NULL;

  while (address == NULL)
    {
      g_autoptr (GError) local = NULL;

      address = tps_remote_get (master->self, key, 100, in (CALL_NS), &local);
      if (!check_world (master, error))
        return FALSE;
      if (address == NULL && !g_error_matches (local, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      if (address == NULL && tps_clock_now_ns () > deadline_ns)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
                       "%s has not come up in %d s (--startup-timeout); the master waits at %s",
                       role->name, master->options->startup_timeout, master->address);
          return FALSE;
        }
    }
  role->address = g_strndup (g_bytes_get_data (address, NULL), g_bytes_get_size (address));
  role->client = connect_to (role->address, error);
  return role->client != NULL;
}

gboolean
tps_master_meet_roles (TpsMaster *master, GError **error)
{
  gint64 deadline_ns = in (master->options->startup_timeout * SECOND_NS);

  for (guint i = 0; i < master->roles->len; i++)
    if (!meet (master, master->roles->pdata[i], deadline_ns, error))
      return FALSE;
  return TRUE;
}

static void
add_servers (TpsMaster *master, TpsTrainPlan *plan)
{
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];
      TpsServerAddress server = { .rank = (gint32) role->rank };

      if (role->kind != TPS_WORLD_SERVER)
        continue;
      server.address = g_strdup (role->address);
      g_array_append_val (plan->servers, server);
    }
}

static void
add_batches (TpsMaster *master, guint trainer, TpsTrainPlan *plan)
{
  GArray *batches = master->dealt->pdata[trainer];

  for (guint i = 0; i < batches->len; i++)
    {
      TpsTrainBatch *from = &g_array_index (batches, TpsTrainBatch, i);
      TpsTrainBatch batch;

      tps_tensor_init_ref (&batch.input, &from->input);
      tps_tensor_init_ref (&batch.target, &from->target);
      g_array_append_val (plan->batches, batch);
    }
}

static void
set (gchar **field, const gchar *value)
{
  g_free (*field);
  *field = g_strdup (value);
}

static void
set_config (GVariant **field, GVariant *value)
{
  g_clear_pointer (field, g_variant_unref);
  *field = g_variant_ref (value);
}

static TpsTrainPlan *
make_plan (TpsMaster *master, guint trainer)
{
  const TpsBenchOptions *o = master->options;
  TpsTrainPlan *plan = tps_train_plan_new ();

  g_free (plan->pass_name);
  plan->pass_name = g_strdup_printf ("pass/%u", master->n_passes);
  plan->rank = trainer;
  plan->world_size = (guint) o->ntrainer;
  set (&plan->model_class, master->model->class_name);
  set_config (&plan->model_config, master->model->arguments);
  set (&plan->trainer, o->trainer);
  set_config (&plan->trainer_config, master->trainer_arguments);
  plan->steps_per_epoch = master->steps_per_epoch;
  plan->epochs = (guint) o->epochs;
  plan->seed = o->seed;
  set (&plan->backend, o->backend);
  set (&plan->preprocess_data, o->preprocess_data);
  set (&plan->create_criterion, o->create_criterion);
  set (&plan->create_ddp_model, o->create_ddp_model);
  set (&plan->hook_state, o->hook_state);
  set (&plan->ddp_hook, o->ddp_hook);
  set (&plan->iteration_step, o->iteration_step);
  plan->partition_by_trainer = g_str_equal (o->partition, "trainers");
  plan->first_bucket_mib = o->first_bucket_mib;
  plan->bucket_cap_mib = o->bucket_cap_mib;
  plan->learning_rate = 1e-4; /* the originals' SGD */
  plan->rpc_timeout_ns = o->rpc_timeout * SECOND_NS;
  set (&plan->rendezvous, master->address);
  set (&plan->reduce, o->reduce);
  add_servers (master, plan);
  add_batches (master, trainer, plan);
  return plan;
}

static gboolean
name_role (const Role *role, GError **error)
{
  g_prefix_error (error, "%s: ", role->name);
  return FALSE;
}

static gboolean
start_trainer (TpsMaster *master, Role *role, GError **error)
{
  g_autoptr (TpsTrainPlan) plan = make_plan (master, role->rank);

  tps_train_status_clear (&role->status);
  role->status.state = TPS_TRAIN_IDLE;
  role->heartbeat = -1;
  role->alive_ns = tps_clock_now_ns ();
  if (!tps_remote_train (role->client, plan, in (CALL_NS), error))
    return name_role (role, error);
  return TRUE;
}

static gboolean
reset_and_start (TpsMaster *master, GError **error)
{
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (role->kind == TPS_WORLD_SERVER
          && !tps_remote_reset_state (role->client, in (CALL_NS), error))
        return name_role (role, error);
    }
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (role->kind == TPS_WORLD_TRAINER && !start_trainer (master, role, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
fail_pass (const Role *role, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "%s: its pass %s: %s", role->name,
               role->status.state == TPS_TRAIN_FAILED ? "failed" : "was cancelled",
               role->status.error != NULL ? role->status.error->message : "no reason given");
  return FALSE;
}

static gboolean
check_alive (TpsMaster *master, Role *role, GError **error)
{
  gint64 patience_ns = STILL_NS + master->options->rpc_timeout * SECOND_NS;

  if (tps_clock_now_ns () - role->alive_ns <= patience_ns)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
               "%s: no sign of life for %d s at step %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT,
               role->name, (gint) (patience_ns / SECOND_NS), role->status.steps_done,
               role->status.steps_total);
  return FALSE;
}

/* Asks a trainer how it is; FALSE when its pass cannot succeed any more. A trainer that does not
 * answer keeps its last status: one of the others may know more, and says so. */
static gboolean
look_at (TpsMaster *master, Role *role, GError **error)
{
  g_autoptr (GError) local = NULL;
  TpsTrainStatus status = { 0 };

  if (!tps_remote_get_train_status (role->client, in (STATUS_NS), &status, &local))
    {
      if (g_error_matches (local, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED))
        return check_alive (master, role, error);
      g_propagate_error (error, g_steal_pointer (&local));
      return name_role (role, error);
    }
  tps_train_status_clear (&role->status);
  role->status = status;
  if (status.state == TPS_TRAIN_FAILED || status.state == TPS_TRAIN_CANCELLED)
    return fail_pass (role, error);
  if (status.heartbeat != role->heartbeat)
    {
      role->heartbeat = status.heartbeat;
      role->alive_ns = tps_clock_now_ns ();
    }
  return status.state != TPS_TRAIN_RUNNING || check_alive (master, role, error);
}

/* One look at all trainers. */
static gboolean
look_around (TpsMaster *master, TpsProgress *progress, gboolean *all_done, GError **error)
{
  *all_done = TRUE;
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (role->kind != TPS_WORLD_TRAINER || role->status.state == TPS_TRAIN_SUCCEEDED)
        continue;
      if (!look_at (master, role, error))
        return FALSE;
      if (role->rank == 0)
        tps_progress_show (progress, &role->status);
      *all_done = *all_done && role->status.state == TPS_TRAIN_SUCCEEDED;
    }
  return TRUE;
}

static gboolean
wait_for_trainers (TpsMaster *master, const gchar *title, GError **error)
{
  TpsProgress progress;
  gboolean all_done = FALSE;
  gboolean ok = TRUE;

  tps_progress_init (&progress, title, master->steps_per_epoch, (guint) master->options->epochs);
  while (ok && !all_done)
    {
      g_usleep (LOOK_US);
      ok = check_world (master, error) && look_around (master, &progress, &all_done, error);
    }
  tps_progress_end (&progress);
  return ok;
}

static void
cancel_trainers (TpsMaster *master)
{
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (role->kind == TPS_WORLD_TRAINER)
        tps_remote_cancel_train (role->client, in (SECOND_NS), NULL);
    }
}

/* All trainers began with the same parameters and applied the same averages: they must end with the
 * same bits. */
static gboolean
check_digests (TpsMaster *master, GError **error)
{
  Role *first = NULL;

  if (g_str_equal (master->options->partition, "trainers") && master->options->nserver > 1)
    return TRUE; /* the originals' layout: each server's trainers go their own way */
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (role->kind != TPS_WORLD_TRAINER || !role->status.has_digest)
        continue;
      if (first == NULL)
        first = role;
      if (memcmp (first->status.parameters_digest, role->status.parameters_digest,
                  sizeof role->status.parameters_digest)
          != 0)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                       "%s and %s have different parameters after the pass: this is a defect",
                       first->name, role->name);
          return FALSE;
        }
    }
  return TRUE;
}

static void
add_outcome (const Role *role, TpsBenchResults *results)
{
  tps_bench_results_add_outcome (results, (gint) role->rank,
                                 role->status.has_loss ? role->status.loss : NAN,
                                 role->status.has_digest ? role->status.parameters_digest : NULL);
}

static gboolean
collect (TpsMaster *master, TpsBenchResults *results, GError **error)
{
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];
      const gchar *kind = role->kind == TPS_WORLD_TRAINER ? "trainer" : "server";
      g_autoptr (GPtrArray)
          metrics = tps_remote_get_metrics (role->client, TRUE, in (CALL_NS), error);

      if (metrics == NULL)
        return name_role (role, error);
      tps_bench_results_add_role (results, kind, (gint) role->rank);
      if (role->kind == TPS_WORLD_TRAINER)
        add_outcome (role, results);
      for (guint j = 0; j < metrics->len; j++)
        {
          TpsMetricSummary *metric = metrics->pdata[j];
          g_autofree gchar *name = g_strdup_printf ("%s,%s", metric->type, metric->name);

          tps_bench_results_add (results, kind, (gint) role->rank, name, metric->samples_ms,
                                 metric->n_samples);
        }
    }
  tps_bench_results_end_pass (results);
  return TRUE;
}

/* A child that died is the reason of whatever else went wrong, and the better text. */
static void
blame_the_dead (TpsMaster *master, GError **error)
{
  g_autoptr (GError) death = NULL;

  if (tps_interrupt_is_set ()
      || tps_supervisor_check_patiently (master->supervisor, PATIENCE_MS, &death))
    return;
  g_clear_error (error);
  g_propagate_error (error, g_steal_pointer (&death));
}

gboolean
tps_master_run_pass (TpsMaster *master, const gchar *title, TpsBenchResults *results,
                     GError **error)
{
  master->n_passes++;
  if (!reset_and_start (master, error) || !wait_for_trainers (master, title, error))
    {
      blame_the_dead (master, error);
      cancel_trainers (master);
      return FALSE;
    }
  return check_digests (master, error) && (results == NULL || collect (master, results, error));
}
