/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The cost of operations. Clients look up one row in each call, as fast as they can. There are
 * three cases: a server with the defaults; a server with identified clients, rules, quotas, HTTP
 * and spans; and the latter server while its metrics are scraped. Each received row is checked. */

#include <glib.h>
#include <libsoup/soup.h>
#include <stdatomic.h>
#include <string.h>

#include "bench/engine/benchmark.h"
#include "bench/served/served.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define NAME "operations"
#define USUAL_CALL_S 0.00001 /* for the estimate */

/* A collector of traces that accepts every request and keeps nothing. It has its own thread. */

typedef struct
{
  GMainContext *context;
  GMainLoop *loop;
  SoupServer *server;
  gchar *url;
  TpsThread thread;
  gboolean runs;
  atomic_uint n_requests;
} Collector;

static void
answer (SoupServer *server, SoupServerMessage *message, const gchar *path, GHashTable *query,
        gpointer user_data)
{
  Collector *collector = user_data;

  atomic_fetch_add (&collector->n_requests, 1);
  soup_server_message_set_status (message, SOUP_STATUS_OK, NULL);
  soup_server_message_set_response (message, "application/json", SOUP_MEMORY_STATIC, "{}", 2);
}

static gpointer
run_collector (gpointer data)
{
  Collector *collector = data;

  g_main_context_push_thread_default (collector->context);
  g_main_loop_run (collector->loop);
  g_main_context_pop_thread_default (collector->context);
  return NULL;
}

/* A server belongs to the context that is the thread's default when it begins to listen. */
static gboolean
start_listening (Collector *collector, GError **error)
{
  GSList *uris;
  gboolean ok;

  g_main_context_push_thread_default (collector->context);
  ok = soup_server_listen_local (collector->server, 0, SOUP_SERVER_LISTEN_IPV4_ONLY, error);
  g_main_context_pop_thread_default (collector->context);
  if (!ok)
    return FALSE;
  uris = soup_server_get_uris (collector->server);
  collector->url = g_strdup_printf ("http://127.0.0.1:%d", g_uri_get_port (uris->data));
  g_slist_free_full (uris, (GDestroyNotify) g_uri_unref);
  return TRUE;
}

/* Stops the thread and frees the collector. */
static void
collector_free (Collector *collector)
{
  if (collector->runs)
    {
      g_main_loop_quit (collector->loop);
      tps_sync_check (pthread_join (collector->thread, NULL));
    }
  g_object_unref (collector->server);
  g_main_loop_unref (collector->loop);
  g_main_context_unref (collector->context);
  g_free (collector->url);
  g_free (collector);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Collector, collector_free)

/* Starts a collector that listens on a free port of 127.0.0.1. */
static Collector *
collector_new (GError **error)
{
  g_autoptr (Collector) collector = g_new0 (Collector, 1);

  collector->context = g_main_context_new ();
  collector->loop = g_main_loop_new (collector->context, FALSE);
  collector->server = soup_server_new (NULL, NULL);
  soup_server_add_handler (collector->server, NULL, answer, collector, NULL);
  if (!start_listening (collector, error))
    return NULL;
  tps_sync_check (pthread_create (&collector->thread, NULL, run_collector, collector));
  collector->runs = TRUE;
  return g_steal_pointer (&collector);
}

/* Scrapes /metrics of a server repeatedly, as Prometheus does. A scraper has its own thread. */

#define SLICE_US 5000 /* part of a pause; the thread checks for the end after each part */

/* A scraper. Its thread owns `ms`, `n_series` and `error` until the thread has ended. */
typedef struct
{
  gchar *url;
  gchar *authorization;
  gint interval_ms;
  TpsThread thread;
  atomic_bool is_over;
  GArray *ms;
  guint n_series;
  GError *error;
} Scraper;

static guint
count_series (GBytes *body)
{
  gsize n_bytes;
  const gchar *text = g_bytes_get_data (body, &n_bytes);
  const gchar *end = text + n_bytes;
  guint n = 0;

  while (text < end)
    {
      const gchar *line = text;

      n += *line != '#' && *line != '\n';
      text = memchr (line, '\n', (gsize) (end - line));
      text = text != NULL ? text + 1 : end;
    }
  return n;
}

