/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Happy path: tps_master_new() serves the rendezvous -> tps_master_meet_roles() reads every role's
 * address and connects -> each pass: prepare the servers, hand every trainer its plan, look at all of
 * them until they are done, fetch the metrics. Failures end the pass with an error that names the
 * role: a child that died, a trainer whose pass failed or whose heartbeat stands still, a call that
 * did not come back, Ctrl-C.
 */

#include "bench/world/master.h"

#include <math.h>
#include <string.h>

#include "bench/process/interrupt.h"
#include "plugin/client/stubs.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define LOOK_US 10000            /* between looks at the trainers */
#define CALL_NS (30 * SECOND_NS) /* for a call that should not take time */
#define STATUS_NS SECOND_NS      /* for a status; a late one counts as no sign of life */
#define STOP_NS (SECOND_NS / 2)  /* for all roles to have seen the stop */
#define PATIENCE_MS 300          /* until the end of a child is seen whose connection has closed */
#define CAUSE_NS SECOND_NS       /* until the trainer says why whose peers have lost it */
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
  const TpsWorld *world;
  TpsSupervisor *supervisor;
  const TpsMasterWork *work;
  gpointer user_data;
  GPtrArray *roles; /* of Role, in the order of ranks, without the master */
  guint n_passes;
  gboolean is_warm_up; /* the running pass */
  TpsEngine *engine;   /* shows how far a pass is */
  guint steps_per_epoch, epochs;
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
  TpsPluginOptions plugin_options = { .name = "master", .parameter_server = { .n_trainers = 1 } };
  g_autofree gchar *listen = tps_world_get_master (master->world);

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

static Role *
role_new (const TpsWorld *world, guint rank)
{
  Role *role = g_new0 (Role, 1);

  role->rank = rank;
  role->kind = tps_world_get_kind (world, rank);
  role->name = tps_world_get_name (world, rank);
  return role;
}

TpsMaster *
tps_master_new (const TpsWorld *world, TpsSupervisor *supervisor, TpsEngine *engine,
                const TpsMasterWork *work, gpointer user_data, GError **error)
{
  g_autoptr (TpsMaster) master = g_new0 (TpsMaster, 1);

  master->world = world;
  master->supervisor = supervisor;
  master->engine = engine;
  master->work = work;
  master->user_data = user_data;
  master->roles = g_ptr_array_new_with_free_func (role_free);
  for (guint rank = 0; rank + 1 < tps_world_get_size (world); rank++)
    g_ptr_array_add (master->roles, role_new (world, rank));
  if (!serve (master, error))
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
      tps_engine_tick (master->engine);
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
                       role->name, master->world->startup_timeout, master->address);
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
  gint64 deadline_ns = in (master->world->startup_timeout * SECOND_NS);

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

/* The benchmark says what, the master who and where. */
static TpsTrainPlan *
make_plan (TpsMaster *master, guint trainer, GError **error)
{
  TpsTrainPlan *plan = master->work->make_plan (master->user_data, trainer, master->is_warm_up,
                                                error);

  if (plan == NULL)
    return NULL;
  g_free (plan->pass_name);
  plan->pass_name = g_strdup_printf ("pass/%u", master->n_passes);
  plan->rank = trainer;
  plan->world_size = master->world->n_trainers;
  plan->rpc_timeout_ns = master->world->rpc_timeout * SECOND_NS;
  g_free (plan->rendezvous);
  plan->rendezvous = g_strdup (master->address);
  add_servers (master, plan);
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
  g_autoptr (TpsTrainPlan) plan = make_plan (master, role->rank, error);

  if (plan == NULL)
    return FALSE;
  master->steps_per_epoch = plan->steps_per_epoch;
  master->epochs = plan->epochs;
  tps_train_status_clear (&role->status);
  role->status.state = TPS_TRAIN_IDLE;
  role->heartbeat = -1;
  role->alive_ns = tps_clock_now_ns ();
  if (!tps_remote_train (role->client, plan, in (CALL_NS), error))
    return name_role (role, error);
  return TRUE;
}

static gboolean
prepare_servers (TpsMaster *master, GError **error)
{
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (role->kind == TPS_WORLD_SERVER
          && !master->work->prepare_server (master->user_data, role->client,
                                            tps_world_get_number (master->world, role->rank),
                                            error))
        return name_role (role, error);
    }
  return TRUE;
}

