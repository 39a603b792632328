/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The cost of operations. Clients look up one row in each call, as fast as they can. There are
 * three cases: a server with the defaults; a server with identified clients, rules, quotas, HTTP
 * and spans; and the latter server while its metrics are scraped. Each received row is checked. */

#include "bench/engine/benchmark.h"
#include "bench/operations/collector.h"
#include "bench/operations/scraper.h"
#include "bench/operations/server.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define NAME "operations"
#define USUAL_CALL_S 0.00001 /* for the estimate */

typedef struct
{
  TpsRunFlags run;
  gint64 n_calls; /* of a round, over all connections */
  gint n_clients; /* connections of the second row */
  gint n_tables, n_io_threads, scrape_ms;
  gdouble sampling;
} Options;

#define FIELD(name) G_STRUCT_OFFSET (Options, name)

static const TpsFlag flags[] = {
  { "calls", G_OPTION_ARG_INT64, FIELD (n_calls),
    "lookups of one row in a round, over all connections (100000)", "N", 100000, 1, 1e8 },
  { "clients", G_OPTION_ARG_INT, FIELD (n_clients), "connections of the second row (8)", "N", 8, 1,
    500 },
  { "tables", G_OPTION_ARG_INT, FIELD (n_tables), "tables, each with its own series (400)", "N",
    400, 1, 10000 },
  { "io-threads", G_OPTION_ARG_INT, FIELD (n_io_threads),
    "I/O threads of each server; with one, connections cannot be placed differently (1)", "N", 1, 1,
    256 },
  { "scrape-ms", G_OPTION_ARG_INT, FIELD (scrape_ms),
    "milliseconds between the starts of two scrapes (100)", "MS", 100, 1, 60000 },
  { "sampling", G_OPTION_ARG_DOUBLE, FIELD (sampling),
    "part of the calls whose spans are sent to a collector (0.01)", "PART", 0.01 },
  { NULL },
};

static const TpsCommandLine command_line = {
  NAME,
  "Measures the cost of operations: small lookups on a server with its defaults, on one with\n"
  "tokens, rules, quotas, HTTP and traces, and on the latter while it is scraped.",
  { { flags, 0 }, { tps_run_flags, FIELD (run) } },
};

typedef enum
{
  OFF = 0,
  ON = 1,
  SCRAPED = 2,
  N_CASES = 3,
} Case;

static const gchar *const case_names[N_CASES] = { "all off", "all on", "all on, scraped" };

/* The rows of the report: numbers of connections. Each connection has its own thread. */
typedef struct
{
  const gchar *name;
  guint n_clients;
} Row;

typedef struct
{
  Options options;
  TpsFigures *figures;
  TpsCollector *collector;
  TpsOperationsServer *servers[2]; /* OFF and ON */
  Row rows[2];
  guint n_series;
} Bench;

static const TpsQuantity calls = { "", "calls/s" }, cpu = { " CPU of the server", "us/call" },
                         latency = { " latency", "ms" }, scrape = { " scrape", "ms" };

/* ---- clients -------------------------------------------------------------------------------- */

typedef struct
{
  TpsRemoteTables *tables;
  guint seed;
  gint64 n_calls;
  GArray *ms; /* of gdouble, the duration of each call */
  GError *error;
  TpsThread thread;
} Client;

