/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/service_manager.h"

#include <unistd.h>

#include "plugin/app/notifier.h"
#include "plugin/app/passed_sockets.h"
#include "plugin/app/supervision.h"
#include "runtime/base/sync.h"

struct TpsServiceManager
{
  TpsNotifier *notifier; /* NULL = the manager expects no messages */
  TpsPassedSockets sockets;
  gint64 watchdog_ns; /* 0 = there is no watchdog */

  TpsServer *server; /* NULL = before begin */
  TpsPlugin *plugin;
  gchar *addresses;
  TpsSupervision supervision;
};

/* ---- callbacks of the supervision ------------------------------------------------------------ */

static gboolean
send_message (gpointer user_data, const gchar *message)
{
  const TpsServiceManager *manager = user_data;

  return tps_notifier_send (manager->notifier, message);
}

static gboolean
check_threads (gpointer user_data, gint64 patience_ns, gchar **missing)
{
  const TpsServiceManager *manager = user_data;

  return tps_server_check_threads (manager->server, patience_ns, missing);
}

static gboolean
get_durability (gpointer user_data, TpsDurableStatus *status)
{
  const TpsServiceManager *manager = user_data;
  TpsDurable *durable = tps_plugin_get_durable (manager->plugin);

  if (durable != NULL)
    tps_durable_get_status (durable, status);
  return durable != NULL;
}

static const TpsSupervisionOps supervision_ops = { send_message, check_threads, get_durability };

/* ---- creation and release ------------------------------------------------------------------- */

static gboolean
read_environment (TpsServiceManager *manager, GError **error)
{
  const gchar *address = g_getenv ("NOTIFY_SOCKET");

  manager->watchdog_ns = tps_supervision_parse_watchdog (g_getenv ("WATCHDOG_USEC"),
                                                         g_getenv ("WATCHDOG_PID"), getpid ());
  if (address != NULL && *address != '\0')
    {
      manager->notifier = tps_notifier_new (address, error);
      if (manager->notifier == NULL)
        return FALSE;
    }
  return tps_passed_sockets_parse (g_getenv ("LISTEN_PID"), g_getenv ("LISTEN_FDS"),
                                   g_getenv ("LISTEN_FDNAMES"), getpid (), &manager->sockets,
                                   error);
}

TpsServiceManager *
tps_service_manager_new (GError **error)
{
  static const gchar *const variables[] = { "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                            "LISTEN_PID",    "LISTEN_FDS",    "LISTEN_FDNAMES" };
  g_autoptr (TpsServiceManager) manager = g_new0 (TpsServiceManager, 1);

  if (!read_environment (manager, error))
    return NULL;
  /* Child processes must not act on messages for this process. */
  for (guint i = 0; i < G_N_ELEMENTS (variables); i++)
    g_unsetenv (variables[i]);
  return g_steal_pointer (&manager);
}

void
tps_service_manager_free (TpsServiceManager *manager)
{
  if (manager == NULL)
    return;
  tps_notifier_free (manager->notifier);
  tps_passed_sockets_clear (&manager->sockets);
  g_free (manager->addresses);
  g_free (manager);
}

guint
tps_service_manager_get_n_sockets (const TpsServiceManager *manager)
{
  return manager->sockets.n;
}

gboolean
tps_service_manager_give_sockets (TpsServiceManager *manager, TpsServer *server, GError **error)
{
  for (guint i = 0; i < manager->sockets.n; i++)
    if (!tps_server_take_socket (server, TPS_PASSED_SOCKETS_FIRST + (gint) i, error))
      {
        g_autofree gchar *socket = tps_passed_sockets_describe (&manager->sockets, i);

        g_prefix_error (error, "%s of the service manager: ", socket);
        return FALSE;
      }
  return TRUE;
}

/* ---- messages -------------------------------------------------------------------------------- */

static gboolean
is_told (const TpsServiceManager *manager)
{
  return manager->notifier != NULL && manager->server != NULL;
}

void
tps_service_manager_begin (TpsServiceManager *manager, TpsServer *server, TpsPlugin *plugin)
{
  manager->server = server;
  manager->plugin = plugin;
  manager->addresses = g_strjoinv (", ", (GStrv) (gsize) tps_server_get_addresses (server));
  tps_supervision_init (&manager->supervision, &supervision_ops, manager, manager->addresses,
                        manager->watchdog_ns);
  tps_service_manager_turn (manager);
}

void
tps_service_manager_turn (TpsServiceManager *manager)
{
  if (is_told (manager))
    tps_supervision_turn (&manager->supervision, tps_clock_now_ns ());
}

void
tps_service_manager_begin_reload (TpsServiceManager *manager)
{
  if (is_told (manager))
    tps_supervision_begin_reload (&manager->supervision, tps_clock_now_ns ());
}

void
tps_service_manager_end_reload (TpsServiceManager *manager)
{
  if (is_told (manager))
    tps_supervision_end_reload (&manager->supervision);
}

void
tps_service_manager_stop (TpsServiceManager *manager)
{
  if (is_told (manager))
    tps_supervision_stop (&manager->supervision);
}
