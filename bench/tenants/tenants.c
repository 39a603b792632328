/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The effect of one tenant on another: the time of the lookups of a quiet tenant. There are three
 * cases: the quiet tenant is alone; another tenant, the crowd, looks up rows at full speed on many
 * connections; or the rows of the crowd also have a limit.
 *
 * The servers are in this process. Clients on TCP belong to the crowd, and clients on the Unix
 * socket to the quiet tenant. A figure is a percentile of all lookups of all rounds. All rows are
 * checked. */

#include "bench/engine/benchmark.h"
#include "bench/served/served.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"

#define NAME "tenants"
#define TABLE "rows"
#define N_ROWS 100000
#define DIM 16
#define N_FLOOD_IDS 2000 /* rows of a lookup of the crowd */
/* For the estimate of the time. */
#define USUAL_CALL_S 0.0002

typedef struct
{
  TpsRunFlags run;
  gint64 n_ids, n_calls, limit;
  gint n_clients;
} Options;

#define FIELD(name) G_STRUCT_OFFSET (Options, name)

static const TpsFlag flags[] = {
  { "ids", G_OPTION_ARG_INT64, FIELD (n_ids), "rows of a measured lookup (20)", "N", 20, 1,
    100000 },
  { "calls", G_OPTION_ARG_INT64, FIELD (n_calls), "lookups of a round, one at a time (2000)", "N",
    2000, 1, 1000000 },
  { "clients", G_OPTION_ARG_INT, FIELD (n_clients), "connections of the other tenant (32)", "N", 32,
    1, 500 },
  { "limit", G_OPTION_ARG_INT64, FIELD (limit),
    "limit on its rows per second, in the run with a limit (200000)", "N", 200000, 1, 1e9 },
  { NULL },
};

static const TpsCommandLine command_line = {
  NAME,
  "Measures the effect of one tenant on another: the time of a tenant's lookups alone, during a "
  "flood of\nthe other's lookups, and during a flood with a limit.",
  { { flags, 0 }, { tps_run_flags, FIELD (run) } },
};

/* A server. The first of two servers has no limits; the second limits the crowd. */
typedef struct
{
  TpsAccess *access;
  TpsPlugin *plugin;
  TpsServer *server;
} Server;

typedef enum
{
  ALONE = 0,
  BESIDE_A_FLOOD = 1,
  BESIDE_A_LIMITED_FLOOD = 2,
  N_CASES = 3,
} Case;

static const gchar *const case_names[N_CASES] = { "alone", "beside a flood",
                                                  "beside a flood with a limit" };

typedef struct
{
  const Options *options;
  TpsFigures *figures;
  gchar *folder; /* borrowed */
  Server servers[2];
} Bench;

static const TpsQuantity lookup_ms = { "", "ms" }, flood_calls = { "", "calls/s" };

/* ---- servers --------------------------------------------------------------------------------- */

static gboolean
write_rules (const gchar *path, gint64 rows_per_s, GError **error)
{
  g_autofree gchar *limits = rows_per_s > 0 ? g_strdup_printf ("{ \"crowd\": { \"rows_per_s\": "
                                                               "%" G_GINT64_FORMAT " } }",
                                                               rows_per_s)
                                            : g_strdup ("{}");
  g_autofree gchar *text = g_strdup_printf (
      "{ \"rules\": [\n"
      "  { \"principals\": [\"anonymous\"], \"rights\": [\"read\", \"push\"], "
      "\"tables\": [\"*\"], \"tenant\": \"crowd\" },\n"
      "  { \"principals\": [\"uid:*\"], \"rights\": [\"read\", \"push\", \"admin\"], "
      "\"tables\": [\"*\"], \"tenant\": \"quiet\" } ],\n"
      "  \"tenants\": %s }\n",
      limits);

  return g_file_set_contents (path, text, -1, error);
}

