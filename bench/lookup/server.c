/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/server.h"

#include <string.h>

#include "bench/lookup/bags.h"
#include "bench/process/child.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define PROGRAM "plugin/app/thriftps_server"

struct TpsLookupServer
{
  TpsChild *child;
  gchar *addresses[TPS_LOOKUP_N_TRANSPORTS];
};

const gchar *
tps_lookup_transport_name (guint transport)
{
  static const gchar *const names[TPS_LOOKUP_N_TRANSPORTS] = { "unix", "tcp" };

  return names[transport];
}

/* -- the process -- */

static gboolean
receive_address (TpsLookupServer *server, guint transport, GError **error)
{
  static const gchar listening[] = "listening on ";
  g_autofree gchar *line = tps_child_receive (server->child, error);

  if (line == NULL)
    return FALSE;
  if (g_str_has_prefix (line, listening))
    {
      server->addresses[transport] = g_strdup (line + strlen (listening));
      return TRUE;
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "the server did not start: %s", line);
  return FALSE;
}

static gboolean
start (TpsLookupServer *server, TpsSupervisor *supervisor, const gchar *program,
       const gchar *socket_dir, const gchar *table_device, GError **error)
{
  g_autofree gchar *path = program != NULL ? g_strdup (program)
                                           : tps_bench_find_file (PROGRAM, error);
  g_autofree gchar *unix_flag = g_strdup_printf ("--listen=unix:%s/lookup.sock", socket_dir);
  gchar tcp_flag[] = "--listen=127.0.0.1:0", log_flag[] = "--log-level=error";
  g_autofree gchar *device_flag = table_device != NULL
                                      ? g_strdup_printf ("--table-device=%s", table_device)
                                      : NULL;
  gchar *argv[] = { path, unix_flag, tcp_flag, log_flag, device_flag, NULL };

  server->child = path != NULL ? tps_child_start (supervisor, "server", argv, error) : NULL;
  if (server->child == NULL)
    return FALSE;
  for (guint i = 0; i < TPS_LOOKUP_N_TRANSPORTS; i++)
    if (!receive_address (server, i, error))
      return FALSE;
  return TRUE;
}

TpsLookupServer *
tps_lookup_server_start (TpsSupervisor *supervisor, const gchar *program, const gchar *socket_dir,
                         const gchar *table_device, GError **error)
{
  g_autoptr (TpsLookupServer) server = g_new0 (TpsLookupServer, 1);

  if (!start (server, supervisor, program, socket_dir, table_device, error))
    return NULL;
  return g_steal_pointer (&server);
}

void
tps_lookup_server_free (TpsLookupServer *server)
{
  g_clear_pointer (&server->child, tps_child_free);
  for (guint i = 0; i < TPS_LOOKUP_N_TRANSPORTS; i++)
    g_free (server->addresses[i]);
  g_free (server);
}

/* -- clients -- */

TpsRemoteTables *
tps_lookup_server_connect (const TpsLookupServer *server, guint transport, TpsDevice *lookup_device,
                           GError **error)
{
  const gchar *address = server->addresses[transport];
  TpsRemoteTablesOptions options = { .addresses = &address,
                                     .n_addresses = 1,
                                     .lookup_device = lookup_device };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, error);

  if (tables == NULL
      || !tps_remote_tables_discover (tables, tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, error))
    return NULL;
  return g_steal_pointer (&tables);
}

TpsClient *
tps_lookup_server_connect_client (const TpsLookupServer *server, guint transport, GError **error)
{
  TpsClientOptions options = { .address = server->addresses[transport] };

  return tps_client_new (&options, error);
}

gboolean
tps_lookup_server_make_table (const TpsLookupServer *server, const TpsLookupTable *table,
                              GError **error)
{
  TpsTablePlacement placement = { .kind = TPS_SHARD_WHOLE };
  g_autoptr (TpsRemoteTables) tables = tps_lookup_server_connect (server, 0, NULL, error);
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, table->name, (gint64) table->n_rows, (gint32) table->dim);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  spec.optimizer = table->optimizer != NULL ? *table->optimizer
                                            : tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  spec.place = *table->place;
  if (table->dtype != 0)
    spec.dtype = table->dtype;
  return tables != NULL
         && tps_remote_tables_create (tables, &spec, &placement,
                                      tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, error);
}