static gboolean
scrape (Scraper *scraper, SoupSession *session)
{
  g_autoptr (SoupMessage) message = soup_message_new ("GET", scraper->url);
  gint64 start_ns = tps_clock_now_ns ();
  g_autoptr (GBytes) body = NULL;
  gdouble took_ms;

  soup_message_headers_append (soup_message_get_request_headers (message), "Authorization",
                               scraper->authorization);
  body = soup_session_send_and_read (session, message, NULL, &scraper->error);
  if (body == NULL)
    return FALSE;
  took_ms = (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;
  if (soup_message_get_status (message) != SOUP_STATUS_OK)
    {
      g_set_error (&scraper->error, TPS_ERROR, TPS_ERROR_ABORTED, "%s: status %u", scraper->url,
                   soup_message_get_status (message));
      return FALSE;
    }
  g_array_append_val (scraper->ms, took_ms);
  scraper->n_series = count_series (body);
  return TRUE;
}

static gpointer
run_scraper (gpointer data)
{
  Scraper *scraper = data;
  GMainContext *context = g_main_context_new ();
  SoupSession *session;

  g_main_context_push_thread_default (context);
  session = soup_session_new_with_options ("proxy-resolver", NULL, NULL);
  while (!atomic_load (&scraper->is_over))
    {
      gint64 next_ns = tps_clock_now_ns () + scraper->interval_ms * G_GINT64_CONSTANT (1000000);

      if (!scrape (scraper, session))
        break;
      while (!atomic_load (&scraper->is_over) && tps_clock_now_ns () < next_ns)
        g_usleep (SLICE_US);
    }
  g_object_unref (session);
  g_main_context_pop_thread_default (context);
  g_main_context_unref (context);
  return NULL;
}

/* Starts a scraper. `url` is the address of the server, such as "http://127.0.0.1:8080". `token`
 * must belong to a principal that may read metrics. */
static Scraper *
scraper_start (const gchar *url, const gchar *token, gint interval_ms)
{
  Scraper *scraper = g_new0 (Scraper, 1);

  scraper->url = g_strconcat (url, "/metrics", NULL);
  scraper->authorization = g_strconcat ("Bearer ", token, NULL);
  scraper->interval_ms = interval_ms;
  scraper->ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  tps_sync_check (pthread_create (&scraper->thread, NULL, run_scraper, scraper));
  return scraper;
}

/* Waits until the running scrape has ended, and frees the scraper. Appends the duration of each
 * scrape in milliseconds to `ms` (of gdouble). */
static gboolean
scraper_stop (Scraper *scraper, GArray *ms, guint *n_series, GError **error)
{
  gboolean ok;

  atomic_store (&scraper->is_over, TRUE);
  tps_sync_check (pthread_join (scraper->thread, NULL));
  ok = scraper->error == NULL;
  if (ok)
    g_array_append_vals (ms, scraper->ms->data, scraper->ms->len);
  else
    g_propagate_error (error, scraper->error);
  *n_series = scraper->n_series;
  g_array_unref (scraper->ms);
  g_free (scraper->authorization);
  g_free (scraper->url);
  g_free (scraper);
  return ok;
}

/* A process of thriftps_server, with its defaults or with everything that operators may enable. */

/* The options of a server; borrowed. */
typedef struct
{
  const gchar *name;      /* the name of the process and of its files */
  const gchar *folder;    /* the folder of its socket and files */
  gint n_io_threads;      /* 1 to 256 */
  const gchar *collector; /* the URL of the collector; NULL = the defaults */
  gdouble sampling;       /* fraction of the calls whose spans go to the collector */
} ServerOptions;

#define N_ROWS 100000 /* rows of "table0"; other tables have one row */

#define DIM 16
#define CLIENT "bench"

/* No client reaches these limits, but calls are charged to them. */
static const gchar rules_text[] =
    "{ \"rules\": [\n"
    "  { \"principals\": [\"token:" CLIENT "\"], \"rights\": [\"read\", \"push\", \"admin\"],\n"
    "    \"tables\": [\"*\"], \"tenant\": \"" CLIENT "\" } ],\n"
    "  \"tenants\": { \"" CLIENT "\": { \"calls_per_s\": 1000000000, \"rows_per_s\": 1000000000,\n"
    "    \"bytes_in_per_s\": 1000000000000, \"bytes_out_per_s\": 1000000000000,\n"
    "    \"calls_in_flight\": 100000 } } }\n";

typedef struct
{
  TpsServed *served; /* the first address is for clients, the second for HTTP */
  gchar *token;      /* for clients; NULL with the defaults */
} Server;

/* ---- the process ---------------------------------------------------------------------------- */

/* Obtains a token from the program, and the line of the token file with its hash. */
static gboolean
make_token (Server *server, TpsSupervisor *supervisor, gchar **line, GError **error)
{
  g_autofree gchar *program = tps_served_find (NULL, error);
  gchar make_flag[] = "--make-token=" CLIENT;
  gchar *argv[] = { program, make_flag, NULL };
  g_autoptr (TpsChild) child = program != NULL ? tps_child_start (supervisor, "token", argv, error)
                                               : NULL;
  g_autofree gchar *text = child != NULL ? tps_child_receive_all (child, error) : NULL;
  g_auto (GStrv) lines = text != NULL ? g_strsplit (text, "\n", 2) : NULL;

  if (lines == NULL)
    return FALSE;
  server->token = g_strdup (lines[0]);
  *line = g_strdup (lines[1]);
  return TRUE;
}

/* Returns the flags that switch everything on. */
static gchar *
make_flags (Server *server, TpsSupervisor *supervisor, const ServerOptions *options, GError **error)
{
  g_autofree gchar *line = NULL;
  g_autofree gchar *rules = g_strdup_printf ("%s/%s.rules", options->folder, options->name);
  g_autofree gchar *tokens = g_strdup_printf ("%s/%s.tokens", options->folder, options->name);
  gchar sampling[G_ASCII_DTOSTR_BUF_SIZE];

  if (!make_token (server, supervisor, &line, error)
      || !g_file_set_contents (rules, rules_text, -1, error)
      || !g_file_set_contents (tokens, line, -1, error))
    return NULL;
  return g_strdup_printf (
      "--access-file=%s\n--token-file=%s\n--http=127.0.0.1:0\n--otlp=%s\n--trace-sampling=%s",
      rules, tokens, options->collector,
      g_ascii_dtostr (sampling, sizeof sampling, options->sampling));
}

/* Closes the pipes to the process, and frees the server. */
static void
server_free (Server *server)
{
  g_clear_pointer (&server->served, tps_served_free);
  g_free (server->token);
  g_free (server);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Server, server_free)

/* Starts a server and waits until it listens. The supervisor terminates the process. */
static Server *
server_start (TpsSupervisor *supervisor, const ServerOptions *options, GError **error)
{
  g_autoptr (Server) server = g_new0 (Server, 1);
  gboolean is_on = options->collector != NULL;
  g_autofree gchar *more = is_on ? make_flags (server, supervisor, options, error) : g_strdup ("");
  g_autofree gchar *flags = g_strdup_printf ("--listen=unix:%s/%s.sock\n--io-threads=%d\n%s",
                                             options->folder, options->name, options->n_io_threads,
                                             more);

  if (more == NULL)
    return NULL;
  server->served = tps_served_start (supervisor, options->name, NULL, flags, is_on ? 2 : 1, error);
  return server->served != NULL ? g_steal_pointer (&server) : NULL;
}

/* ---- tables --------------------------------------------------------------------------------- */

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
  g_auto (TpsTensor) row = { 0 };

  return tps_remote_tables_lookup_rows_sync (tables, table, tps_view_ids (&id, 1),
                                             tps_served_get_deadline (), &row, error)
         && check_row (&row, error);
}