static gboolean
start_server (Bench *bench, guint which, GError **error)
{
  Server *server = &bench->servers[which];
  g_autofree gchar *rules = g_strdup_printf ("%s/rules-%u.json", bench->folder, which);
  g_autofree gchar *address = g_strdup_printf ("unix:%s/server-%u.sock", bench->folder, which);
  TpsAccessOptions access = { .rules_file = rules };
  TpsPluginOptions options = { .n_trainers = 1 };

  if (!write_rules (rules, which == 0 ? 0 : bench->options->limit, error))
    return FALSE;
  server->access = tps_access_new (&access, error);
  if (server->access == NULL)
    return FALSE;
  options.access = server->access;
  server->plugin = tps_plugin_new (&options, error);
  if (server->plugin == NULL)
    return FALSE;
  server->server = tps_plugin_new_server (server->plugin, NULL);
  return tps_server_listen (server->server, address, error)
         && tps_server_listen (server->server, "127.0.0.1:0", error)
         && tps_server_start (server->server, error);
}

static void
stop_server (Server *server)
{
  if (server->server != NULL)
    tps_server_stop (server->server);
  g_clear_object (&server->server);
  g_clear_pointer (&server->plugin, tps_plugin_free);
  g_clear_pointer (&server->access, tps_access_unref);
}

/* ---- clients --------------------------------------------------------------------------------- */

static TpsRemoteTables *
connect_to (const Server *server, gboolean is_quiet, GError **error)
{
  return tps_served_connect (tps_server_get_addresses (server->server)[is_quiet ? 0 : 1], NULL,
                             NULL, error);
}

static gboolean
make_table (const Server *server, GError **error)
{
  g_autoptr (TpsRemoteTables) tables = connect_to (server, TRUE, error);
  TpsTablePlacement placement = { .kind = TPS_SHARD_WHOLE };
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, TABLE, N_ROWS, DIM);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  return tables != NULL
         && tps_remote_tables_create_spec (tables, &spec, &placement, tps_served_get_deadline (),
                                           error);
}

static gboolean
check_rows (const TpsTensor *rows, gint64 n_ids, GError **error)
{
  const gfloat *values = tps_tensor_data (rows);

  for (gsize i = 0; i < (gsize) n_ids * DIM; i++)
    if (values[i] != 0)
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "a wrong value at %" G_GSIZE_FORMAT, i);
        return FALSE;
      }
  return TRUE;
}

/* A client of either tenant. */
typedef struct
{
  TpsRemoteTables *tables;
  GRand *dice;
  gint64 n_ids;
  gint64 *ids; /* [n_ids] */
} Client;

static void
client_free (gpointer data)
{
  Client *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  g_rand_free (client->dice);
  g_free (client->ids);
  g_free (client);
}

/* Connects a client and adds it to `clients`. */
static gboolean
add_client (GPtrArray *clients, const Server *server, gboolean is_quiet, gint64 n_ids,
            GError **error)
{
  Client *client = g_new0 (Client, 1);

  g_ptr_array_add (clients, client);
  client->dice = g_rand_new_with_seed (clients->len);
  client->n_ids = n_ids;
  client->ids = g_new (gint64, n_ids);
  client->tables = connect_to (server, is_quiet, error);
  return client->tables != NULL;
}

