/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/role.h"

#include <stdio.h>
#include <string.h>

#include "bench/process/interrupt.h"
#include "bench/process/reachable.h"
#include "bench/world/card.h"
#include "plugin/client/client.h"
#include "plugin/client/stubs.h"
#include "plugin/trainer/trainer_links.h"
#include "plugin/trainer/trainer_service.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/trainer/dense/blas.h"
#include "runtime/trainer/pass/trainer.h"

/* The registration of a role with its master. */

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (5 * SECOND_NS)
#define POLL_MS 100

typedef struct
{
  TpsClient *master;
  const TpsWorld *world;
  TpsCard *card;
  gint64 deadline_ns;
} Enrolment;

/* Returns TRUE if a retry can help: the master does not listen, or the key does not exist yet. */
static gboolean
is_early (const GError *error)
{
  return tps_error_damage (error) == TPS_DAMAGE_CONNECTION
         || g_error_matches (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED)
         || g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND);
}

/* Sets the error if the master replies, but the key does not exist. Takes over `cause`. */
static void
fail_without_key (const Enrolment *self, GError *cause, GError **error)
{
  g_autofree gchar *place = tps_world_get_master (self->world);

  g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
               "the master at %s has not accepted %s within %d s (--startup-timeout)", place,
               tps_card_get (self->card, "name"), self->world->startup_timeout);
  g_error_free (cause);
}

/* Sets the error if no master replies. A frequent cause is a name that resolves to loopback on the
 * host of the master. Takes over `cause`. */
static void
fail_without_master (const Enrolment *self, GError *cause, GError **error)
{
  g_autofree gchar *place = tps_world_get_master (self->world);
  g_autofree gchar *address = tps_reachable_resolve (self->world->master_addr);
  gboolean is_name = g_strcmp0 (address, self->world->master_addr) != 0;

  g_set_error (
      error, TPS_ERROR, cause->code, "no master at %s%s%s%s within %d s (--startup-timeout): %s%s",
      place, is_name && address != NULL ? " (" : "", is_name && address != NULL ? address : "",
      is_name && address != NULL ? ")" : "", self->world->startup_timeout, cause->message,
      is_name ? "; if the master runs there, its host may resolve this name to loopback: see the "
                "master's output"
              : "");
  g_error_free (cause);
}

/* Waits for the key until the deadline. Between two attempts, `gives_up` can end the wait with an
 * error. The caller owns the result. */
static GBytes *
wait_for (const Enrolment *self, const gchar *key,
          gboolean (*gives_up) (const Enrolment *self, GError **error), GError **error)
{
  for (;;)
    {
      GError *local = NULL;
      GBytes *value = tps_remote_get (self->master, key, POLL_MS, tps_clock_now_ns () + CALL_NS,
                                      &local);

      if (value != NULL)
        return value;
      if (!tps_interrupt_check (error) || (gives_up != NULL && gives_up (self, error)))
        {
          g_error_free (local);
          return NULL;
        }
      if (!is_early (local) || tps_clock_now_ns () > self->deadline_ns)
        {
          if (tps_error_damage (local) == TPS_DAMAGE_CONNECTION)
            fail_without_master (self, local, error);
          else
            fail_without_key (self, local, error);
          return NULL;
        }
      if (tps_error_damage (local) == TPS_DAMAGE_CONNECTION)
        g_usleep (POLL_MS * 1000);
      g_error_free (local);
    }
}

/* Checks the job of the master, which waits for all roles, and restarts the startup timeout. */
static gboolean
check_job (Enrolment *self, GError **error)
{
  g_autoptr (GBytes) bytes = wait_for (self, TPS_WORLD_MASTER_KEY, NULL, error);
  g_autoptr (TpsCard) master = NULL;
  g_autofree gchar *name = NULL;
  g_autofree gchar *place = NULL;

  if (bytes == NULL)
    return FALSE;
  self->deadline_ns = tps_clock_now_ns () + self->world->startup_timeout * SECOND_NS;
  master = tps_card_decode (bytes);
  if (self->world->job == NULL || g_str_equal (self->world->job, tps_card_get (master, "job")))
    return TRUE;
  name = tps_card_describe (master);
  place = tps_world_get_master (self->world);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "this role is of job %s, but at %s is the %s of job %s; use another --master-port",
               self->world->job, place, name, tps_card_get (master, "job"));
  return FALSE;
}