static gpointer
call (gpointer data)
{
  Client *client = data;
  g_autoptr (GRand) dice = g_rand_new_with_seed (client->seed);

  for (gint64 i = 0; i < client->n_calls; i++)
    {
      gint64 start_ns = tps_clock_now_ns ();
      gdouble took_ms;

      if (!tps_operations_look_up (client->tables, g_rand_int_range (dice, 0, TPS_OPERATIONS_ROWS),
                                   &client->error))
        return NULL;
      took_ms = (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;
      g_array_append_val (client->ms, took_ms);
    }
  return NULL;
}

static gboolean
connect_all (const TpsOperationsServer *server, Client *clients, guint n, gint64 n_calls,
             GError **error)
{
  for (guint i = 0; i < n; i++)
    {
      clients[i].seed = i + 1;
      clients[i].n_calls = MAX (n_calls / n, 1);
      clients[i].ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
      clients[i].tables = tps_operations_server_connect (server, error);
      if (clients[i].tables == NULL)
        return FALSE;
    }
  return TRUE;
}

/* Runs the calls of all clients. Returns the seconds of wall time. */
static gdouble
run_all (Client *clients, guint n)
{
  gint64 start_ns = tps_clock_now_ns ();

  for (guint i = 0; i < n; i++)
    tps_sync_check (pthread_create (&clients[i].thread, NULL, call, &clients[i]));
  for (guint i = 0; i < n; i++)
    tps_sync_check (pthread_join (clients[i].thread, NULL));
  return (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
}

/* Returns FALSE with the first error of a client. */
static gboolean
check_all (Client *clients, guint n, GError **error)
{
  for (guint i = 0; i < n; i++)
    if (clients[i].error != NULL)
      {
        g_propagate_error (error, g_steal_pointer (&clients[i].error));
        return FALSE;
      }
  return TRUE;
}

static void
clear_all (Client *clients, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      g_clear_pointer (&clients[i].tables, tps_remote_tables_free);
      g_clear_pointer (&clients[i].ms, g_array_unref);
      g_clear_error (&clients[i].error);
    }
}

/* ---- tasks ---------------------------------------------------------------------------------- */

static void
add_figures (const Bench *bench, const gchar *system, const Row *row, const Client *clients,
             gdouble seconds, gdouble cpu_s)
{
  gdouble n_calls = (gdouble) clients[0].n_calls * row->n_clients;

  tps_figures_add (bench->figures, system, row->name, &calls, n_calls / seconds);
  tps_figures_add (bench->figures, system, row->name, &cpu, cpu_s * 1e6 / n_calls);
  for (guint i = 0; i < row->n_clients; i++)
    tps_figures_add_all (bench->figures, system, row->name, &latency, clients[i].ms);
}

static gboolean
measure (Bench *bench, Case which, const Row *row, Client *clients, gboolean is_warm_up,
         GError **error)
{
  TpsOperationsServer *server = bench->servers[which == OFF ? OFF : ON];
  gdouble cpu_s, seconds;

  if (!connect_all (server, clients, row->n_clients, bench->options.n_calls, error))
    return FALSE;
  cpu_s = tps_operations_server_get_cpu (server);
  seconds = run_all (clients, row->n_clients);
  cpu_s = tps_operations_server_get_cpu (server) - cpu_s;
  if (!check_all (clients, row->n_clients, error))
    return FALSE;
  if (!is_warm_up)
    add_figures (bench, case_names[which], row, clients, seconds, cpu_s);
  return TRUE;
}

static gboolean
measure_scraped (Bench *bench, const Row *row, Client *clients, gboolean is_warm_up, GError **error)
{
  const TpsOperationsServer *server = bench->servers[ON];
  g_autoptr (GArray) ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  TpsScraper *scraper = tps_scraper_start (tps_operations_server_get_http (server),
                                           tps_operations_server_get_token (server),
                                           bench->options.scrape_ms);
  gboolean ok = measure (bench, SCRAPED, row, clients, is_warm_up, error);

  if (!tps_scraper_stop (scraper, ms, &bench->n_series, ok ? error : NULL) || !ok)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add_all (bench->figures, case_names[SCRAPED], row->name, &scrape, ms);
  return TRUE;
}

static gboolean
run_case (gpointer data, gpointer system, gpointer row_data, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  const Row *row = row_data;
  Case which = (Case) GPOINTER_TO_UINT (system);
  g_autofree Client *clients = g_new0 (Client, row->n_clients);
  gboolean ok = which == SCRAPED ? measure_scraped (bench, row, clients, is_warm_up, error)
                                 : measure (bench, which, row, clients, is_warm_up, error);

  clear_all (clients, row->n_clients);
  return ok;
}

/* ---- the benchmark -------------------------------------------------------------------------- */

static gboolean
start_servers (Bench *bench, TpsBenchRun *run, GError **error)
{
  TpsOperationsServerOptions options = { .name = "off",
                                         .n_io_threads = bench->options.n_io_threads,
                                         .sampling = bench->options.sampling };

  options.folder = tps_benchmark_get_folder (run, error);
  bench->collector = options.folder != NULL ? tps_collector_new (error) : NULL;
  if (bench->collector == NULL)
    return FALSE;
  bench->servers[OFF] = tps_operations_server_start (run->supervisor, &options, error);
  if (bench->servers[OFF] == NULL)
    return FALSE;
  options.name = "on";
  options.collector = tps_collector_get_url (bench->collector);
  bench->servers[ON] = tps_operations_server_start (run->supervisor, &options, error);
  return bench->servers[ON] != NULL;
}

static void
add_row (Bench *bench, TpsEngine *engine, Row *row)
{
  tps_engine_begin_row (engine);
  for (guint i = 0; i < N_CASES; i++)
    {
      g_autofree gchar *title = g_strdup_printf ("%s, %s", case_names[i], row->name);
      gdouble seconds = (gdouble) bench->options.n_calls * USUAL_CALL_S;
      TpsTask task = { .title = title,
                       .run = run_case,
                       .bench = bench,
                       .system = GUINT_TO_POINTER (i),
                       .row = row,
                       .warm_up_s = seconds,
                       .measured_s = seconds };

      tps_engine_add (engine, &task);
    }
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  Bench *bench = user_data;
  guint n_tables = (guint) bench->options.n_tables;

  bench->figures = run->figures;
  if (!start_servers (bench, run, error)
      || !tps_operations_server_make_tables (bench->servers[OFF], n_tables, error)
      || !tps_operations_server_make_tables (bench->servers[ON], n_tables, error))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (bench->rows); i++)
    add_row (bench, run->engine, &bench->rows[i]);
  return TRUE;
}