/* Sets the values by one step of SGD with the learning rate 1, from 0. The gradient is the negated
 * values. */
static gboolean
fill_some (TpsRemoteTables *tables, const TpsLookupTable *table, gsize first, gsize n,
           GError **error)
{
  g_autofree gint64 *ids = g_new (gint64, n);
  g_autofree gfloat *values = g_new (gfloat, n * table->dim);

  for (gsize i = 0; i < n; i++)
    ids[i] = (gint64) (first + i);
  tps_lookup_fill_rows (values, first, n, table->dim, -1);
  return tps_remote_tables_apply_rows_sync (tables, table->name, tps_lookup_view_ids (ids, n),
                                            tps_lookup_view_rows (values, n, table->dim),
                                            tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, error);
}

gboolean
tps_lookup_server_make_filled_table (const TpsLookupServer *server, const TpsLookupTable *table,
                                     GError **error)
{
  g_autoptr (TpsRemoteTables) tables = NULL;

  if (!tps_lookup_server_make_table (server, table, error)
      || (tables = tps_lookup_server_connect (server, 0, NULL, error)) == NULL)
    return FALSE;
  for (gsize first = 0; first < table->n_rows; first += TPS_LOOKUP_ROWS_AT_ONCE)
    if (!fill_some (tables, table, first, MIN (TPS_LOOKUP_ROWS_AT_ONCE, table->n_rows - first),
                    error))
      return FALSE;
  return TRUE;
}

TpsTensorView
tps_lookup_view_ids (const gint64 *ids, gsize n)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { (gint64) n } }, .data = ids
  };
}

TpsTensorView
tps_lookup_view_rows (const gfloat *rows, gsize n, gsize dim)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2, .dims = { (gint64) n, (gint64) dim } },
    .data = rows
  };
}

/* -- load -- */

typedef struct
{
  gpointer client;
  TpsLookupCall call;
  gint64 end_ns;
  gint64 n_calls;
  GError *error;
  TpsThread thread;
} Caller;

static gpointer
call_until_the_end (gpointer data)
{
  Caller *caller = data;

  do
    if (caller->call (caller->client, &caller->error))
      caller->n_calls++;
  while (caller->error == NULL && tps_clock_now_ns () < caller->end_ns);
  return NULL;
}

/* Waits for all threads and counts their calls. Returns FALSE with the first error. */
static gboolean
join (Caller *callers, guint n, gint64 *n_calls, GError **error)
{
  gboolean ok = TRUE;

  *n_calls = 0;
  for (guint i = 0; i < n; i++)
    {
      tps_sync_check (pthread_join (callers[i].thread, NULL));
      *n_calls += callers[i].n_calls;
      if (callers[i].error != NULL && ok)
        {
          g_propagate_error (error, g_steal_pointer (&callers[i].error));
          ok = FALSE;
        }
      g_clear_error (&callers[i].error);
    }
  return ok;
}

gboolean
tps_lookup_server_load (const TpsLookupServer *server, gpointer const *clients, guint n_clients,
                        TpsLookupCall call, gdouble seconds, TpsLookupLoad *load, GError **error)
{
  g_autofree Caller *callers = g_new0 (Caller, n_clients);
  gdouble cpu_s = tps_child_get_cpu (server->child);
  gint64 start_ns = tps_clock_now_ns ();
  gboolean ok;

  for (guint i = 0; i < n_clients; i++)
    {
      callers[i] = (Caller) { .client = clients[i],
                              .call = call,
                              .end_ns = start_ns + (gint64) (seconds * 1e9) };
      tps_sync_check (pthread_create (&callers[i].thread, NULL, call_until_the_end, &callers[i]));
    }
  ok = join (callers, n_clients, &load->n_calls, error);
  load->calls_per_s = (gdouble) load->n_calls / ((gdouble) (tps_clock_now_ns () - start_ns) / 1e9);
  load->calls_per_cpu_s = (gdouble) load->n_calls / (tps_child_get_cpu (server->child) - cpu_s);
  return ok;
}
