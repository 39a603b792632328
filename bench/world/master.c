/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The sequence without failures: tps_master_new() starts the rendezvous. tps_master_meet_roles()
 * registers every role. Each pass prepares the servers, sends every trainer its plan,
 * polls the trainers until they are done, and fetches the metrics.
 *
 * A failure ends the pass with an error that names the role. Failures are: a child has exited, a
 * trainer's pass has failed or its heartbeat stopped, a call has no reply, or the user has pressed
 * Ctrl-C. If the benchmark can spare a trainer, its loss is reported and the pass continues. */

#include "bench/world/master.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/process/interrupt.h"
#include "bench/process/reachable.h"
#include "bench/world/card.h"
#include "plugin/client/client.h"
#include "plugin/client/stubs.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/tensor/train_plan.h"

/* A role and its state.
 *
 * Registration: a role puts its card under tps_world_get_role_key(). The master compares the card
 * with its own card. It then puts the role's card under tps_world_get_welcome_key(), which assigns
 * the rank to that process. Another process with the same rank finds a card with a foreign nonce
 * there, and exits. A card that does not match ends the run. */
typedef struct
{
  guint rank;
  TpsWorldKind kind;
  gchar *name;
  TpsCard *card; /* NULL before the registration, like the next two fields */
  gchar *address;
  TpsClient *client;
  gboolean is_lost; /* a trainer without which the world continues */

  /* The state of a trainer in the running pass. */
  gint64 heartbeat; /* the last heartbeat; -1 = none */
  gint64 alive_ns;  /* time of the last new heartbeat */
  TpsTrainStatus status;
} Role;

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (30 * SECOND_NS)
/* The maximum times until all roles have seen the stop: of a run that has failed, where some may
 * not answer any more, and of one that has not. */
#define STOP_NS (SECOND_NS / 2)
#define DONE_NS (10 * SECOND_NS)
#define MEET_MS 100 /* milliseconds between checks for interrupts and ended children */

#define POLL_US 10000 /* between polls of the trainers */
/* the timeout of a status call; a late reply does not count as a sign of life */
#define STATUS_NS SECOND_NS
/* the time until the end of a child becomes visible after its connection has closed */
#define PATIENCE_MS 300
#define CAUSE_NS SECOND_NS /* the time in which the real cause of a failure may still be reported */
#define STILL_NS \
  (15 * SECOND_NS) /* the maximum age of a heartbeat, in addition to the timeout of a round */

struct TpsMaster
{
  const TpsWorld *world;
  TpsSupervisor *supervisor;
  const TpsMasterWork *work;
  gpointer user_data;
  TpsEngine *engine; /* shows the progress of a pass */
  TpsPlugin *plugin; /* serves the rendezvous */
  TpsServer *server;
  TpsClient *self;  /* to the rendezvous */
  guint port;       /* of the rendezvous */
  gchar *address;   /* of the rendezvous, for roles and messages */
  TpsCard *card;    /* of the master */
  GPtrArray *roles; /* of Role, in the order of ranks, without the master */
  gchar *failure;   /* the reason of the failed run; NULL = no failure */
  guint n_passes;
  guint n_lost; /* lost trainers */

  /* The running pass. */
  guint n_epochs; /* that have begun */
  gboolean is_warm_up;
  guint steps_per_epoch, epochs;
};

/* Returns the deadline after `span_ns`. */
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
  g_clear_pointer (&role->card, tps_card_free);
  tps_train_status_clear (&role->status);
  g_free (role->name);
  g_free (role->address);
  g_free (role);
}

/* -- trainers that a pass can spare -- */

static gboolean
has_spare (const TpsMaster *master)
{
  return master->n_lost < master->work->n_spare_trainers;
}

static void
lose (TpsMaster *master, Role *role, const gchar *why)
{
  role->is_lost = TRUE;
  master->n_lost++;
  fprintf (stderr, "%s: %s; %u of %u trainers continue\n", master->world->program, why,
           master->world->n_trainers - master->n_lost, master->world->n_trainers);
}