/* Checks that `bytes`, the card of the process with this rank, is the card of this process. */
static gboolean
check_mine (const Enrolment *self, GBytes *bytes, GError **error)
{
  g_autoptr (TpsCard) other = tps_card_decode (bytes);
  g_autofree gchar *me = NULL;
  g_autofree gchar *them = NULL;

  if (g_str_equal (tps_card_get (other, "nonce"), tps_card_get (self->card, "nonce")))
    return TRUE;
  me = tps_card_describe (self->card);
  them = tps_card_describe (other);
  g_set_error (
      error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
      "this is %s, but rank %d of that world is taken by %s at %s; a second world needs another --master-port, "
      "and --job distinguishes worlds",
      me, self->world->rank, them, tps_card_get (other, "address"));
  return FALSE;
}

/* Checks that the rank is free. If another process has the rank, its card must not be replaced. */
static gboolean
check_free (const Enrolment *self, const gchar *key, GError **error)
{
  g_autoptr (GError) local = NULL;
  g_autoptr (GBytes)
      taken = tps_remote_get (self->master, key, 0, tps_clock_now_ns () + CALL_NS, &local);

  return taken == NULL || check_mine (self, taken, error);
}

/* Confirms to the master that this role has seen the stop. The master waits for this. */
static void
enroll_confirm_stop (TpsClient *master, const TpsWorld *world)
{
  g_autofree gchar *key = tps_world_get_stopped_key ((guint) world->rank);
  g_autoptr (GBytes) value = g_bytes_new_static ("", 0);

  tps_remote_put (master, key, value, tps_clock_now_ns () + SECOND_NS, NULL);
}

/* Returns TRUE if the master has ended the run, because of this role or of another one. */
static gboolean
has_stopped (const Enrolment *self, GError **error)
{
  g_autoptr (GBytes) stop = tps_remote_get (self->master, TPS_WORLD_STOP_KEY, 0,
                                            tps_clock_now_ns () + CALL_NS, NULL);

  if (stop == NULL)
    return FALSE;
  enroll_confirm_stop (self->master, self->world);
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "the run failed: %.*s",
               (gint) g_bytes_get_size (stop), (const gchar *) g_bytes_get_data (stop, NULL));
  return TRUE;
}

/* Puts the card under the role's key, and waits for the master's copy under the welcome key. */
static gboolean
apply (const Enrolment *self, GError **error)
{
  guint rank = (guint) self->world->rank;
  g_autofree gchar *role_key = tps_world_get_role_key (rank);
  g_autofree gchar *welcome_key = tps_world_get_welcome_key (rank);
  g_autoptr (GBytes) card = tps_card_encode (self->card);
  g_autoptr (GBytes) taken = NULL;

  if (!check_free (self, welcome_key, error)
      || !tps_remote_put (self->master, role_key, card, tps_clock_now_ns () + CALL_NS, error))
    return FALSE;
  taken = wait_for (self, welcome_key, has_stopped, error);
  return taken != NULL && check_mine (self, taken, error);
}

/* Registers this process as a role. Returns when the master has accepted it. `address` is the
 * service address of the process, and `flags` are those of tps_card_new(). */
static gboolean
join_world (TpsClient *master, const TpsWorld *world, const gchar *name, const gchar *address,
            const GPtrArray *flags, GError **error)
{
  g_autoptr (TpsCard) card = tps_card_new (world, name, address, flags);
  Enrolment self = { .master = master,
                     .world = world,
                     .card = card,
                     .deadline_ns = tps_clock_now_ns () + world->startup_timeout * SECOND_NS };

  return check_job (&self, error) && apply (&self, error);
}

#define STOP_POLL_MS 200
/* The time after which a role assumes that the master is gone. TCP needs three minutes for that. It
 * is longer than any pause of a live master, because a role that exits too early ends the run. */
#define SILENCE_NS (15 * SECOND_NS)
#define SIGNAL_NS SECOND_NS /* between the end of the master's server and its signal */