static gboolean
start_trainers (TpsMaster *master, GError **error)
{
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
  gint64 patience_ns = STILL_NS + master->world->rpc_timeout * SECOND_NS;

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

/* Of the first trainer: all go in step. */
static void
show_progress (TpsMaster *master, const TpsTrainStatus *status)
{
  gint64 epoch = status->steps_done / MAX (master->steps_per_epoch, 1);
  g_autoptr (GString) text = NULL;

  if (!tps_engine_is_due (master->engine))
    return;
  text = g_string_new (NULL);
  g_string_printf (
      text, "epoch %" G_GINT64_FORMAT " of %u, step %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT,
      MIN (epoch + 1, master->epochs), master->epochs, status->steps_done, status->steps_total);
  if (status->has_loss)
    g_string_append_printf (text, ", loss %.4f", status->loss);
  tps_engine_show (master->engine, text->str,
                   (gdouble) status->steps_done / (gdouble) MAX (status->steps_total, 1));
}

/* One look at all trainers. */
static gboolean
look_around (TpsMaster *master, gboolean *all_done, GError **error)
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
        show_progress (master, &role->status);
      *all_done = *all_done && role->status.state == TPS_TRAIN_SUCCEEDED;
    }
  return TRUE;
}

/* Its group, a connection or a device: UNAVAILABLE on the wire, all of them. */
static gboolean
has_lost_something (const Role *role)
{
  return role->status.state == TPS_TRAIN_FAILED
         && g_error_matches (role->status.error, TPS_ERROR, TPS_ERROR_UNAVAILABLE);
}

/* FALSE with the cause. `n_running`: trainers that may still say it. */
static gboolean
look_for_cause (TpsMaster *master, guint *n_running, GError **error)
{
  *n_running = 0;
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (role->kind != TPS_WORLD_TRAINER || has_lost_something (role))
        continue;
      if (!look_at (master, role, error) && !has_lost_something (role))
        return FALSE;
      g_clear_error (error);
      *n_running += role->status.state == TPS_TRAIN_RUNNING;
    }
  return TRUE;
}

/* A trainer that has lost its group knows which rank it lost; why is what that one says, or its end. Its peers may be heard
 * first. */
static void
wait_for_cause (TpsMaster *master, GError **error)
{
  gint64 deadline_ns = in (CAUSE_NS);
  guint n_running = 1;

  while (n_running > 0 && tps_clock_now_ns () < deadline_ns)
    {
      g_autoptr (GError) cause = NULL;

      if (!check_world (master, &cause) || !look_for_cause (master, &n_running, &cause))
        {
          g_clear_error (error);
          g_propagate_error (error, g_steal_pointer (&cause));
          return;
        }
      g_usleep (LOOK_US);
    }
}

static gboolean
has_any_lost_something (const TpsMaster *master)
{
  for (guint i = 0; i < master->roles->len; i++)
    if (has_lost_something (master->roles->pdata[i]))
      return TRUE;
  return FALSE;
}

static gboolean
wait_for_trainers (TpsMaster *master, GError **error)
{
  gboolean all_done = FALSE;
  gboolean ok = TRUE;

  while (ok && !all_done)
    {
      g_usleep (LOOK_US);
      ok = check_world (master, error) && look_around (master, &all_done, error);
    }
  if (!ok && has_any_lost_something (master))
    wait_for_cause (master, error);
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

  if (!master->work->parameters_agree)
    return TRUE;
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
  if (role->status.samples > 0)
    tps_bench_results_count_samples (results, (gint) role->rank, role->status.samples,
                                     role->status.epoch_samples);
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
tps_master_run_pass (TpsMaster *master, TpsBenchResults *results, GError **error)
{
  master->n_passes++;
  master->is_warm_up = results == NULL;
  if (!prepare_servers (master, error) || !start_trainers (master, error)
      || !wait_for_trainers (master, error))
    {
      blame_the_dead (master, error);
      cancel_trainers (master);
      return FALSE;
    }
  return check_digests (master, error) && (results == NULL || collect (master, results, error));
}
