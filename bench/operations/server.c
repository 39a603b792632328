/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/operations/server.h"

#include "bench/process/runfiles.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define PROGRAM "plugin/app/thriftps_server"
#define DIM 16
/* the timeout of every call, which no call reaches */
#define CALL_NS G_GINT64_CONSTANT (60000000000)
#define LISTENING "listening on "
#define CLIENT "bench"

/* No client reaches these limits, but calls are charged to them. */
static const gchar rules_text[] =
    "{ \"rules\": [\n"
    "  { \"principals\": [\"token:" CLIENT "\"], \"rights\": [\"read\", \"push\", \"admin\"],\n"
    "    \"tables\": [\"*\"], \"tenant\": \"" CLIENT "\" } ],\n"
    "  \"tenants\": { \"" CLIENT "\": { \"calls_per_s\": 1000000000, \"rows_per_s\": 1000000000,\n"
    "    \"bytes_in_per_s\": 1000000000000, \"bytes_out_per_s\": 1000000000000,\n"
    "    \"calls_in_flight\": 100000 } } }\n";

struct TpsOperationsServer
{
  TpsChild *child;
  gchar *address;
  gchar *http;
  gchar *token;
};

/* ---- the process ---------------------------------------------------------------------------- */

/* Obtains a token from the program, and the line of the token file with its hash. */
static gboolean
make_token (TpsOperationsServer *server, TpsSupervisor *supervisor, gchar *program, gchar **line,
            GError **error)
{
  gchar make_flag[] = "--make-token=" CLIENT;
  gchar *argv[] = { program, make_flag, NULL };
  g_autoptr (TpsChild) child = tps_child_start (supervisor, "token", argv, error);
  g_autofree gchar *text = child != NULL ? tps_child_receive_all (child, error) : NULL;
  g_auto (GStrv) lines = text != NULL ? g_strsplit (text, "\n", 2) : NULL;

  if (lines == NULL)
    return FALSE;
  server->token = g_strdup (lines[0]);
  *line = g_strdup (lines[1]);
  return TRUE;
}

static gboolean
add_everything (TpsOperationsServer *server, TpsSupervisor *supervisor,
                const TpsOperationsServerOptions *options, GPtrArray *argv, GError **error)
{
  g_autofree gchar *line = NULL;
  g_autofree gchar *rules = g_strdup_printf ("%s/%s.rules", options->folder, options->name);
  g_autofree gchar *tokens = g_strdup_printf ("%s/%s.tokens", options->folder, options->name);
  gchar sampling[G_ASCII_DTOSTR_BUF_SIZE];

  if (!make_token (server, supervisor, argv->pdata[0], &line, error)
      || !g_file_set_contents (rules, rules_text, -1, error)
      || !g_file_set_contents (tokens, line, -1, error))
    return FALSE;
  g_ptr_array_add (argv, g_strconcat ("--access-file=", rules, NULL));
  g_ptr_array_add (argv, g_strconcat ("--token-file=", tokens, NULL));
  g_ptr_array_add (argv, g_strdup ("--http=127.0.0.1:0"));
  g_ptr_array_add (argv, g_strconcat ("--otlp=", options->collector, NULL));
  g_ptr_array_add (argv, g_strconcat ("--trace-sampling=",
                                      g_ascii_dtostr (sampling, sizeof sampling, options->sampling),
                                      NULL));
  return TRUE;
}

static gboolean
start_process (TpsOperationsServer *server, TpsSupervisor *supervisor,
               const TpsOperationsServerOptions *options, GError **error)
{
  g_autoptr (GPtrArray) argv = g_ptr_array_new_with_free_func (g_free);
  gchar *path = tps_bench_find_file (PROGRAM, error);

  if (path == NULL)
    return FALSE;
  g_ptr_array_add (argv, path);
  g_ptr_array_add (argv, g_strconcat ("--listen=", server->address, NULL));
  g_ptr_array_add (argv, g_strdup ("--log-level=error"));
  g_ptr_array_add (argv, g_strdup_printf ("--io-threads=%d", options->n_io_threads));
  if (options->collector != NULL && !add_everything (server, supervisor, options, argv, error))
    return FALSE;
  g_ptr_array_add (argv, NULL);
  server->child = tps_child_start (supervisor, options->name, (gchar **) argv->pdata, error);
  return server->child != NULL;
}