typedef struct
{
  const TpsWorld *world;
  gchar *name;
  gchar *master;
  TpsTrainerReach reach;
  gchar *host; /* the address of this process for other roles */
  TpsMetrics *metrics;
  TpsTrainer *trainer; /* of the plugin; NULL for a server */
  TpsPlugin *plugin;
  TpsServer *server;
  TpsClient *client; /* to the master */
} Role;

static void
role_clear (Role *role)
{
  g_clear_pointer (&role->client, tps_client_free);
  if (role->trainer != NULL)
    tps_trainer_cancel (role->trainer);
  if (role->server != NULL)
    tps_server_stop (role->server);
  g_clear_object (&role->server);
  g_clear_pointer (&role->plugin, tps_plugin_free);
  g_clear_pointer (&role->metrics, tps_metrics_unref);
  g_free (role->name);
  g_free (role->master);
  g_free (role->host);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Role, role_clear)

static gboolean
make_plugin (Role *role, TpsFillServer fill_server, gpointer user_data, GError **error)
{
  const TpsWorld *world = role->world;
  guint rank = (guint) world->rank;
  gboolean is_server = tps_world_get_kind (world, rank) == TPS_WORLD_SERVER;
  TpsPluginOptions options = {
    .name = role->name,
    .n_trainers = 1,
    .round_timeout_ns = world->rpc_timeout * SECOND_NS,
  };
  TpsPluginParts parts = { 0 };
  TpsTrainerLinks links;
  TpsService service;

  if (is_server && !fill_server (user_data, tps_world_get_number (world, rank), &options, error))
    return FALSE;
  if (options.parts != NULL)
    parts = *options.parts;
  parts.metrics = role->metrics;
  options.parts = &parts;
  role->plugin = tps_plugin_new (&options, error);
  if (role->plugin == NULL || is_server)
    return role->plugin != NULL;
  role->reach.master = role->master;
  links = tps_trainer_links (&role->reach);
  links.host = role->host;
  links.local_rank = tps_world_get_local_rank (world);
  links.no_shared_memory = world->no_shared_memory;
  links.first_port = world->first_port;
  links.last_port = world->last_port;
  role->trainer = tps_trainer_new (&links, role->metrics);
  service = tps_trainer_service (role->trainer);
  tps_plugin_add_service (role->plugin, &service);
  return TRUE;
}

/* Returns the numeric address of --bind: its name may resolve differently elsewhere. */
static gchar *
resolve_bind (const gchar *bind, GError **error)
{
  gchar *address = tps_reachable_resolve (bind);

  if (address == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--bind=%s: cannot be resolved",
                 bind);
  return address;
}

/* Finds the address of this host for other roles. With Unix sockets, all are here. */
static gboolean
find_host (Role *role, GError **error)
{
  const TpsWorld *world = role->world;

  if (g_str_equal (world->transport, "unix"))
    role->host = g_strdup ("127.0.0.1");
  else if (world->bind != NULL && !g_str_equal (world->bind, "0.0.0.0")
           && !g_str_equal (world->bind, "::"))
    role->host = resolve_bind (world->bind, error);
  else
    role->host = tps_reachable_address (world->master_addr, error);
  return role->host != NULL;
}

static gboolean
listen_unix (Role *role, GError **error)
{
  const gchar *folder = role->world->socket_dir != NULL ? role->world->socket_dir
                                                        : g_get_tmp_dir ();
  g_autofree gchar *address = g_strdup_printf ("unix:%s/%s.sock", folder, role->name);

  return tps_server_listen (role->server, address, error);
}

/* Listens on the first free port of --port-range, or on any port. */
static gboolean
listen_tcp (Role *role, GError **error)
{
  const TpsWorld *world = role->world;
  const gchar *host = world->bind != NULL ? world->bind : role->host;

  for (guint port = world->first_port; port <= world->last_port; port++)
    {
      g_autofree gchar *address = tps_world_join_address (host, port);
      g_autoptr (GError) local = NULL;

      if (tps_server_listen (role->server, address, &local))
        return TRUE;
      if (port > 0 && port < world->last_port
          && g_error_matches (local, TPS_ERROR, TPS_ERROR_UNAVAILABLE))
        continue;
      g_propagate_error (error, g_steal_pointer (&local));
      break;
    }
  if (world->first_port > 0)
    g_prefix_error (error, "--port-range=%s: no port is left: ", world->port_range);
  return FALSE;
}