/* Forgets children that have ended and that the world can spare. */
static void
forget_ended_children (TpsMaster *master)
{
  for (guint i = 0; i < master->roles->len && has_spare (master); i++)
    {
      Role *role = master->roles->pdata[i];
      g_autoptr (GError) why = NULL;

      if (role->kind == TPS_WORLD_TRAINER && !role->is_lost
          && tps_supervisor_forget_dead (master->supervisor, role->name, &why))
        lose (master, role, why->message);
    }
}

/* Checks for interrupts and ended children. Must be called during every wait. */
static gboolean
check_world (TpsMaster *master, GError **error)
{
  forget_ended_children (master);
  return tps_interrupt_check (error) && tps_supervisor_check (master->supervisor, error);
}

/* -- registration -- */

/* Accepts the role with the card `bytes`, and connects to the role. */
static gboolean
welcome (TpsMaster *master, Role *role, GBytes *bytes, GError **error)
{
  g_autofree gchar *key = tps_world_get_welcome_key (role->rank);
  TpsClientOptions options = { 0 };

  role->card = tps_card_decode (bytes);
  role->address = tps_card_dup_address (role->card);
  if (!tps_card_check (role->card, master->card, error))
    return FALSE;
  options.address = role->address;
  role->client = tps_client_new (&options, error);
  return role->client != NULL && tps_remote_put (master->self, key, bytes, in (CALL_NS), error);
}

/* Accepts a role that has put its card. `*has_come` is FALSE if there is no card yet. */
static gboolean
look_for (TpsMaster *master, Role *role, gint32 timeout_ms, gboolean *has_come, GError **error)
{
  g_autofree gchar *key = tps_world_get_role_key (role->rank);
  g_autoptr (GError) local = NULL;
  g_autoptr (GBytes) bytes = tps_remote_get (master->self, key, timeout_ms, in (CALL_NS), &local);

  *has_come = bytes != NULL;
  if (bytes != NULL)
    return welcome (master, role, bytes, error);
  if (g_error_matches (local, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED)
      || g_error_matches (local, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Returns TRUE if the role has put its card, even if the master has not accepted it. */
static gboolean
has_come (TpsMaster *master, Role *role)
{
  g_autofree gchar *key = tps_world_get_role_key (role->rank);
  g_autoptr (GBytes) bytes = NULL;

  if (role->card == NULL)
    bytes = tps_remote_get (master->self, key, 0, in (CALL_NS), NULL);
  return role->card != NULL || bytes != NULL;
}

/* Waits for the first missing role for a short time, and polls the others. */
static gboolean
look_for_all (TpsMaster *master, gboolean *all_there, GError **error)
{
  *all_there = TRUE;
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];
      gboolean has_come;

      if (role->client != NULL)
        continue;
      if (!look_for (master, role, *all_there ? MEET_MS : 0, &has_come, error))
        return FALSE;
      *all_there = *all_there && has_come;
    }
  return TRUE;
}

/* Explains why other hosts cannot reach the master, and how to change that. Returns NULL if they
 * can, or if the world has no other hosts. */
static gchar *
explain_loopback (const TpsWorld *world, gboolean any)
{
  const gchar *host = world->bind != NULL ? world->bind : world->master_addr;
  g_autofree gchar *address = tps_reachable_resolve (host);
  g_autofree gchar *others = NULL;
  g_autofree gchar *where = NULL;
  gboolean is_said = g_strcmp0 (host, address) == 0 || g_str_equal (host, "localhost");

  if (world->rank < 0 || address == NULL || !tps_reachable_is_loopback (address)
      || (is_said && !any))
    return NULL;
  others = tps_reachable_list ();
  where = is_said ? g_strdup ("") : g_strdup_printf (" is %s here (see /etc/hosts),", address);
  return g_strdup_printf (
      "%s%s%s a loopback address, which roles on other hosts cannot reach; if there are any, give "
      "all of them and the master --master-addr=ADDRESS with an address of this host (%s)",
      host, where, is_said ? " is" : "", others[0] != '\0' ? others : "it has only loopback");
}

static gboolean
name_missing (const TpsMaster *master, GError **error)
{
  g_autoptr (GString) names = g_string_new (NULL);
  g_autofree gchar *loopback = explain_loopback (master->world, TRUE);
  guint n_missing = 0;

  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (role->client == NULL)
        g_string_append_printf (names, "%s%s", n_missing++ > 0 ? ", " : "", role->name);
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
               "%s %s not come up in %d s (--startup-timeout); the master listens at %s%s%s",
               names->str, n_missing > 1 ? "have" : "has", master->world->startup_timeout,
               master->address, loopback != NULL ? "; " : "", loopback != NULL ? loopback : "");
  return FALSE;
}

