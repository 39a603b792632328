/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/served/served.h"

#include <string.h>

#include "bench/process/runfiles.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define CALL_NS G_GINT64_CONSTANT (300000000000)

gchar *
tps_served_find (const gchar *program, GError **error)
{
  return program != NULL ? g_strdup (program)
                         : tps_bench_find_file ("plugin/app/thriftps_server", error);
}

static gchar *
receive_address (TpsChild *child, const gchar *name, GError **error)
{
  static const gchar listening[] = "listening on ";
  g_autofree gchar *line = tps_child_receive (child, error);

  if (line == NULL)
    return NULL;
  if (g_str_has_prefix (line, listening))
    return g_strdup (line + strlen (listening));
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s did not start: %s", name, line);
  return NULL;
}

TpsServed *
tps_served_start (TpsSupervisor *supervisor, const gchar *name, const gchar *program,
                  const gchar *flags, guint n_addresses, GError **error)
{
  g_autoptr (TpsServed) served = g_new0 (TpsServed, 1);
  g_autofree gchar *path = tps_served_find (program, error);
  g_auto (GStrv) argv = NULL;

  if (path == NULL)
    return NULL;
  argv = tps_argv_format ("%s\n--log-level=error\n%s", path, flags);
  served->addresses = g_new0 (gchar *, n_addresses + 1);
  served->child = tps_child_start (supervisor, name, argv, error);
  for (guint i = 0; served->child != NULL && i < n_addresses; i++)
    if ((served->addresses[i] = receive_address (served->child, name, error)) == NULL)
      return NULL;
  return served->child != NULL ? g_steal_pointer (&served) : NULL;
}

void
tps_served_free (TpsServed *served)
{
  g_clear_pointer (&served->child, tps_child_free);
  g_strfreev (served->addresses);
  g_free (served);
}

void
tps_served_kill (TpsServed *served)
{
  tps_child_kill (served->child);
  tps_served_free (served);
}

TpsRemoteTables *
tps_served_connect (const gchar *address, const gchar *token, TpsDevice *lookup_device,
                    GError **error)
{
  TpsRemoteTablesOptions options = {
    .addresses = &address, .n_addresses = 1, .token = token, .lookup_device = lookup_device
  };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, error);

  if (tables == NULL || !tps_remote_tables_discover (tables, tps_served_get_deadline (), error))
    return NULL;
  return g_steal_pointer (&tables);
}

gint64
tps_served_get_deadline (void)
{
  return tps_clock_now_ns () + CALL_NS;
}

TpsTensorView
tps_view_ids (const gint64 *ids, gsize n)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { (gint64) n } }, .data = ids
  };
}

TpsTensorView
tps_view_rows (const gfloat *rows, gsize n, gsize dim)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2, .dims = { (gint64) n, (gint64) dim } },
    .data = rows
  };
}