static gboolean
serve (Role *role, GError **error)
{
  TpsServerOptions options = { .no_shared_memory = role->world->no_shared_memory };

  role->server = tps_plugin_new_server (role->plugin, &options);
  return (g_str_equal (role->world->transport, "unix") ? listen_unix (role, error)
                                                       : listen_tcp (role, error))
         && tps_server_start (role->server, error);
}

/* Returns the address of this role for other roles. A server that listens on all addresses does not
 * know it. The caller owns the result. */
static gchar *
get_address (const Role *role)
{
  const gchar *bound = tps_server_get_addresses (role->server)[0];

  if (g_str_equal (role->world->transport, "unix"))
    return g_strdup (bound);
  return tps_world_join_address (role->host,
                                 (guint) g_ascii_strtoull (strrchr (bound, ':') + 1, NULL, 10));
}

static gboolean
enroll (Role *role, const GPtrArray *flags, GError **error)
{
  g_autofree gchar *address = get_address (role);
  TpsClientOptions options = { .address = role->master };

  role->client = tps_client_new (&options, error);
  return role->client != NULL
         && join_world (role->client, role->world, role->name, address, flags, error);
}

/* Confirms the stop. Returns FALSE with an error if the run has failed. Takes over `stop`. */
static gboolean
end (Role *role, GBytes *stop, GError **error)
{
  gsize n_bytes;
  const gchar *failure = g_bytes_get_data (stop, &n_bytes);

  enroll_confirm_stop (role->client, role->world);
  if (n_bytes > 0)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "the run failed: %.*s", (gint) n_bytes,
                 failure);
  g_bytes_unref (stop);
  return n_bytes == 0;
}

/* Returns TRUE if a signal has ended the run. A master that is interrupted closes its server first,
 * and then sends its children the signal. */
static gboolean
is_interrupted_soon (void)
{
  gint64 deadline_ns = tps_clock_now_ns () + SIGNAL_NS;

  while (!tps_interrupt_is_set () && tps_clock_now_ns () < deadline_ns)
    g_usleep (10000);
  return tps_interrupt_is_set ();
}

/* Waits until the master ends the run. Errors: the run has failed; the master has exited; the
 * master has not replied for a long time. */
static gboolean
wait_for_stop (Role *role, GError **error)
{
  for (;;)
    {
      g_autoptr (GError) local = NULL;
      gint64 start_ns = tps_clock_now_ns ();
      GBytes *stop = tps_remote_get (role->client, TPS_WORLD_STOP_KEY, STOP_POLL_MS,
                                     start_ns + SILENCE_NS, &local);

      if (stop != NULL)
        return end (role, stop, error);
      if (tps_interrupt_is_set ())
        return TRUE;
      if (!g_error_matches (local, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED))
        {
          if (is_interrupted_soon ())
            return TRUE;
          g_propagate_prefixed_error (error, g_steal_pointer (&local), "the master has ended: ");
          return FALSE;
        }
      /* Only the time distinguishes an unset key from a missing reply. */
      if (tps_clock_now_ns () - start_ns >= SILENCE_NS)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
                       "the master at %s has not replied for %d s", role->master,
                       (gint) (SILENCE_NS / SECOND_NS));
          return FALSE;
        }
    }
}

gint
tps_role_run (const TpsWorld *world, const GPtrArray *flags, TpsFillServer fill_server,
              gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Role) role = { .world = world };

  role.name = tps_world_get_name (world, (guint) world->rank);
  role.master = tps_world_get_master (world);
  role.metrics = tps_metrics_new (NULL, NULL);
  tps_blas_set_num_threads (1);
  if (find_host (&role, &error) && make_plugin (&role, fill_server, user_data, &error)
      && serve (&role, &error) && enroll (&role, flags, &error) && wait_for_stop (&role, &error))
    return 0;
  g_assert (error != NULL);
  if (world->socket_dir == NULL || !g_error_matches (error, TPS_ERROR, TPS_ERROR_ABORTED))
    fprintf (stderr, "%s: %s: %s\n", world->program, role.name, error->message);
  return 1;
}