static gboolean
is_loopback (const Role *role)
{
  const gchar *colon = strrchr (role->address, ':');
  g_autofree gchar *host = NULL;

  if (g_str_has_prefix (role->address, "unix:") || colon == NULL)
    return FALSE;
  host = role->address[0] == '['
             ? g_strndup (role->address + 1, (gsize) (colon - role->address) - 2)
             : g_strndup (role->address, (gsize) (colon - role->address));
  return tps_reachable_is_loopback (host);
}

/* Other hosts cannot reach a role that resolves the name of the master's host to loopback. */
static gboolean
check_reach (const TpsMaster *master, GError **error)
{
  const Role *inside = NULL, *outside = NULL;

  for (guint i = 0; i < master->roles->len; i++)
    {
      const Role *role = master->roles->pdata[i];

      if (g_str_has_prefix (role->address, "unix:"))
        continue;
      if (is_loopback (role))
        inside = role;
      else
        outside = role;
    }
  if (inside == NULL || outside == NULL)
    return TRUE;
  g_set_error (
      error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
      "%s on %s serves at %s, which %s on %s cannot reach: %s is loopback there (see its /etc/hosts); "
      "start it with --bind=ADDRESS, or all with --master-addr=ADDRESS",
      inside->name, tps_card_get (inside->card, "host"), inside->address, outside->name,
      tps_card_get (outside->card, "host"), master->world->master_addr);
  return FALSE;
}

gboolean
tps_master_meet_roles (TpsMaster *master, GError **error)
{
  gint64 deadline_ns = in (master->world->startup_timeout * SECOND_NS);
  gboolean all_there = FALSE;

  for (;;)
    {
      if (!look_for_all (master, &all_there, error))
        return FALSE;
      tps_engine_tick (master->engine);
      if (!check_world (master, error))
        return FALSE;
      if (all_there)
        return check_reach (master, error);
      if (tps_clock_now_ns () > deadline_ns)
        return name_missing (master, error);
    }
}

/* -- the end -- */

static void
wait_until_stopped (TpsMaster *master, Role *role, gint64 deadline_ns)
{
  g_autofree gchar *key = tps_world_get_stopped_key (role->rank);
  gint64 left_ms = MAX (deadline_ns - tps_clock_now_ns (), 0) / 1000000;
  GBytes *stopped = tps_remote_get (master->self, key, (gint32) left_ms, in (CALL_NS), NULL);

  g_clear_pointer (&stopped, g_bytes_unref);
}

/* Ends all registered roles, and waits briefly until those that are not lost have noticed. */
static void
stop_roles (TpsMaster *master)
{
  const gchar *failure = master->failure;
  const gchar *text = failure != NULL ? failure : "";
  g_autoptr (GBytes) stop = g_bytes_new (text, strlen (text));
  gint64 deadline_ns = in (failure != NULL ? STOP_NS : DONE_NS);

  tps_remote_put (master->self, TPS_WORLD_STOP_KEY, stop, in (CALL_NS), NULL);
  for (guint i = 0; i < master->roles->len && !tps_interrupt_is_set (); i++)
    {
      Role *role = master->roles->pdata[i];

      if (!role->is_lost && has_come (master, role))
        wait_until_stopped (master, role, deadline_ns);
    }
}

/* -- names -- */

/* Finds the whole `address` in `text`: the match must not be the prefix of a longer port. */
static const gchar *
find_address (const gchar *text, const gchar *address)
{
  gsize n_bytes = strlen (address);
  const gchar *found = strstr (text, address);

  while (found != NULL && g_ascii_isdigit (found[n_bytes]))
    found = strstr (found + 1, address);
  return found;
}