static gboolean
look_up (gpointer data, GError **error)
{
  Client *client = data;
  g_auto (TpsTensor) rows = { 0 };

  for (gint64 i = 0; i < client->n_ids; i++)
    client->ids[i] = g_rand_int_range (client->dice, 0, N_ROWS);
  return tps_remote_tables_lookup_rows_sync (client->tables, TABLE,
                                             tps_view_ids (client->ids, (gsize) client->n_ids),
                                             tps_served_get_deadline (), &rows, error)
         && check_rows (&rows, client->n_ids, error);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

/* Measures the lookups of the quiet tenant, the first of the clients, while the other clients,
 * those of the crowd, make calls. */
static gboolean
measure (const Bench *bench, const GPtrArray *clients, GArray **ms, gdouble *calls_per_s,
         GError **error)
{
  TpsCallers *crowd = tps_callers_start (clients->pdata + 1, clients->len - 1, look_up, 0, 0);
  TpsCallers *quiet = tps_callers_start (clients->pdata, 1, look_up, bench->options->n_calls, 0);
  g_autoptr (GArray) measured = tps_callers_stop (quiet, error);
  g_autoptr (GArray) flood = tps_callers_stop (crowd, measured != NULL ? error : NULL);

  if (measured == NULL || flood == NULL)
    return FALSE;
  *ms = tps_calls_get_ms (measured);
  *calls_per_s = flood->len / tps_calls_get_span (flood);
  return TRUE;
}

static gboolean
run_case (gpointer data, gpointer system, G_GNUC_UNUSED gpointer row, gboolean is_warm_up,
          GError **error)
{
  Bench *bench = data;
  Case which = (Case) GPOINTER_TO_UINT (system);
  const Server *server = &bench->servers[which == BESIDE_A_LIMITED_FLOOD ? 1 : 0];
  guint n = which == ALONE ? 0 : (guint) bench->options->n_clients;
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (client_free);
  g_autoptr (GArray) ms = NULL;
  gdouble calls_per_s;

  for (guint i = 0; i <= n; i++)
    if (!add_client (clients, server, i == 0, i == 0 ? bench->options->n_ids : N_FLOOD_IDS, error))
      return FALSE;
  if (!measure (bench, clients, &ms, &calls_per_s, error))
    return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add_all (bench->figures, "lookup", case_names[which], &lookup_ms, ms);
  if (which != ALONE)
    tps_figures_add (bench->figures, "the flood", case_names[which], &flood_calls, calls_per_s);
  return TRUE;
}

/* ---- the benchmark --------------------------------------------------------------------------- */

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  Bench *bench = user_data;

  bench->figures = run->figures;
  bench->folder = (gchar *) (gsize) tps_benchmark_get_folder (run, error);
  if (bench->folder == NULL)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (bench->servers); i++)
    if (!start_server (bench, i, error) || !make_table (&bench->servers[i], error))
      return FALSE;
  tps_engine_begin_row (run->engine);
  for (guint i = 0; i < N_CASES; i++)
    {
      gdouble seconds = (gdouble) bench->options->n_calls * USUAL_CALL_S * (i == ALONE ? 1 : 5);
      TpsTask task = {
        .run = run_case, .bench = bench, .system = GUINT_TO_POINTER (i), .measured_s = seconds
      };

      tps_engine_add (run->engine, &task, "%s", case_names[i]);
    }
  return TRUE;
}

static void
stop (gpointer user_data)
{
  Bench *bench = user_data;

  for (guint i = 0; i < G_N_ELEMENTS (bench->servers); i++)
    stop_server (&bench->servers[i]);
}

static const TpsFigureColumn columns[] = {
  { "p50", "", NULL, 50 },
  { "p99", "", NULL, 99 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = { .columns = columns, .has_units = TRUE };

static gboolean
parse (Options *o, gint argc, gchar **argv, GError **error)
{
  if (!tps_command_line_parse (&command_line, o, argc, argv, NULL, error))
    return FALSE;
  tps_flags_default_number (&o->run.repeats, o->run.smoke ? 1 : 5);
  if (o->run.smoke)
    {
      o->n_calls = MIN (o->n_calls, 50);
      o->n_clients = MIN (o->n_clients, 4);
    }
  return TRUE;
}

gint
main (gint argc, gchar **argv)
{
  static const TpsBenchmark benchmark = {
    .command_line = &command_line,
    .prepare = prepare,
    .stop = stop,
    .style = &style,
  };
  g_autoptr (GError) error = NULL;
  Options options;
  Bench bench = { .options = &options };
  gint status;

  tps_benchmark_init ();
  status = parse (&options, argc, argv, &error)
               ? tps_benchmark_run (&benchmark, &options.run, &bench)
               : tps_benchmark_refuse (NAME, error);
  tps_command_line_clear (&command_line, &options);
  return status;
}