/* Receives a line for the socket and, with HTTP, a line for HTTP. */
static gboolean
receive_addresses (TpsOperationsServer *server, gboolean has_http, GError **error)
{
  g_autofree gchar *socket = tps_child_receive (server->child, error);
  g_autofree gchar *http = socket != NULL && has_http ? tps_child_receive (server->child, error)
                                                      : NULL;

  if (socket == NULL || (has_http && http == NULL))
    return FALSE;
  if (!has_http)
    return TRUE;
  if (!g_str_has_prefix (http, LISTENING))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED, "unexpected output of thriftps_server: %s",
                   http);
      return FALSE;
    }
  server->http = g_strdup (http + sizeof LISTENING - 1);
  return TRUE;
}

TpsOperationsServer *
tps_operations_server_start (TpsSupervisor *supervisor, const TpsOperationsServerOptions *options,
                             GError **error)
{
  g_autoptr (TpsOperationsServer) server = g_new0 (TpsOperationsServer, 1);

  server->address = g_strdup_printf ("unix:%s/%s.sock", options->folder, options->name);
  if (!start_process (server, supervisor, options, error)
      || !receive_addresses (server, options->collector != NULL, error))
    return NULL;
  return g_steal_pointer (&server);
}

void
tps_operations_server_free (TpsOperationsServer *server)
{
  g_clear_pointer (&server->child, tps_child_free);
  g_free (server->address);
  g_free (server->http);
  g_free (server->token);
  g_free (server);
}

gdouble
tps_operations_server_get_cpu (const TpsOperationsServer *server)
{
  return tps_child_get_cpu (server->child);
}

const gchar *
tps_operations_server_get_http (const TpsOperationsServer *server)
{
  return server->http;
}

const gchar *
tps_operations_server_get_token (const TpsOperationsServer *server)
{
  return server->token;
}

/* ---- tables --------------------------------------------------------------------------------- */

static TpsRemoteTables *
make_client (const TpsOperationsServer *server, GError **error)
{
  const gchar *address = server->address;
  TpsRemoteTablesOptions options = { .addresses = &address,
                                     .n_addresses = 1,
                                     .token = server->token };

  return tps_remote_tables_new (&options, error);
}

TpsRemoteTables *
tps_operations_server_connect (const TpsOperationsServer *server, GError **error)
{
  g_autoptr (TpsRemoteTables) tables = make_client (server, error);

  if (tables == NULL || !tps_remote_tables_discover (tables, tps_clock_now_ns () + CALL_NS, error))
    return NULL;
  return g_steal_pointer (&tables);
}

static gboolean
check_row (const TpsTensor *row, GError **error)
{
  const gfloat *values = tps_tensor_data (row);

  for (gsize i = 0; i < DIM; i++)
    if (values[i] != 0)
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "column %" G_GSIZE_FORMAT " is not 0",
                     i);
        return FALSE;
      }
  return TRUE;
}

static gboolean
look_up (TpsRemoteTables *tables, const gchar *table, gint64 id, GError **error)
{
  TpsTensorView view = { { TPS_DTYPE_INT64, 1, { 1 } }, &id };
  g_auto (TpsTensor) row = { 0 };

  return tps_remote_tables_lookup_rows_sync (tables, table, view, tps_clock_now_ns () + CALL_NS,
                                             &row, error)
         && check_row (&row, error);
}

gboolean
tps_operations_look_up (TpsRemoteTables *tables, gint64 id, GError **error)
{
  return look_up (tables, "table0", id, error);
}

static gboolean
make_table (TpsRemoteTables *tables, guint i, GError **error)
{
  TpsTablePlacement placement = { .kind = TPS_SHARD_WHOLE };
  g_autofree gchar *name = g_strdup_printf ("table%u", i);
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, name, i == 0 ? TPS_OPERATIONS_ROWS : 1, DIM);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  return tps_remote_tables_create (tables, &spec, &placement, tps_clock_now_ns () + CALL_NS, error)
         && look_up (tables, name, 0, error);
}

gboolean
tps_operations_server_make_tables (const TpsOperationsServer *server, guint n, GError **error)
{
  g_autoptr (TpsRemoteTables) tables = make_client (server, error);

  for (guint i = 0; tables != NULL && i < n; i++)
    if (!make_table (tables, i, error))
      return FALSE;
  return tables != NULL;
}