/* Returns TRUE if the name already precedes the address, as in "trainer1: 10.0.0.2:4013". */
static gboolean
is_named (const gchar *text, const gchar *found, const gchar *name)
{
  gsize n_bytes = strlen (name);

  return (gsize) (found - text) >= n_bytes + 2 && strncmp (found - 2, ": ", 2) == 0
         && strncmp (found - 2 - n_bytes, name, n_bytes) == 0;
}

static void
name_address (GError *error, const gchar *name, const gchar *address)
{
  const gchar *found = address != NULL ? find_address (error->message, address) : NULL;
  gchar *named;

  if (found == NULL || is_named (error->message, found, name))
    return;
  named = g_strdup_printf ("%.*s%s at %s", (gint) (found - error->message), error->message, name,
                           found);
  g_free (error->message);
  error->message = named;
}

/* Inserts the name of a role before its address: "server2 at 10.0.0.3:4013: Connection refused". */
static void
name_addresses (const TpsMaster *master, GError *error)
{
  name_address (error, "the master", master->address);
  for (guint i = 0; i < master->roles->len; i++)
    {
      const Role *role = master->roles->pdata[i];

      name_address (error, role->name, role->address);
    }
}

/* -- the rendezvous -- */

/* Adds to the error that --master-addr must be an address of this host. */
static void
explain_listen (const TpsWorld *world, const gchar *host, GError **error)
{
  g_autofree gchar *address = tps_reachable_resolve (host);
  g_autofree gchar *ours = tps_reachable_list ();
  gchar *text;

  g_prefix_error (error, "the master: ");
  if (world->rank < 0 || address == NULL || tps_reachable_is_here (address))
    return;
  text = g_strdup_printf (
      "%s; %s is not this host (%s), but rank %u, the %s, is the master (--master-rank=%s): give "
      "--master-addr its host, or use --master-rank=%s if the %s rank is there",
      (*error)->message, host, ours, tps_world_get_given_rank (world), world->master_rank,
      world->master_rank,
      g_str_equal (world->master_rank, "first") ? "last" : "first, as torchrun does,",
      g_str_equal (world->master_rank, "first") ? "last" : "first");
  g_free ((*error)->message);
  (*error)->message = text;
}

static gboolean
serve (TpsMaster *master, GError **error)
{
  TpsPluginOptions plugin_options = { .name = "master", .n_trainers = 1 };
  const TpsWorld *world = master->world;
  const gchar *host = world->bind != NULL && g_str_equal (world->transport, "tcp")
                          ? world->bind
                          : world->master_addr;
  g_autofree gchar *listen = tps_world_join_address (host, (guint) world->master_port);
  TpsClientOptions options = { 0 };
  const gchar *address;

  master->plugin = tps_plugin_new (&plugin_options, error);
  if (master->plugin == NULL)
    return FALSE;
  master->server = tps_plugin_new_server (master->plugin, NULL);
  if (!tps_server_listen (master->server, listen, error))
    {
      explain_listen (world, host, error);
      return FALSE;
    }
  if (!tps_server_start (master->server, error))
    return FALSE;
  address = tps_server_get_addresses (master->server)[0];
  options.address = address;
  master->port = (guint) g_ascii_strtoull (strrchr (address, ':') + 1, NULL, 10);
  master->self = tps_client_new (&options, error);
  return master->self != NULL;
}

/* Publishes the card of the master. From then on, roles can register. */
static gboolean
open_roster (TpsMaster *master, const GPtrArray *flags, GError **error)
{
  const TpsWorld *world = master->world;
  g_autoptr (GBytes) bytes = NULL;

  master->address = tps_world_join_address (world->master_addr, master->port);
  master->card = tps_card_new (world, "master", master->address, flags);
  for (guint rank = 0; rank + 1 < tps_world_get_size (world); rank++)
    {
      Role *role = g_new0 (Role, 1);

      role->rank = rank;
      role->kind = tps_world_get_kind (world, rank);
      role->name = tps_world_get_name (world, rank);
      g_ptr_array_add (master->roles, role);
    }
  bytes = tps_card_encode (master->card);
  return tps_remote_put (master->self, TPS_WORLD_MASTER_KEY, bytes, in (CALL_NS), error);
}

