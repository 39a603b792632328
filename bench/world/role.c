/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/role.h"

#include <stdio.h>
#include <string.h>

#include "bench/process/interrupt.h"
#include "bench/process/reachable.h"
#include "plugin/client/client.h"
#include "plugin/client/stubs.h"
#include "plugin/client/trainer_links.h"
#include "runtime/device/cpu/kernels/blas.h"
#include "runtime/trainer/pass/trainer.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (30 * SECOND_NS)
#define STOP_POLL_MS 200

typedef struct
{
  const TpsWorld *world;
  gchar *name;
  gchar *master;
  gchar *host; /* where others reach this process */
  TpsMetrics *metrics;
  TpsTrainer *trainer; /* NULL in a server */
  TpsDevice *device;   /* of a server; NULL = the CPU */
  TpsPlugin *plugin;
  TpsServer *server;
  TpsClient *client; /* of the master */
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
  g_clear_pointer (&role->trainer, tps_trainer_free);
  g_clear_pointer (&role->metrics, tps_metrics_unref);
  g_free (role->name);
  g_free (role->master);
  g_free (role->host);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Role, role_clear)

/* What a server works on; NULL = the CPU. */
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

  if (is_server && !fill_server (user_data, tps_world_get_number (world, rank), &options, error))
    return FALSE;
  role->device = find_device (&options);
  role->plugin = tps_plugin_new (&options, error);
  if (role->plugin == NULL || is_server)
    return role->plugin != NULL;
  links = tps_trainer_links (role->master);
  links.host = role->host;
  links.local_rank = tps_world_get_local_rank (world);
  role->trainer = tps_trainer_new (&links, role->metrics);
  tps_plugin_add_trainer (role->plugin, role->trainer);
  return TRUE;
}

/* Unix sockets say that the whole world is on this machine. */
static gboolean
find_host (Role *role, GError **error)
{
  role->host = g_str_equal (role->world->transport, "unix")
                   ? g_strdup ("127.0.0.1")
                   : tps_reachable_address (role->world->master_addr, error);
  return role->host != NULL;
}

static gchar *
choose_address (const Role *role)
{
  const TpsWorld *world = role->world;
  const gchar *folder = world->socket_dir != NULL ? world->socket_dir : g_get_tmp_dir ();

  if (g_str_equal (world->transport, "unix"))
    return g_strdup_printf ("unix:%s/%s.sock", folder, role->name);
  return g_strdup_printf (strchr (role->host, ':') != NULL ? "[%s]:0" : "%s:0", role->host);
}

static gboolean
serve (Role *role, GError **error)
{
  g_autofree gchar *address = choose_address (role);
  TpsServerOptions options = { .no_shared_memory = role->world->no_shared_memory,
                               .device = role->device };

  role->server = tps_plugin_new_server (role->plugin, &options);
  return tps_server_listen (role->server, address, error) && tps_server_start (role->server, error);
}

/* The master may come up after its roles. */
static gboolean
announce (Role *role, GError **error)
{
  g_autofree gchar *key = tps_world_get_address_key ((guint) role->world->rank);
  const gchar *address = tps_server_get_addresses (role->server)[0];
  g_autoptr (GBytes) value = g_bytes_new (address, strlen (address));
  TpsClientOptions options = { .address = role->master };
  gint64 deadline_ns = tps_clock_now_ns () + role->world->startup_timeout * SECOND_NS;

  role->client = tps_client_new (&options, error);
  if (role->client == NULL)
    return FALSE;
  for (;;)
    {
      g_autoptr (GError) local = NULL;

      if (tps_remote_put (role->client, key, value, tps_clock_now_ns () + CALL_NS, &local))
        return TRUE;
      if (!tps_interrupt_check (error))
        return FALSE;
      if (tps_error_damage (local) != TPS_DAMAGE_CONNECTION || tps_clock_now_ns () > deadline_ns)
        {
          g_propagate_prefixed_error (error, g_steal_pointer (&local),
                                      "no master at %s within %d s (--startup-timeout): ",
                                      role->master, role->world->startup_timeout);
          return FALSE;
        }
      g_usleep (STOP_POLL_MS * 1000);
    }
}

/* The master keeps its server up until it knows, so that no role takes its end for a failure. */
static void
confirm_stop (Role *role)
{
  g_autofree gchar *key = tps_world_get_stopped_key ((guint) role->world->rank);
  g_autoptr (GBytes) value = g_bytes_new_static ("", 0);

  tps_remote_put (role->client, key, value, tps_clock_now_ns () + SECOND_NS, NULL);
}

/* Returns when the master says so; an error when it is gone. */
static gboolean
wait_for_stop (Role *role, GError **error)
{
  for (;;)
    {
      g_autoptr (GError) local = NULL;
      g_autoptr (GBytes) stop = tps_remote_get (role->client, TPS_WORLD_STOP_KEY, STOP_POLL_MS,
                                                tps_clock_now_ns () + CALL_NS, &local);

      if (stop != NULL)
        confirm_stop (role);
      if (stop != NULL || tps_interrupt_is_set ())
        return TRUE;
      if (!g_error_matches (local, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED))
        {
          g_propagate_prefixed_error (error, g_steal_pointer (&local), "the master is gone: ");
          return FALSE;
        }
    }
}

gint
tps_role_run (const TpsWorld *world, TpsFillServer fill_server, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_auto (Role) role = { .world = world };

  role.name = tps_world_get_name (world, (guint) world->rank);
  role.master = tps_world_get_master (world);
  role.metrics = tps_metrics_new (NULL, NULL);
  tps_blas_set_num_threads (1);
  if (find_host (&role, &error) && make_plugin (&role, fill_server, user_data, &error)
      && serve (&role, &error) && announce (&role, &error) && wait_for_stop (&role, &error))
    return 0;
  g_assert (error != NULL);
  fprintf (stderr, "%s: %s: %s\n", world->program, role.name, error->message);
  return 1;
}
