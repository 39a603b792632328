/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/server.h"

#include <string.h>

#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define PROGRAM "plugin/app/thriftps_server"
#define RECOVERING 1 /* phases of DurabilityInfo in Node.describe */
#define LIVE 2
#define POLL_US 1000
#define ROWS_AT_ONCE 65536 /* rows of a call that fills or reads a table */

struct TpsDurabilityServer
{
  TpsSupervisor *supervisor;
  TpsChild *child;
  TpsClient *client;
  gchar *address;
};

static gint64
get_deadline_ns (void)
{
  return tps_clock_now_ns () + TPS_DURABILITY_CALL_NS;
}

/* -- the process -- */

/* the flag that disables automatic snapshots, with the value 0 */
#define NO_SNAPSHOTS "--snapshot-log-mib"

static gchar *
find_program (const gchar *program, GError **error)
{
  return program != NULL ? g_strdup (program) : tps_bench_find_file (PROGRAM, error);
}

gboolean
tps_durability_server_probe (TpsSupervisor *supervisor, const gchar *program,
                             gboolean *writes_snapshots, GError **error)
{
  g_autofree gchar *path = find_program (program, error);
  gchar help_flag[] = "--help";
  gchar *argv[] = { path, help_flag, NULL };
  g_autoptr (TpsChild) child = path != NULL ? tps_child_start (supervisor, "server", argv, error)
                                            : NULL;
  g_autofree gchar *help = child != NULL ? tps_child_receive_all (child, error) : NULL;

  *writes_snapshots = help != NULL && strstr (help, NO_SNAPSHOTS) != NULL;
  return help != NULL;
}

static gboolean
start_process (TpsDurabilityServer *server, const TpsDurabilityServerOptions *options,
               GError **error)
{
  g_autofree gchar *path = find_program (options->program, error);
  g_autofree gchar *name = g_strdelimit (g_strdup (options->mode->name), " ", '-');
  g_autofree gchar *listen = g_strdup_printf ("--listen=unix:%s/%s.sock", options->socket_dir,
                                              name);
  g_autofree gchar *data = g_strdup_printf ("--data-dir=%s", options->data_dir);
  g_autofree gchar *mode = g_strdup_printf ("--durability=%s", options->mode->durability);
  gchar log[] = "--log-level=error", no_snapshots[] = NO_SNAPSHOTS "=0";
  gchar *argv[] = { path, listen, log, data, mode, no_snapshots, NULL };

  if (options->mode->durability == NULL)
    argv[3] = NULL;
  else if (!options->writes_snapshots)
    argv[5] = NULL;
  server->child = path != NULL ? tps_child_start (server->supervisor, "server", argv, error) : NULL;
  return server->child != NULL;
}

static gboolean
receive_address (TpsDurabilityServer *server, GError **error)
{
  static const gchar listening[] = "listening on ";
  g_autofree gchar *line = tps_child_receive (server->child, error);

  if (line == NULL)
    return FALSE;
  if (g_str_has_prefix (line, listening))
    {
      server->address = g_strdup (line + strlen (listening));
      return TRUE;
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "the server did not start: %s", line);
  return FALSE;
}

static gboolean
connect_client (TpsDurabilityServer *server, GError **error)
{
  TpsClientOptions options = { .address = server->address };

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
          || !tps_remote_describe (server->client, get_deadline_ns (), &info, error))
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
  if (!start_process (server, options, error) || !receive_address (server, error)
      || !connect_client (server, error) || !wait_until_live (server, error))
    return NULL;
  if (seconds != NULL)
    *seconds = (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
  return g_steal_pointer (&server);
}

void
tps_durability_server_kill (TpsDurabilityServer *server)
{
  g_clear_pointer (&server->client, tps_client_free);
  if (server->child != NULL)
    tps_child_kill (server->child);
  g_clear_pointer (&server->child, tps_child_free);
  g_free (server->address);
  g_free (server);
}

TpsClient *
tps_durability_server_get_client (const TpsDurabilityServer *server)
{
  return server->client;
}

