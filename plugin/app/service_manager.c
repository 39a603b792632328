/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/service_manager.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugin/app/supervision.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* ---- messages ------------------------------------------------------------------------------- */

struct TpsNotifier
{
  gint fd;
  struct sockaddr_un manager;
  socklen_t n_bytes; /* length of `manager`; abstract names have no terminator */
};

/* The address of an abstract socket begins with a zero byte, which is written as "@". */
static gboolean
fill_address (const gchar *address, struct sockaddr_un *un, socklen_t *n_bytes)
{
  gsize n_text = strlen (address);

  if ((address[0] != '/' && address[0] != '@') || n_text < 2 || n_text >= sizeof un->sun_path)
    return FALSE;
  un->sun_family = AF_UNIX;
  memcpy (un->sun_path, address, n_text);
  if (address[0] == '@')
    un->sun_path[0] = '\0';
  else
    n_text++; /* a path ends with a zero byte */
  *n_bytes = (socklen_t) (offsetof (struct sockaddr_un, sun_path) + n_text);
  return TRUE;
}

TpsNotifier *
tps_notifier_new (const gchar *address, GError **error)
{
  g_autoptr (TpsNotifier) notifier = g_new0 (TpsNotifier, 1);

  notifier->fd = -1;
  if (!fill_address (address, &notifier->manager, &notifier->n_bytes))
    return tps_fail_null (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "NOTIFY_SOCKET=%s: expected an absolute path or @NAME of at most 107 bytes", address);
  notifier->fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (notifier->fd < 0)
    return tps_fail_null (error, TPS_ERROR_RESOURCE_EXHAUSTED, "NOTIFY_SOCKET=%s: no socket: %s",
                          address, g_strerror (errno));
  return g_steal_pointer (&notifier);
}

void
tps_notifier_free (TpsNotifier *notifier)
{
  if (notifier == NULL)
    return;
  if (notifier->fd >= 0)
    close (notifier->fd);
  g_free (notifier);
}

gboolean
tps_notifier_send (TpsNotifier *notifier, const gchar *message)
{
  return notifier == NULL
         || sendto (notifier->fd, message, strlen (message), MSG_NOSIGNAL,
                    (const struct sockaddr *) &notifier->manager, notifier->n_bytes)
                >= 0;
}

/* ---- sockets -------------------------------------------------------------------------------- */

static gboolean
refuse (const gchar *name, const gchar *value, const gchar *expected, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s=%s: expected %s", name, value, expected);
}

gboolean
tps_passed_sockets_parse (const gchar *listen_pid, const gchar *listen_fds,
                          const gchar *listen_names, gint64 pid, TpsPassedSockets *sockets,
                          GError **error)
{
  g_auto (GStrv) names = NULL;
  guint64 receiver, n;

  *sockets = (TpsPassedSockets) { 0 };
  if (listen_pid == NULL || listen_fds == NULL)
    return TRUE;
  if (!g_ascii_string_to_unsigned (listen_pid, 10, 1, G_MAXINT32, &receiver, NULL))
    return refuse ("LISTEN_PID", listen_pid, "the id of a process", error);
  if ((gint64) receiver != pid)
    return TRUE;
  if (!g_ascii_string_to_unsigned (listen_fds, 10, 0, TPS_PASSED_SOCKETS_MAX, &n, NULL))
    return refuse ("LISTEN_FDS", listen_fds, "0 to " G_STRINGIFY (TPS_PASSED_SOCKETS_MAX), error);
  if (listen_names != NULL)
    {
      names = g_strsplit (listen_names, ":", -1);
      if (g_strv_length (names) != n)
        return refuse ("LISTEN_FDNAMES", listen_names, "a name for each of LISTEN_FDS", error);
    }
  *sockets = (TpsPassedSockets) { .n = (guint) n, .names = g_steal_pointer (&names) };
  return TRUE;
}

void
tps_passed_sockets_clear (TpsPassedSockets *sockets)
{
  g_clear_pointer (&sockets->names, g_strfreev);
  sockets->n = 0;
}

/* Returns "socket 4 (thriftps.socket)" for errors. The caller owns it. */
static gchar *
describe_socket (const TpsPassedSockets *sockets, guint index)
{
  guint fd = TPS_PASSED_SOCKETS_FIRST + index;

  return sockets->names != NULL ? g_strdup_printf ("socket %u (%s)", fd, sockets->names[index])
                                : g_strdup_printf ("socket %u", fd);
}

/* ---- service manager ------------------------------------------------------------------------ */

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
  TpsDurable *durable = manager->plugin->durable;

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
        g_autofree gchar *socket = describe_socket (&manager->sockets, i);

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