static gboolean
make_table (TpsRemoteTables *tables, guint i, GError **error)
{
  TpsTablePlacement placement = { .kind = TPS_SHARD_WHOLE };
  g_autofree gchar *name = g_strdup_printf ("table%u", i);
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, name, i == 0 ? N_ROWS : 1, DIM);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  return tps_remote_tables_create_spec (tables, &spec, &placement, tps_served_get_deadline (),
                                        error)
         && look_up (tables, name, 0, error);
}

/* Creates `n` tables of zeros, from "table0" on, and looks up one row of each table. */
static gboolean
make_tables (const Server *server, guint n, GError **error)
{
  g_autoptr (TpsRemoteTables)
      tables = tps_served_connect (server->served->addresses[0], server->token, NULL, error);

  for (guint i = 0; tables != NULL && i < n; i++)
    if (!make_table (tables, i, error))
      return FALSE;
  return tables != NULL;
}

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
  Collector *collector;
  Server *servers[2]; /* OFF and ON */
  Row rows[2];
  guint n_series;
} Bench;

static const TpsQuantity calls = { "", "calls/s" }, cpu = { " CPU of the server", "us/call" },
                         latency = { " latency", "ms" }, scrape_ms = { " scrape", "ms" };

/* ---- clients -------------------------------------------------------------------------------- */

typedef struct
{
  TpsRemoteTables *tables;
  GRand *dice;
} Client;

static void
client_free (gpointer data)
{
  Client *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  g_rand_free (client->dice);
  g_free (client);
}

static gboolean
look_up_any (gpointer data, GError **error)
{
  Client *client = data;

  return look_up (client->tables, "table0", g_rand_int_range (client->dice, 0, N_ROWS), error);
}