TpsMaster *
tps_master_new (const TpsWorld *world, TpsBenchRun *run, const GPtrArray *flags,
                const TpsMasterWork *work, gpointer user_data, GError **error)
{
  g_autoptr (TpsMaster) master = g_new0 (TpsMaster, 1);
  g_autofree gchar *loopback = explain_loopback (world, FALSE);

  master->world = world;
  master->supervisor = run->supervisor;
  master->engine = run->engine;
  master->work = work;
  master->user_data = user_data;
  master->roles = g_ptr_array_new_with_free_func (role_free);
  if (!serve (master, error) || !open_roster (master, flags, error))
    return NULL;
  if (loopback != NULL)
    fprintf (stderr, "%s: master: %s\n", world->program, loopback);
  return g_steal_pointer (&master);
}

void
tps_master_fail (TpsMaster *master, const gchar *why)
{
  g_free (master->failure);
  master->failure = g_strdup (why);
}

void
tps_master_free (TpsMaster *master)
{
  if (master->card != NULL)
    stop_roles (master);
  g_clear_pointer (&master->self, tps_client_free);
  g_ptr_array_unref (master->roles);
  g_clear_pointer (&master->card, tps_card_free);
  if (master->server != NULL)
    tps_server_stop (master->server);
  g_clear_object (&master->server);
  g_clear_pointer (&master->plugin, tps_plugin_free);
  g_free (master->address);
  g_free (master->failure);
  g_free (master);
}

guint
tps_master_get_port (const TpsMaster *master)
{
  return master->port;
}

/* -- a pass -- */

static void
add_servers (TpsMaster *master, TpsTrainPlan *plan)
{
  for (guint i = 0; i < master->roles->len; i++)
    {
      const Role *role = master->roles->pdata[i];

      if (role->kind == TPS_WORLD_SERVER)
        tps_train_plan_add_server (plan, (gint32) role->rank, role->address);
    }
}

void
tps_plan_set (gchar **field, const gchar *value)
{
  g_free (*field);
  *field = g_strdup (value);
}

/* Makes the plan of a trainer: the benchmark's work with names and addresses. */
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
  /* The plan has no rendezvous: every role uses the address at which it found the master. */
  add_servers (master, plan);
  return plan;
}

/* Returns TRUE for a trainer that takes part in the pass. */
static gboolean
is_trainer (const Role *role)
{
  return role->kind == TPS_WORLD_TRAINER && !role->is_lost;
}

/* Prefixes the error with the name of the role. Returns FALSE. */
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
  if (role->rank == 0)
    master->n_epochs = 0;
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

/* Fetches the status of a trainer. Returns FALSE if its pass can no longer succeed. A trainer that
 * does not reply keeps its last status, because another trainer may report a better error. */
static gboolean
poll_trainer (TpsMaster *master, Role *role, GError **error)
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

/* Shows the progress of one trainer for all, because all trainers run in step. */
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

/* Returns TRUE if the pass can continue without the trainer. Waits for the end of the child, which
 * becomes visible later than that of the connection. Only a trainer that has ended or does not
 * respond counts as lost. */
static gboolean
continue_without (TpsMaster *master, Role *role, const GError *cause)
{
  gint64 deadline_ns = in (PATIENCE_MS * G_GINT64_CONSTANT (1000000));

  if (!has_spare (master)
      || (tps_error_damage (cause) != TPS_DAMAGE_CONNECTION
          && !g_error_matches (cause, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED)))
    return FALSE;
  while (!role->is_lost && tps_clock_now_ns () < deadline_ns)
    {
      forget_ended_children (master);
      g_usleep (POLL_US);
    }
  if (!role->is_lost)
    lose (master, role, cause->message);
  return TRUE;
}

static gboolean
start_trainers (TpsMaster *master, GError **error)
{
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      g_autoptr (GError) local = NULL;

      if (!is_trainer (role) || start_trainer (master, role, &local)
          || continue_without (master, role, local))
        continue;
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  return TRUE;
}

