/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/server.h"

#include "bench/lookup/bags.h"
#include "runtime/base/sync.h"

const gchar *
tps_lookup_transport_name (guint transport)
{
  static const gchar *const names[TPS_LOOKUP_N_TRANSPORTS] = { "unix", "tcp" };

  return names[transport];
}

TpsServed *
tps_lookup_server_start (TpsSupervisor *supervisor, const gchar *program, const gchar *socket_dir,
                         const gchar *table_device, GError **error)
{
  g_autofree gchar *flags = g_strdup_printf (
      "--listen=unix:%s/lookup.sock\n--listen=127.0.0.1:0\n%s%s", socket_dir,
      table_device != NULL ? "--table-device=" : "", table_device != NULL ? table_device : "");

  return tps_served_start (supervisor, "server", program, flags, TPS_LOOKUP_N_TRANSPORTS, error);
}

TpsRemoteTables *
tps_lookup_server_connect (const TpsServed *server, guint transport, GError **error)
{
  return tps_served_connect (server->addresses[transport], NULL, NULL, error);
}

gboolean
tps_lookup_server_make_table (const TpsServed *server, const TpsLookupTable *table, GError **error)
{
  TpsTablePlacement placement = { .kind = TPS_SHARD_WHOLE };
  g_autoptr (TpsRemoteTables) tables = tps_lookup_server_connect (server, 0, error);
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, table->name, (gint64) table->n_rows, (gint32) table->dim);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  spec.optimizer = table->optimizer != NULL ? *table->optimizer
                                            : tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  spec.place = *table->place;
  if (table->dtype != 0)
    spec.dtype = table->dtype;
  return tables != NULL
         && tps_remote_tables_create_spec (tables, &spec, &placement, tps_served_get_deadline (),
                                           error);
}

/* Sets the values by one step of SGD with the learning rate 1, from 0. */
static gboolean
fill_some (TpsRemoteTables *tables, const TpsLookupTable *table, gsize first, gsize n,
           GError **error)
{
  g_autofree gint64 *ids = g_new (gint64, n);
  g_autofree gfloat *values = g_new (gfloat, n * table->dim);

  for (gsize i = 0; i < n; i++)
    ids[i] = (gint64) (first + i);
  tps_lookup_fill_rows (values, first, n, table->dim, -1);
  return tps_remote_tables_apply_rows_sync (tables, table->name, tps_view_ids (ids, n),
                                            tps_view_rows (values, n, table->dim),
                                            tps_served_get_deadline (), error);
}

gboolean
tps_lookup_server_make_filled_table (const TpsServed *server, const TpsLookupTable *table,
                                     GError **error)
{
  g_autoptr (TpsRemoteTables) tables = NULL;

  if (!tps_lookup_server_make_table (server, table, error)
      || (tables = tps_lookup_server_connect (server, 0, error)) == NULL)
    return FALSE;
  for (gsize first = 0; first < table->n_rows; first += TPS_SERVED_ROWS_AT_ONCE)
    if (!fill_some (tables, table, first, MIN (TPS_SERVED_ROWS_AT_ONCE, table->n_rows - first),
                    error))
      return FALSE;
  return TRUE;
}

/* -- load -- */

gboolean
tps_lookup_server_load (const TpsServed *server, gpointer const *clients, guint n_clients,
                        TpsMakeCall call, gdouble seconds, TpsLookupLoad *load, GError **error)
{
  gdouble cpu_s = tps_child_get_cpu (server->child);
  gint64 start_ns = tps_clock_now_ns ();
  TpsCallers *callers = tps_callers_start (clients, n_clients, call, 0, seconds);
  g_autoptr (GArray) calls = tps_callers_stop (callers, error);

  if (calls == NULL)
    return FALSE;
  load->n_calls = calls->len;
  load->calls_per_s = calls->len / ((gdouble) (tps_clock_now_ns () - start_ns) / 1e9);
  load->calls_per_cpu_s = calls->len / (tps_child_get_cpu (server->child) - cpu_s);
  return TRUE;
}