/* Connects the clients of a row; NULL with an error. */
static GPtrArray *
connect_all (const Server *server, guint n, GError **error)
{
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (client_free);

  for (guint i = 0; i < n; i++)
    {
      Client *client = g_new0 (Client, 1);

      g_ptr_array_add (clients, client);
      client->dice = g_rand_new_with_seed (i + 1);
      client->tables = tps_served_connect (server->served->addresses[0], server->token, NULL,
                                           error);
      if (client->tables == NULL)
        return NULL;
    }
  return g_steal_pointer (&clients);
}

/* ---- tasks ---------------------------------------------------------------------------------- */

static gboolean
measure (Bench *bench, Case which, const Row *row, gboolean is_warm_up, GError **error)
{
  const Server *server = bench->servers[which == OFF ? OFF : ON];
  g_autoptr (GPtrArray) clients = connect_all (server, row->n_clients, error);
  gint64 n_calls = MAX (bench->options.n_calls / row->n_clients, 1);
  gdouble cpu_s = tps_child_get_cpu (server->served->child);
  g_autoptr (GArray) all = NULL;
  g_autoptr (GArray) ms = NULL;

  if (clients == NULL)
    return FALSE;
  all = tps_callers_stop (tps_callers_start (clients->pdata, clients->len, look_up_any, n_calls, 0),
                          error);
  cpu_s = tps_child_get_cpu (server->served->child) - cpu_s;
  if (all == NULL || is_warm_up)
    return all != NULL;
  ms = tps_calls_get_ms (all);
  tps_figures_add (bench->figures, case_names[which], row->name, &calls,
                   all->len / tps_calls_get_span (all));
  tps_figures_add (bench->figures, case_names[which], row->name, &cpu, cpu_s * 1e6 / all->len);
  tps_figures_add_all (bench->figures, case_names[which], row->name, &latency, ms);
  return TRUE;
}

static gboolean
measure_scraped (Bench *bench, const Row *row, gboolean is_warm_up, GError **error)
{
  const Server *server = bench->servers[ON];
  g_autoptr (GArray) ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  Scraper *scraper = scraper_start (server->served->addresses[1], server->token,
                                    bench->options.scrape_ms);
  gboolean ok = measure (bench, SCRAPED, row, is_warm_up, error);

  if (!scraper_stop (scraper, ms, &bench->n_series, ok ? error : NULL) || !ok)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add_all (bench->figures, case_names[SCRAPED], row->name, &scrape_ms, ms);
  return TRUE;
}

static gboolean
run_case (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Case which = (Case) GPOINTER_TO_UINT (system);

  return which == SCRAPED ? measure_scraped (data, row, is_warm_up, error)
                          : measure (data, which, row, is_warm_up, error);
}

/* ---- the benchmark -------------------------------------------------------------------------- */

static gboolean
start_servers (Bench *bench, TpsBenchRun *run, GError **error)
{
  ServerOptions options = { .name = "off",
                            .n_io_threads = bench->options.n_io_threads,
                            .sampling = bench->options.sampling };

  options.folder = tps_benchmark_get_folder (run, error);
  bench->collector = options.folder != NULL ? collector_new (error) : NULL;
  if (bench->collector == NULL)
    return FALSE;
  bench->servers[OFF] = server_start (run->supervisor, &options, error);
  if (bench->servers[OFF] == NULL)
    return FALSE;
  options.name = "on";
  options.collector = bench->collector->url;
  bench->servers[ON] = server_start (run->supervisor, &options, error);
  return bench->servers[ON] != NULL;
}

static void
add_row (Bench *bench, TpsEngine *engine, Row *row)
{
  tps_engine_begin_row (engine);
  for (guint i = 0; i < N_CASES; i++)
    {
      TpsTask task = { .run = run_case,
                       .bench = bench,
                       .system = GUINT_TO_POINTER (i),
                       .row = row,
                       .measured_s = (gdouble) bench->options.n_calls * USUAL_CALL_S };

      tps_engine_add (engine, &task, "%s, %s", case_names[i], row->name);
    }
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  Bench *bench = user_data;
  guint n_tables = (guint) bench->options.n_tables;

  bench->figures = run->figures;
  if (!start_servers (bench, run, error) || !make_tables (bench->servers[OFF], n_tables, error)
      || !make_tables (bench->servers[ON], n_tables, error))
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
    g_clear_pointer (&bench->servers[i], server_free);
}

static void
print_report (gpointer user_data)
{
  const Bench *bench = user_data;

  g_print ("series of a scrape: %u; requests to the collector: %u\n", bench->n_series,
           atomic_load (&bench->collector->n_requests));
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

static const TpsFigureStyle style = { .columns = columns, .has_units = TRUE };

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
  g_clear_pointer (&bench.collector, collector_free);
  tps_command_line_clear (&command_line, o);
  return status;
}