/* Polls a trainer, or counts it as lost. */
static gboolean
look_or_lose (TpsMaster *master, Role *role, GError **error)
{
  g_autoptr (GError) local = NULL;

  if (poll_trainer (master, role, &local) || continue_without (master, role, local))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Reports the epochs that have begun since the last call. */
static void
report_epochs (TpsMaster *master, const TpsTrainStatus *status)
{
  gint64 epoch = status->steps_done / MAX (master->steps_per_epoch, 1);

  if (master->work->epoch_begins == NULL)
    return;
  for (; master->n_epochs <= epoch && master->n_epochs < master->epochs; master->n_epochs++)
    master->work->epoch_begins (master->user_data, master->n_epochs);
}

/* Polls all trainers once. */
static gboolean
poll_trainers (TpsMaster *master, gboolean *all_done, GError **error)
{
  *all_done = TRUE;
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (!is_trainer (role) || role->status.state == TPS_TRAIN_SUCCEEDED)
        continue;
      if (!look_or_lose (master, role, error))
        return FALSE;
      if (role->rank == 0)
        {
          report_epochs (master, &role->status);
          show_progress (master, &role->status);
        }
      *all_done = *all_done && (role->is_lost || role->status.state == TPS_TRAIN_SUCCEEDED);
    }
  return TRUE;
}

/* Returns TRUE if the trainer has lost its group, a connection or a device (UNAVAILABLE). */
static gboolean
has_lost_something (const Role *role)
{
  return role->status.state == TPS_TRAIN_FAILED
         && g_error_matches (role->status.error, TPS_ERROR, TPS_ERROR_UNAVAILABLE);
}

/* Looks for a failure that is not a mere consequence of another one; returns FALSE with its error.
 * `*n_running` counts the trainers that may still report it. */
static gboolean
look_for_cause (TpsMaster *master, guint *n_running, GError **error)
{
  *n_running = 0;
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (!is_trainer (role) || has_lost_something (role))
        continue;
      if (!poll_trainer (master, role, error) && !has_lost_something (role))
        return FALSE;
      g_clear_error (error);
      *n_running += role->status.state == TPS_TRAIN_RUNNING;
    }
  return TRUE;
}

/* Replaces the error with the cause of the failure, if it is reported in time. If a trainer has
 * lost its group, that is the error or the end of another one, possibly later. */
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
      g_usleep (POLL_US);
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
      g_usleep (POLL_US);
      ok = check_world (master, error) && poll_trainers (master, &all_done, error);
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

      if (is_trainer (role) && role->client != NULL)
        tps_remote_cancel_train (role->client, in (SECOND_NS), NULL);
    }
}

/* Compares the parameters of the trainers. All trainers began with the same parameters and applied
 * the same averages, so the parameters must end with the same bits. */
static gboolean
check_digests (TpsMaster *master, GError **error)
{
  Role *first = NULL;

  if (!master->work->parameters_agree)
    return TRUE;
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];

      if (!is_trainer (role) || !role->status.has_digest)
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
    tps_bench_results_count_samples (results, (gint) role->rank, role->status.samples);
}

static gboolean
collect (TpsMaster *master, TpsBenchResults *results, GError **error)
{
  for (guint i = 0; i < master->roles->len; i++)
    {
      Role *role = master->roles->pdata[i];
      const gchar *kind = role->kind == TPS_WORLD_TRAINER ? "trainer" : "server";
      g_autoptr (GPtrArray) metrics = NULL;

      if (role->is_lost)
        continue;
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

/* Replaces the error if a child has exited: that is the cause of all other errors. */
static void
report_ended_child (TpsMaster *master, GError **error)
{
  g_autoptr (GError) ended = NULL;

  if (tps_interrupt_is_set ()
      || tps_supervisor_check_patiently (master->supervisor, PATIENCE_MS, &ended))
    return;
  g_clear_error (error);
  g_propagate_error (error, g_steal_pointer (&ended));
}

gboolean
tps_master_run_pass (TpsMaster *master, TpsBenchResults *results, GError **error)
{
  master->n_passes++;
  master->is_warm_up = results == NULL;
  if (!prepare_servers (master, error) || !start_trainers (master, error)
      || !wait_for_trainers (master, error))
    {
      name_addresses (master, *error);
      report_ended_child (master, error);
      cancel_trainers (master);
      return FALSE;
    }
  return check_digests (master, error) && (results == NULL || collect (master, results, error));
}