static void
stop (gpointer user_data)
{
  Bench *bench = user_data;

  for (guint i = 0; i < G_N_ELEMENTS (bench->servers); i++)
    g_clear_pointer (&bench->servers[i], tps_operations_server_free);
}

static void
print_report (gpointer user_data)
{
  const Bench *bench = user_data;

  g_print ("series of a scrape: %u; requests to the collector: %u\n", bench->n_series,
           tps_collector_count (bench->collector));
}

static gchar *
name_ours (const gchar *system, const gchar *row)
{
  return g_strdup_printf ("%s, %s", system, row);
}

static const TpsFigureColumn columns[] = {
  { "p50", "", NULL, 50 },
  { "CPU us", " CPU of the server", "us/call", 50 },
  { "latency p50", " latency", "ms", 50 },
  { "p99", " latency", "ms", 99 },
  { "max", " latency", "ms", 100 },
  { "scrape p50", " scrape", "ms", 50 },
  { "max", " scrape", "ms", 100 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = {
  .name = name_ours, .label = name_ours, .columns = columns, .has_units = TRUE
};

gint
main (gint argc, gchar **argv)
{
  static const TpsBenchmark benchmark = {
    .command_line = &command_line,
    .prepare = prepare,
    .stop = stop,
    .style = &style,
    .print_report = print_report,
  };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *clients = NULL;
  Bench bench = { 0 };
  Options *o = &bench.options;
  gint status;

  tps_benchmark_init ();
  if (!tps_command_line_parse (&command_line, o, argc, argv, NULL, &error))
    return tps_benchmark_refuse (NAME, error);
  tps_flags_default_number (&o->run.repeats, o->run.smoke ? 1 : 5);
  if (o->run.smoke)
    {
      o->n_calls = MIN (o->n_calls, 400);
      o->n_tables = MIN (o->n_tables, 20);
    }
  clients = g_strdup_printf ("%d clients", o->n_clients);
  bench.rows[0] = (Row) { "1 client", 1 };
  bench.rows[1] = (Row) { clients, (guint) o->n_clients };
  status = tps_benchmark_run (&benchmark, &o->run, &bench);
  g_clear_pointer (&bench.collector, tps_collector_free);
  tps_command_line_clear (&command_line, o);
  return status;
}