TpsChild *
tps_durability_server_get_child (const TpsDurabilityServer *server)
{
  return server->child;
}

const gchar *
tps_durability_server_get_address (const TpsDurabilityServer *server)
{
  return server->address;
}

gboolean
tps_durability_server_count_log (const TpsDurabilityServer *server, gint64 *n_bytes, GError **error)
{
  g_auto (TpsNodeInfo) info = { 0 };

  if (!tps_remote_describe (server->client, get_deadline_ns (), &info, error))
    return FALSE;
  *n_bytes = info.has_durability ? info.durability.bytes : 0;
  return TRUE;
}

/* -- tables -- */

TpsTensorView
tps_durability_view_ids (const gint64 *ids, gsize n)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { (gint64) n } }, .data = ids
  };
}

TpsTensorView
tps_durability_view_rows (const gfloat *rows, gsize n, gsize dim)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2, .dims = { (gint64) n, (gint64) dim } },
    .data = rows
  };
}

TpsRemoteTables *
tps_durability_server_connect (const gchar *address, GError **error)
{
  TpsRemoteTablesOptions options = { .addresses = &address, .n_addresses = 1 };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, error);

  if (tables == NULL || !tps_remote_tables_discover (tables, get_deadline_ns (), error))
    return NULL;
  return g_steal_pointer (&tables);
}

gboolean
tps_durability_server_make_table (const TpsDurabilityServer *server,
                                  const TpsDurabilityTable *table, GError **error)
{
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, table->name, (gint64) table->n_rows, (gint32) table->dim);
  spec.initializer.kind = table->is_random ? TPS_INITIALIZER_UNIFORM : TPS_INITIALIZER_ZEROS;
  spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  return tps_remote_create_table (server->client, &spec, get_deadline_ns (), error);
}

/* Fills `ids` with first, first + step, … below n_rows, and at most ROWS_AT_ONCE ids. Returns their
 * number. */
static gsize
make_ids (gint64 *ids, const TpsDurabilityTable *table, gsize first, gsize step)
{
  gsize n = 0;

  for (gsize row = first; row < table->n_rows && n < ROWS_AT_ONCE; row += step)
    ids[n++] = (gint64) row;
  return n;
}

gboolean
tps_durability_server_push_all (const TpsDurabilityServer *server, const TpsDurabilityTable *table,
                                gsize step, GError **error)
{
  g_autoptr (TpsRemoteTables) tables = tps_durability_server_connect (server->address, error);
  g_autofree gint64 *ids = g_new (gint64, ROWS_AT_ONCE);
  g_autofree gfloat *values = g_new (gfloat, ROWS_AT_ONCE * table->dim);
  gsize n;

  if (tables == NULL)
    return FALSE;
  for (gsize i = 0; i < ROWS_AT_ONCE * table->dim; i++)
    values[i] = -1;
  for (gsize first = 0; (n = make_ids (ids, table, first, step)) > 0; first += n * step)
    {
      if (!tps_remote_tables_apply_rows_sync (tables, table->name, tps_durability_view_ids (ids, n),
                                              tps_durability_view_rows (values, n, table->dim),
                                              get_deadline_ns (), error))
        return FALSE;
      tps_supervisor_call_waiting (server->supervisor);
    }
  return TRUE;
}

gboolean
tps_durability_server_read (const TpsDurabilityServer *server, const TpsDurabilityTable *table,
                            gsize step, gdouble *sum, guint *hash, GError **error)
{
  g_autoptr (TpsRemoteTables) tables = tps_durability_server_connect (server->address, error);
  g_autofree gint64 *ids = g_new (gint64, ROWS_AT_ONCE);
  gdouble added = 0;
  guint crc = 0;
  gsize n;

  if (tables == NULL)
    return FALSE;
  for (gsize first = 0; (n = make_ids (ids, table, first, step)) > 0; first += n * step)
    {
      g_auto (TpsTensor) rows = { 0 };
      const gfloat *elements;

      if (!tps_remote_tables_lookup_rows_sync (tables, table->name,
                                               tps_durability_view_ids (ids, n), get_deadline_ns (),
                                               &rows, error))
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
