/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The effect of one tenant on another: the time of the lookups of a quiet tenant. There are three
 * cases: the quiet tenant is alone; another tenant, the crowd, looks up rows at full speed on many
 * connections; or the rows of the crowd also have a limit.
 *
 * The servers are in this process. Clients on TCP belong to the crowd, and clients on the Unix
 * socket to the quiet tenant. A figure is a percentile of all lookups of all rounds. Every received
 * row is checked. */

#include <stdatomic.h>
#include <string.h>

#include "bench/engine/benchmark.h"
#include "plugin/client/remote_tables.h"
#include "plugin/plugin.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define NAME "tenants"
#define TABLE "rows"
#define N_ROWS 100000
#define DIM 16
#define N_FLOOD_IDS 2000 /* rows of a lookup of the crowd */
/* the timeout of every call, which no call reaches */
#define CALL_NS G_GINT64_CONSTANT (60000000000)
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
  TpsPluginOptions options = { .parameter_server = { .n_trainers = 1 } };

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
  const gchar *address = tps_server_get_addresses (server->server)[is_quiet ? 0 : 1];
  TpsRemoteTablesOptions options = { .addresses = &address, .n_addresses = 1 };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, error);

  if (tables == NULL || !tps_remote_tables_discover (tables, tps_clock_now_ns () + CALL_NS, error))
    return NULL;
  return g_steal_pointer (&tables);
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
         && tps_remote_tables_create (tables, &spec, &placement, tps_clock_now_ns () + CALL_NS,
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

static gboolean
look_up (TpsRemoteTables *tables, GRand *dice, gint64 *ids, gint64 n_ids, GError **error)
{
  TpsTensorView view = { { TPS_DTYPE_INT64, 1, { n_ids } }, ids };
  g_auto (TpsTensor) rows = { 0 };

  for (gint64 i = 0; i < n_ids; i++)
    ids[i] = g_rand_int_range (dice, 0, N_ROWS);
  return tps_remote_tables_lookup_rows_sync (tables, TABLE, view, tps_clock_now_ns () + CALL_NS,
                                             &rows, error)
         && check_rows (&rows, n_ids, error);
}

/* ---- the flood ------------------------------------------------------------------------------- */

typedef struct
{
  TpsRemoteTables *tables;
  gint64 n_ids;
  guint seed;
  atomic_bool *is_over;
  gint64 n_calls;
  GError *error;
  TpsThread thread;
} Crowd;

static gpointer
call_until_the_end (gpointer data)
{
  Crowd *crowd = data;
  g_autoptr (GRand) dice = g_rand_new_with_seed (crowd->seed);
  g_autofree gint64 *ids = g_new (gint64, crowd->n_ids);

  while (!atomic_load (crowd->is_over) && crowd->error == NULL)
    if (look_up (crowd->tables, dice, ids, crowd->n_ids, &crowd->error))
      crowd->n_calls++;
  return NULL;
}

/* Connects all clients of the crowd. After an error, the caller must free the connected clients. */
static gboolean
start_crowd (const Server *server, Crowd *crowd, guint n, GError **error)
{
  for (guint i = 0; i < n; i++)
    {
      crowd[i].tables = connect_to (server, FALSE, error);
      if (crowd[i].tables == NULL)
        return FALSE;
    }
  return TRUE;
}

/* Waits for all threads of the crowd and counts their calls. Returns FALSE with the first error. */
static gboolean
join_crowd (Crowd *crowd, guint n, gint64 *n_calls, GError **error)
{
  gboolean ok = TRUE;

  *n_calls = 0;
  for (guint i = 0; i < n; i++)
    {
      tps_sync_check (pthread_join (crowd[i].thread, NULL));
      *n_calls += crowd[i].n_calls;
      if (crowd[i].error == NULL)
        continue;
      if (ok)
        g_propagate_error (error, g_steal_pointer (&crowd[i].error));
      g_clear_error (&crowd[i].error);
      ok = FALSE;
    }
  return ok;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static gboolean
measure (const Bench *bench, const Server *server, GArray *ms, GError **error)
{
  gint64 n_ids = bench->options->n_ids;
  g_autoptr (TpsRemoteTables) tables = connect_to (server, TRUE, error);
  g_autoptr (GRand) dice = g_rand_new_with_seed (1);
  g_autofree gint64 *ids = g_new (gint64, n_ids);

  if (tables == NULL)
    return FALSE;
  for (gint64 i = 0; i < bench->options->n_calls; i++)
    {
      gint64 start_ns = tps_clock_now_ns ();
      gdouble took_ms;

      if (!look_up (tables, dice, ids, n_ids, error))
        return FALSE;
      took_ms = (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;
      g_array_append_val (ms, took_ms);
    }
  return TRUE;
}

/* Measures the lookups of the quiet tenant while `n` connections of the crowd make calls. */
static gboolean
measure_beside (const Bench *bench, const Server *server, Crowd *crowd, guint n, GArray *ms,
                gdouble *calls_per_s, GError **error)
{
  atomic_bool is_over = FALSE;
  gint64 start_ns, n_calls;
  gboolean ok;

  if (!start_crowd (server, crowd, n, error))
    return FALSE;
  start_ns = tps_clock_now_ns ();
  for (guint i = 0; i < n; i++)
    {
      crowd[i].n_ids = N_FLOOD_IDS;
      crowd[i].seed = i + 2;
      crowd[i].is_over = &is_over;
      tps_sync_check (pthread_create (&crowd[i].thread, NULL, call_until_the_end, &crowd[i]));
    }
  ok = measure (bench, server, ms, error);
  atomic_store (&is_over, TRUE);
  if (!join_crowd (crowd, n, &n_calls, ok ? error : NULL))
    ok = FALSE;
  *calls_per_s = (gdouble) n_calls / ((gdouble) (tps_clock_now_ns () - start_ns) / 1e9);
  return ok;
}

static gboolean
run_case (gpointer data, gpointer system, G_GNUC_UNUSED gpointer row, gboolean is_warm_up,
          GError **error)
{
  Bench *bench = data;
  Case which = (Case) GPOINTER_TO_UINT (system);
  guint n = which == ALONE ? 0 : (guint) bench->options->n_clients;
  g_autofree Crowd *crowd = g_new0 (Crowd, MAX (n, 1));
  g_autoptr (GArray) ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  gdouble calls_per_s;
  gboolean ok = measure_beside (bench, &bench->servers[which == BESIDE_A_LIMITED_FLOOD ? 1 : 0],
                                crowd, n, ms, &calls_per_s, error);

  for (guint i = 0; i < n; i++)
    g_clear_pointer (&crowd[i].tables, tps_remote_tables_free);
  if (!ok || is_warm_up)
    return ok;
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
      TpsTask task = { .title = case_names[i],
                       .run = run_case,
                       .bench = bench,
                       .system = GUINT_TO_POINTER (i),
                       .warm_up_s = seconds,
                       .measured_s = seconds };

      tps_engine_add (run->engine, &task);
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

static gchar *
name_ours (const gchar *system, const gchar *row)
{
  return g_strdup_printf ("%s, %s", system, row);
}

static const TpsFigureColumn columns[] = {
  { "p50", "", NULL, 50 },
  { "p99", "", NULL, 99 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = {
  .name = name_ours, .label = name_ours, .columns = columns, .has_units = TRUE
};

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
