/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/passed_sockets.h"

#include "runtime/base/error.h"

static gboolean
refuse (const gchar *name, const gchar *value, const gchar *expected, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s=%s: expected %s", name, value,
               expected);
  return FALSE;
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

gchar *
tps_passed_sockets_describe (const TpsPassedSockets *sockets, guint index)
{
  guint fd = TPS_PASSED_SOCKETS_FIRST + index;

  return sockets->names != NULL ? g_strdup_printf ("socket %u (%s)", fd, sockets->names[index])
                                : g_strdup_printf ("socket %u", fd);
}
