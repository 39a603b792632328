/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/role.h"

#include <stdio.h>
#include <string.h>

#include "bench/process/interrupt.h"
#include "bench/process/reachable.h"
#include "bench/world/enroll.h"
#include "plugin/client/client.h"
#include "plugin/client/stubs.h"
#include "plugin/trainer/trainer_links.h"
#include "plugin/trainer/trainer_service.h"
#include "runtime/trainer/dense/blas.h"
#include "runtime/trainer/pass/trainer.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define STOP_POLL_MS 200
/* The time after which a role assumes that the master is gone. TCP needs three minutes for that. It
 * is longer than any pause of a live master, because a role that exits too early ends the run. */
#define SILENCE_NS (15 * SECOND_NS)

typedef struct
{
  const TpsWorld *world;
  gchar *name;
  gchar *master;
  TpsTrainerReach reach;
  gchar *host; /* the address of this process for other roles */
  TpsMetrics *metrics;
  TpsTrainer *trainer; /* of the plugin; NULL for a server */
  TpsDevice *device;   /* of a server; NULL = the CPU */
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

/* Returns the device of a server; NULL = the CPU. */
static TpsDevice *
find_device (const TpsPluginOptions *options)
{
  TpsDevice *device = options->parameter_server.device;

  if (device == NULL && options->table_place.device[0] != '\0')
    device = tps_device_find (options->table_place.device, NULL);
  return device != NULL && !device->is_host ? device : NULL;
}

static gboolean
make_plugin (Role *role, TpsFillServer fill_server, gpointer user_data, GError **error)
{
  const TpsWorld *world = role->world;
  guint rank = (guint) world->rank;
  gboolean is_server = tps_world_get_kind (world, rank) == TPS_WORLD_SERVER;
  TpsPluginOptions options = {
    .name = role->name,
    .parameter_server = { .n_trainers = 1,
                          .round_timeout_ns = world->rpc_timeout * SECOND_NS,
                          .metrics = role->metrics },
  };
  TpsTrainerLinks links;
  TpsService service;

  if (is_server && !fill_server (user_data, tps_world_get_number (world, rank), &options, error))
    return FALSE;
  role->device = find_device (&options);
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

static gboolean
is_wildcard (const gchar *host)
{
  return g_str_equal (host, "0.0.0.0") || g_str_equal (host, "::");
}

/* Returns the numeric address of --bind, because its name may resolve differently on other
 * hosts. */
static gchar *
resolve_bind (const gchar *bind, GError **error)
{
  gchar *address = tps_reachable_resolve (bind);

  if (address == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--bind=%s: cannot be resolved",
                 bind);
  return address;
}

/* Finds the address of this host for other roles. With Unix sockets, all roles are on this
 * machine. */
static gboolean
find_host (Role *role, GError **error)
{
  const TpsWorld *world = role->world;

  if (g_str_equal (world->transport, "unix"))
    role->host = g_strdup ("127.0.0.1");
  else if (world->bind != NULL && !is_wildcard (world->bind))
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
  TpsServerOptions options = { .no_shared_memory = role->world->no_shared_memory,
                               .device = role->device };

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
         && tps_enroll (role->client, role->world, role->name, address, flags, error);
}

/* Confirms the stop. Returns FALSE with an error if the run has failed. Takes over `stop`. */
static gboolean
end (Role *role, GBytes *stop, GError **error)
{
  gsize n_bytes;
  const gchar *failure = g_bytes_get_data (stop, &n_bytes);

  tps_enroll_confirm_stop (role->client, role->world);
  if (n_bytes > 0)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "the run failed: %.*s", (gint) n_bytes,
                 failure);
  g_bytes_unref (stop);
  return n_bytes == 0;
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
          g_propagate_prefixed_error (error, g_steal_pointer (&local), "the master has ended: ");
          return FALSE;
        }
      /* An unset key and a missing reply have the same error code; only the time distinguishes
       * them. */
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
