/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/server.h"

#include <string.h>

#include "bench/process/interrupt.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define RECOVERING 1 /* phases of DurabilityInfo in Node.describe */
#define LIVE 2
#define POLL_US 1000
/* the flag that disables automatic snapshots, with the value 0 */
#define NO_SNAPSHOTS "--snapshot-log-mib"

/* -- the process -- */

gboolean
tps_durability_server_probe (TpsSupervisor *supervisor, const gchar *program,
                             gboolean *writes_snapshots, GError **error)
{
  g_autofree gchar *path = tps_served_find (program, error);
  gchar help_flag[] = "--help";
  gchar *argv[] = { path, help_flag, NULL };
  g_autoptr (TpsChild) child = path != NULL ? tps_child_start (supervisor, "server", argv, error)
                                            : NULL;
  g_autofree gchar *help = child != NULL ? tps_child_receive_all (child, error) : NULL;

  *writes_snapshots = help != NULL && strstr (help, NO_SNAPSHOTS) != NULL;
  return help != NULL;
}

static TpsServed *
start_process (TpsSupervisor *supervisor, const TpsDurabilityServerOptions *options, GError **error)
{
  g_autofree gchar *name = g_strdelimit (g_strdup (options->mode->name), " ", '-');
  g_autofree gchar *data = g_strdup_printf ("--data-dir=%s\n--durability=%s\n%s", options->data_dir,
                                            options->mode->durability,
                                            options->writes_snapshots ? NO_SNAPSHOTS "=0" : "");
  g_autofree gchar *flags = g_strdup_printf ("--listen=unix:%s/%s.sock\n%s", options->socket_dir,
                                             name, options->mode->durability != NULL ? data : "");

  return tps_served_start (supervisor, "server", options->program, flags, 1, error);
}

static gboolean
connect_client (TpsDurabilityServer *server, GError **error)
{
  TpsClientOptions options = { .address = server->served->addresses[0] };

  server->client = tps_client_new (&options, error);
  return server->client != NULL;
}

/* Waits until the recovery has ended. A server without a data directory reports no phases. */
static gboolean
wait_until_live (TpsDurabilityServer *server, GError **error)
{
  for (;;)
    {
      g_auto (TpsNodeInfo) info = { 0 };

      if (!tps_supervisor_check (server->supervisor, error) || !tps_interrupt_check (error)
          || !tps_remote_describe (server->client, tps_served_get_deadline (), &info, error))
        return FALSE;
      if (!info.has_durability || info.durability.phase == LIVE)
        return TRUE;
      if (info.durability.phase != RECOVERING)
        {
          g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                       "the server does not recover: it is in phase %d", info.durability.phase);
          return FALSE;
        }
      tps_supervisor_call_waiting (server->supervisor);
      g_usleep (POLL_US);
    }
}

TpsDurabilityServer *
tps_durability_server_start (TpsSupervisor *supervisor, const TpsDurabilityServerOptions *options,
                             gdouble *seconds, GError **error)
{
  g_autoptr (TpsDurabilityServer) server = g_new0 (TpsDurabilityServer, 1);
  gint64 start_ns = tps_clock_now_ns ();

  server->supervisor = supervisor;
  server->served = start_process (supervisor, options, error);
  if (server->served == NULL || !connect_client (server, error) || !wait_until_live (server, error))
    return NULL;
  if (seconds != NULL)
    *seconds = (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
  return g_steal_pointer (&server);
}

void
tps_durability_server_kill (TpsDurabilityServer *server)
{
  g_clear_pointer (&server->client, tps_client_free);
  g_clear_pointer (&server->served, tps_served_kill);
  g_free (server);
}

gboolean
tps_durability_server_count_log (const TpsDurabilityServer *server, gint64 *n_bytes, GError **error)
{
  g_auto (TpsNodeInfo) info = { 0 };

  if (!tps_remote_describe (server->client, tps_served_get_deadline (), &info, error))
    return FALSE;
  *n_bytes = info.has_durability ? info.durability.bytes : 0;
  return TRUE;
}

/* -- tables -- */

gboolean
tps_durability_server_make_table (const TpsDurabilityServer *server,
                                  const TpsDurabilityTable *table, GError **error)
{
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, table->name, (gint64) table->n_rows, (gint32) table->dim);
  spec.initializer.kind = table->is_random ? TPS_INITIALIZER_UNIFORM : TPS_INITIALIZER_ZEROS;
  spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  return tps_remote_create_table (server->client, &spec, tps_served_get_deadline (), error);
}

/* Fills `ids` with TPS_SERVED_ROWS_AT_ONCE or fewer of first, first + step, … Returns how many. */
static gsize
make_ids (gint64 *ids, const TpsDurabilityTable *table, gsize first, gsize step)
{
  gsize n = 0;

  for (gsize row = first; row < table->n_rows && n < TPS_SERVED_ROWS_AT_ONCE; row += step)
    ids[n++] = (gint64) row;
  return n;
}

gboolean
tps_durability_server_push_all (const TpsDurabilityServer *server, const TpsDurabilityTable *table,
                                gsize step, GError **error)
{
  g_autoptr (TpsRemoteTables)
      tables = tps_served_connect (server->served->addresses[0], NULL, NULL, error);
  g_autofree gint64 *ids = g_new (gint64, TPS_SERVED_ROWS_AT_ONCE);
  g_autofree gfloat *values = g_new (gfloat, TPS_SERVED_ROWS_AT_ONCE * table->dim);
  gsize n;

  if (tables == NULL)
    return FALSE;
  for (gsize i = 0; i < TPS_SERVED_ROWS_AT_ONCE * table->dim; i++)
    values[i] = -1;
  for (gsize first = 0; (n = make_ids (ids, table, first, step)) > 0; first += n * step)
    {
      if (!tps_remote_tables_apply_rows_sync (tables, table->name, tps_view_ids (ids, n),
                                              tps_view_rows (values, n, table->dim),
                                              tps_served_get_deadline (), error))
        return FALSE;
      tps_supervisor_call_waiting (server->supervisor);
    }
  return TRUE;
}

gboolean
tps_durability_server_read (const TpsDurabilityServer *server, const TpsDurabilityTable *table,
                            gsize step, gdouble *sum, guint *hash, GError **error)
{
  g_autoptr (TpsRemoteTables)
      tables = tps_served_connect (server->served->addresses[0], NULL, NULL, error);
  g_autofree gint64 *ids = g_new (gint64, TPS_SERVED_ROWS_AT_ONCE);
  gdouble added = 0;
  guint crc = 0;
  gsize n;

  if (tables == NULL)
    return FALSE;
  for (gsize first = 0; (n = make_ids (ids, table, first, step)) > 0; first += n * step)
    {
      g_auto (TpsTensor) rows = { 0 };
      const gfloat *elements;

      if (!tps_remote_tables_lookup_rows_sync (tables, table->name, tps_view_ids (ids, n),
                                               tps_served_get_deadline (), &rows, error))
        return FALSE;
      elements = tps_tensor_data (&rows);
      for (gsize i = 0; i < n * table->dim; i++)
        added += (gdouble) elements[i];
      crc = tps_crc32c (crc, elements, n * table->dim * sizeof elements[0]);
    }
  if (sum != NULL)
    *sum = added;
  if (hash != NULL)
    *hash = crc;
  return TRUE;
}
