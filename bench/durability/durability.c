/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The cost of durability, compared with the limits of the disk and with peers. All systems are
 * measured in one run.
 *
 *   push      clients push to a new server with each durability; after a kill, the server
 *             replays committed pushes
 *   snapshot  a server writes a snapshot of a large table; after a kill, it reads the snapshot
 *   lookup    clients look up rows during pushes, with and without a snapshot
 *   restart   a server without tables starts
 *
 * The servers are separate processes, which SIGKILL ends. A task of the engine is a run of a part
 * on one system. A figure is the median of the rounds. Tables are checked at the end. */

#include <stdio.h>
#include <unistd.h>

#include "bench/durability/fio.h"
#include "bench/durability/options.h"
#include "bench/durability/server.h"
#include "bench/engine/benchmark.h"
#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "bench/report/json_output.h"
#include "bench/served/served.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define NAME "durability"

/* The systems of figures, whose names consist of the row and, except for OURS, the system. */
#define OURS "thriftps"
#define FIO "fio"
#define ROCKSDB "RocksDB synced"
#define TORCH "torch.save"

/* The state that the parts share. */
typedef struct
{
  TpsDurabilityOptions *options;
  TpsBenchRun *run;
  gchar *folder;    /* the folder of the run on the measured disk */
  gchar *fio;       /* the version of fio; NULL = not measured */
  GPtrArray *skips; /* of gchar, the skipped parts with their reasons */

  TpsDurabilityTable pushed, large;
  gboolean writes_snapshots;         /* our servers write automatic snapshots */
  TpsChild *rocksdb, *torch;         /* NULL = not measured */
  TpsDurabilityServerOptions server; /* of `large_server`, which the first use starts */
  TpsDurabilityServer *large_server;
} Bench;

#define WAIT_US 20000

/* -- figures -- */

static const TpsQuantity pushes_per_s = { "", "pushes/s" }, lookups_per_s = { "", "lookups/s" },
                         gb_per_s = { "", "GB/s" }, in_ms = { "", "ms" }, of_p50 = { " p50", "ms" },
                         of_p99 = { " p99", "ms" }, of_p999 = { " p99.9", "ms" },
                         longest = { " longest", "ms" }, memory_mib = { " memory", "MiB" },
                         log_share = { " log / received", "bytes" };

static void
add_calls (TpsFigures *figures, const gchar *system, const gchar *row, const TpsQuantity *quantity,
           const GArray *calls)
{
  const struct
  {
    const TpsQuantity *quantity;
    gdouble percent;
  } percentiles[] = { { &of_p50, 50 }, { &of_p99, 99 }, { &of_p999, 99.9 }, { &longest, 100 } };
  g_autoptr (GArray) ms = tps_calls_get_ms (calls);

  if (calls->len == 0)
    return;
  tps_figures_add (figures, system, row, quantity, calls->len / tps_calls_get_span (calls));
  for (guint i = 0; i < G_N_ELEMENTS (percentiles); i++)
    tps_figures_add (figures, system, row, percentiles[i].quantity,
                     tps_percentile (ms, percentiles[i].percent));
}

/* -- waits and skipped parts -- */

static gboolean
wait_for (Bench *bench, gdouble seconds, GError **error)
{
  gint64 end_ns = tps_clock_now_ns () + (gint64) (seconds * 1e9);
  gint64 left_ns;

  while ((left_ns = end_ns - tps_clock_now_ns ()) > 0)
    {
      if (!tps_interrupt_check (error) || !tps_supervisor_check (bench->run->supervisor, error))
        return FALSE;
      tps_engine_tick (bench->run->engine);
      g_usleep ((gulong) MIN (left_ns / 1000 + 1, WAIT_US));
    }
  return TRUE;
}

static void
skip (Bench *bench, const gchar *what, const gchar *why)
{
  gchar *text = g_strdup_printf ("%s: %s", what, why);

  fprintf (stderr, "durability: not measured: %s\n", text);
  g_ptr_array_add (bench->skips, text);
}

/* Adds a task of `system`, which is static or NULL. */
static void
add_task (Bench *bench, const gchar *part, const gchar *system, TpsTaskRun run, gdouble seconds)
{
  TpsTask task = {
    .run = run, .bench = bench, .system = (gpointer) (gsize) system, .measured_s = seconds
  };

  tps_engine_add (bench->run->engine, &task, "%s%s", part, system != NULL ? system : "");
}

/* -- servers -- */

static gboolean
fill_large (Bench *bench, GError **error)
{
  tps_engine_set_phase (bench->run->engine, "creating the table of snapshots");
  return tps_durability_server_make_table (bench->large_server, &bench->large, error);
}

static gboolean
init_server (Bench *bench, const TpsDurabilityMode *mode, const gchar *name,
             TpsDurabilityServerOptions *options, GError **error)
{
  const gchar *socket_dir = tps_benchmark_get_folder (bench->run, error);

  if (socket_dir == NULL)
    return FALSE;
  *options = (TpsDurabilityServerOptions) {
    .program = bench->options->server_binary,
    .socket_dir = socket_dir,
    .data_dir = g_build_filename (bench->folder, name, NULL),
    .mode = mode,
    .writes_snapshots = bench->writes_snapshots,
  };
  return TRUE;
}

static TpsDurabilityServer *
get_large_server (Bench *bench, GError **error)
{
  static const TpsDurabilityMode mode = { "large", "commit" };

  if (bench->large_server != NULL)
    return bench->large_server;
  if (!init_server (bench, &mode, "large", &bench->server, error))
    return NULL;
  bench->large_server = tps_durability_server_start (bench->run->supervisor, &bench->server, NULL,
                                                     error);
  if (bench->large_server == NULL || !fill_large (bench, error))
    return NULL;
  return bench->large_server;
}

static gboolean
restart_large_server (Bench *bench, gdouble *seconds, GError **error)
{
  g_clear_pointer (&bench->large_server, tps_durability_server_kill);
  bench->large_server = tps_durability_server_start (bench->run->supervisor, &bench->server,
                                                     seconds, error);
  return bench->large_server != NULL;
}

#define N_SETS 16 /* number of sets of ids; drawn in advance, outside the measured time */
#define SEED 17

/* The work of the clients; borrowed. */
typedef struct
{
  const TpsDurabilityTable *table;
  gsize n_ids; /* ids of a call; drawn in advance */
  guint n_clients;
  gboolean is_push; /* pushes add 1 to each element; FALSE = lookups */
} LoadShape;

typedef struct Load Load;

typedef struct
{
  const Load *load;
  TpsRemoteTables *tables;
  gint64 *ids; /* [N_SETS, n_ids] */
  guint set;
} Client;

struct Load
{
  const LoadShape *shape;
  gfloat *values;     /* [n_ids, dim], all -1: a step of SGD with the learning rate 1 then adds 1 */
  GPtrArray *clients; /* of Client */
  TpsCallers *callers; /* NULL = not started */
};

static void
client_free (gpointer data)
{
  Client *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  g_free (client->ids);
  g_free (client);
}

static gboolean
call_once (gpointer data, GError **error)
{
  Client *client = data;
  const LoadShape *shape = client->load->shape;
  const TpsDurabilityTable *table = shape->table;
  TpsTensorView ids = tps_view_ids (client->ids + client->set++ % N_SETS * shape->n_ids,
                                    shape->n_ids);
  g_auto (TpsTensor) rows = { 0 };

  if (shape->is_push)
    return tps_remote_tables_apply_rows_sync (
        client->tables, table->name, ids,
        tps_view_rows (client->load->values, shape->n_ids, table->dim), tps_served_get_deadline (),
        error);
  return tps_remote_tables_lookup_rows_sync (client->tables, table->name, ids,
                                             tps_served_get_deadline (), &rows, error);
}

static gboolean
connect_client (Load *load, const gchar *address, GError **error)
{
  const LoadShape *shape = load->shape;
  Client *client = g_new0 (Client, 1);
  g_autoptr (GRand) dice = g_rand_new_with_seed (SEED + load->clients->len);

  g_ptr_array_add (load->clients, client);
  client->load = load;
  client->ids = g_new (gint64, N_SETS * shape->n_ids);
  for (gsize i = 0; i < N_SETS * shape->n_ids; i++)
    client->ids[i] = g_rand_int_range (dice, 0, (gint32) shape->table->n_rows);
  client->tables = tps_served_connect (address, NULL, NULL, error);
  return client->tables != NULL;
}

/* Cancels the calls in flight and frees a load. */
static void
load_free (Load *load)
{
  for (guint i = 0; load->callers != NULL && i < load->clients->len; i++)
    tps_remote_tables_cancel (((Client *) load->clients->pdata[i])->tables);
  if (load->callers != NULL)
    {
      GArray *calls = tps_callers_stop (load->callers, NULL);

      g_clear_pointer (&calls, g_array_unref);
    }
  g_ptr_array_unref (load->clients);
  g_free (load->values);
  g_free (load);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Load, load_free)

/* Connects the clients and starts their calls until load_stop(). `shape` is borrowed until then. */
static Load *
load_start (const gchar *address, const LoadShape *shape, GError **error)
{
  g_autoptr (Load) load = g_new0 (Load, 1);

  load->shape = shape;
  load->values = g_new (gfloat, shape->n_ids * shape->table->dim);
  for (gsize i = 0; i < shape->n_ids * shape->table->dim; i++)
    load->values[i] = -1;
  load->clients = g_ptr_array_new_with_free_func (client_free);
  for (guint i = 0; i < shape->n_clients; i++)
    if (!connect_client (load, address, error))
      return NULL;
  load->callers = tps_callers_start (load->clients->pdata, load->clients->len, call_once, 0, 0);
  return g_steal_pointer (&load);
}

/* Waits for the calls in flight and frees the load. Returns all calls, as tps_callers_stop()
 * does. */
static GArray *
load_stop (Load *load, GError **error)
{
  g_autoptr (Load) stopped = load;

  return tps_callers_stop (g_steal_pointer (&load->callers), error);
}

#define PUSH_ROW "push"

static const TpsDurabilityMode modes[] = {
  { "no data directory", NULL },
  { "none", "none" },
  { "interval", "interval" },
  { "commit", "commit" },
};

static const TpsDurabilityMode *
get_mode (const gchar *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    if (g_str_equal (modes[i].name, name))
      return &modes[i];
  g_assert_not_reached ();
}

static LoadShape
get_shape (const Bench *bench)
{
  return (LoadShape) { .table = &bench->pushed,
                       .n_ids = (gsize) bench->options->n_ids,
                       .n_clients = (guint) bench->options->n_clients,
                       .is_push = TRUE };
}

/* Returns the bytes of the tensors of a push: ids and values. */
static gdouble
count_push_bytes (const Bench *bench)
{
  return (gdouble) bench->options->n_ids
         * (gdouble) (sizeof (gint64) + bench->pushed.dim * sizeof (gfloat));
}

/* -- our servers -- */

typedef struct
{
  Bench *bench;
  TpsDurabilityServerOptions options;
  TpsDurabilityServer *server;
  gboolean is_warm_up;
  gdouble n_pushes; /* of n_ids rows each, with the pushes that filled the table */
} Run;

/* Compares the sum of all elements with the number of pushes. Elements are whole numbers, so the
 * sum does not depend on the order of the pushes. */
static gboolean
check_table (const Run *run, GError **error)
{
  const TpsDurabilityTable *table = &run->bench->pushed;
  gdouble expected = run->n_pushes * (gdouble) (run->bench->options->n_ids) * (gdouble) table->dim;
  gdouble sum;

  if (!tps_durability_server_read (run->server, table, 1, &sum, NULL, error))
    return FALSE;
  if (sum == expected)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
               "push %s: the sum of the table is %.17g, expected %.17g", run->options.mode->name,
               sum, expected);
  return FALSE;
}

/* Returns the server's peak memory without the table and, with a log, the LSNs of its rows. */
static gdouble
get_memory_mib (const Run *run)
{
  const TpsDurabilityTable *table = &run->bench->pushed;
  gsize row_bytes = table->dim * sizeof (gfloat)
                    + (run->options.mode->durability != NULL ? sizeof (gint64) : 0);
  gsize peak = tps_child_get_peak_bytes (run->server->served->child);

  return ((gdouble) peak - (gdouble) (table->n_rows * row_bytes)) / (1 << 20);
}

static GArray *
push_for_a_while (Run *run, GError **error)
{
  LoadShape shape = get_shape (run->bench);
  g_autoptr (Load) load = load_start (run->server->served->addresses[0], &shape, error);

  if (load == NULL || !wait_for (run->bench, run->bench->options->seconds, error))
    return NULL;
  return load_stop (g_steal_pointer (&load), error);
}

static gboolean
measure_pushes (Run *run, GError **error)
{
  TpsFigures *figures = run->bench->run->figures;
  const gchar *name = run->options.mode->name;
  g_autoptr (GArray) calls = NULL;
  gint64 before, after;

  if (!tps_durability_server_count_log (run->server, &before, error)
      || (calls = push_for_a_while (run, error)) == NULL
      || !tps_durability_server_count_log (run->server, &after, error))
    return FALSE;
  run->n_pushes += (gdouble) calls->len;
  if (run->is_warm_up)
    return check_table (run, error);
  add_calls (figures, name, PUSH_ROW, &pushes_per_s, calls);
  tps_figures_add (figures, name, PUSH_ROW, &memory_mib, get_memory_mib (run));
  if (g_strcmp0 (run->options.mode->durability, "commit") == 0)
    tps_figures_add (figures, name, PUSH_ROW, &log_share,
                     (gdouble) (after - before)
                         / ((gdouble) calls->len * count_push_bytes (run->bench)));
  return check_table (run, error);
}

/* Kills the server and measures the restart, in which the server replays all pushes. */
static gboolean
measure_replay (Run *run, GError **error)
{
  gdouble seconds;

  g_clear_pointer (&run->server, tps_durability_server_kill);
  run->server = tps_durability_server_start (run->bench->run->supervisor, &run->options, &seconds,
                                             error);
  if (run->server == NULL || !check_table (run, error))
    return FALSE;
  if (!run->is_warm_up)
    tps_figures_add (run->bench->run->figures, OURS, "replay", &pushes_per_s,
                     run->n_pushes / seconds);
  return TRUE;
}

/* Pushes to all rows once. Their memory is then allocated before the measured time. */
static gboolean
fill_table (Run *run, GError **error)
{
  const TpsDurabilityTable *table = &run->bench->pushed;

  run->n_pushes = (gdouble) table->n_rows / (gdouble) run->bench->options->n_ids;
  return tps_durability_server_make_table (run->server, table, error)
         && tps_durability_server_push_all (run->server, table, 1, error);
}

static gboolean
run_steps (Run *run, GError **error)
{
  const gchar *durability = run->options.mode->durability;

  run->server = tps_durability_server_start (run->bench->run->supervisor, &run->options, NULL,
                                             error);
  return run->server != NULL && fill_table (run, error) && measure_pushes (run, error)
         && (g_strcmp0 (durability, "commit") != 0 || measure_replay (run, error));
}

static gboolean
run_pushes (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  Run run = { .bench = bench, .is_warm_up = is_warm_up };
  gboolean ok;

  if (!init_server (bench, get_mode (system), "pushed", &run.options, error))
    return FALSE;
  ok = run_steps (&run, error);
  g_clear_pointer (&run.server, tps_durability_server_kill);
  tps_bench_remove_folder (run.options.data_dir);
  return ok;
}

/* -- the limit: synced writes, each with one push of every client -- */

static gboolean
run_synced_fio (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  gdouble n_pushes = bench->options->n_clients;
  gsize group_bytes = ((gsize) (n_pushes * count_push_bytes (bench)) + 4095) / 4096 * 4096;
  gdouble file_bytes = MIN (5e8 * bench->options->seconds, 1e9);
  TpsFioJob job = { .pattern = TPS_FIO_GROUPS,
                    .folder = bench->folder,
                    .n_bytes = (gsize) file_bytes,
                    .block_bytes = group_bytes };
  gdouble bytes_per_s;

  if (!tps_fio_run (bench->run->supervisor, &job, &bytes_per_s, error))
    return FALSE;
  if (!is_warm_up)
    tps_figures_add (bench->run->figures, FIO, PUSH_ROW, &pushes_per_s,
                     bytes_per_s / (gdouble) group_bytes * n_pushes);
  return TRUE;
}

/* -- the peer -- */

/* Adds the pushes of the reply: "ok", followed by the start and the end of each push in ns. */
static gboolean
add_answer (Bench *bench, const gchar *answer, gboolean is_warm_up, GError **error)
{
  g_auto (GStrv) words = g_strsplit (answer, " ", -1);
  g_autoptr (GArray) calls = g_array_new (FALSE, TRUE, sizeof (TpsCallTime));

  if (!g_str_equal (words[0], "ok"))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "RocksDB: %s", answer);
      return FALSE;
    }
  for (guint i = 1; words[i] != NULL && words[i + 1] != NULL; i += 2)
    {
      TpsCallTime call = { g_ascii_strtoll (words[i], NULL, 10),
                           g_ascii_strtoll (words[i + 1], NULL, 10) };

      g_array_append_val (calls, call);
    }
  if (!is_warm_up)
    add_calls (bench->run->figures, ROCKSDB, PUSH_ROW, &pushes_per_s, calls);
  return TRUE;
}

static gboolean
run_rocksdb (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  g_autofree gchar *line = g_strdup_printf ("%g", bench->options->seconds);
  g_autofree gchar *answer = NULL;

  tps_child_resume (bench->rocksdb);
  answer = tps_child_ask (bench->rocksdb, line, error);
  tps_child_pause (bench->rocksdb);
  return answer != NULL && add_answer (bench, answer, is_warm_up, error);
}

static gboolean
start_rocksdb (Bench *bench, GError **error)
{
  const TpsDurabilityOptions *o = bench->options;
  g_autofree gchar *program = tps_bench_find_file ("bench/rocksdb_push", NULL);
  g_auto (GStrv) argv = NULL;
  g_autofree gchar *version = NULL;
  TpsFigureLimit limit = { ROCKSDB, "/ RocksDB", NULL };

  if (program == NULL)
    {
      skip (bench, "RocksDB",
            "librocksdb was not installed when this program was built; apt-get "
            "install librocksdb-dev");
      return TRUE;
    }
  tps_engine_set_phase (bench->run->engine, "RocksDB starts");
  argv = tps_argv_format ("%s\n%s/rocksdb\n%" G_GINT64_FORMAT "\n%" G_GINT64_FORMAT
                          "\n%" G_GINT64_FORMAT "\n%d",
                          program, bench->folder, o->n_rows, o->dim, o->n_ids, o->n_clients);
  bench->rocksdb = tps_child_start (bench->run->supervisor, "rocksdb", argv, error);
  version = bench->rocksdb != NULL ? tps_child_receive (bench->rocksdb, error) : NULL;
  if (version == NULL)
    return FALSE;
  tps_child_pause (bench->rocksdb);
  limit.version = version;
  tps_figures_add_limit (bench->run->figures, &limit);
  return TRUE;
}

/* -- tasks -- */

static gboolean
prepare_pushes (Bench *bench, GError **error)
{
  static const TpsFigureLimit none = { "none", "/ none", NULL };
  gdouble seconds = bench->options->seconds;

  tps_figures_add_limit (bench->run->figures, &none);
  if (!bench->options->no_peers && !start_rocksdb (bench, error))
    return FALSE;
  tps_engine_begin_row (bench->run->engine);
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    add_task (bench, "push, ", modes[i].name, run_pushes, 2 * seconds + 1);
  if (bench->fio != NULL)
    add_task (bench, "push, ", FIO, run_synced_fio, seconds / 2 + 0.5);
  if (bench->rocksdb != NULL)
    add_task (bench, "push, ", ROCKSDB, run_rocksdb, seconds);
  return TRUE;
}

#define SNAPSHOT_ROW "snapshot"
#define RESTORE_ROW "restore"

/* The block size of fio's sequential writes and reads, and the distance of hashed rows. */
#define BLOCK_BYTES ((gsize) 2 << 20)
#define HASHED_STEP 61
/* The distance of the rows that change before a snapshot: without changes, there is none. */
#define CHANGED_STEP 1024

/* For the estimate of the time. */
#define USUAL_BYTES_PER_S 1e9

/* -- our servers -- */

static gboolean
measure_snapshot (Bench *bench, gboolean is_warm_up, gdouble *n_bytes, GError **error)
{
  TpsDurabilityServer *server = bench->large_server;
  TpsChild *child = server->served->child;
  g_auto (TpsWireSnapshotInfo) info = { 0 };
  gsize before;
  gint64 start_ns;
  gdouble seconds;

  tps_child_reset_peak (child);
  before = tps_child_get_resident_bytes (child);
  start_ns = tps_clock_now_ns ();
  if (!tps_remote_snapshot (server->client, FALSE, tps_served_get_deadline (), &info, error))
    return FALSE;
  seconds = (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
  *n_bytes = (gdouble) info.n_bytes;
  if (*n_bytes < (gdouble) (bench->large.n_rows * bench->large.dim * sizeof (gfloat)))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                   "snapshot %s has %.0f bytes, fewer than the table", info.name, *n_bytes);
      return FALSE;
    }
  if (is_warm_up)
    return TRUE;
  tps_figures_add (bench->run->figures, OURS, SNAPSHOT_ROW, &gb_per_s, *n_bytes / seconds / 1e9);
  tps_figures_add (bench->run->figures, OURS, SNAPSHOT_ROW, &memory_mib,
                   ((gdouble) tps_child_get_peak_bytes (child) - (gdouble) before) / (1 << 20));
  return TRUE;
}

/* Measures the time from the start of the process until it serves, and checks the rows. */
static gboolean
measure_restore (Bench *bench, gboolean is_warm_up, gdouble n_bytes, GError **error)
{
  guint before, after;
  gdouble seconds;

  if (!tps_durability_server_read (bench->large_server, &bench->large, HASHED_STEP, NULL, &before,
                                   error)
      || !restart_large_server (bench, &seconds, error)
      || !tps_durability_server_read (bench->large_server, &bench->large, HASHED_STEP, NULL, &after,
                                      error))
    return FALSE;
  if (before != after)
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                           "the table has other rows after a restart");
      return FALSE;
    }
  if (!is_warm_up)
    tps_figures_add (bench->run->figures, OURS, RESTORE_ROW, &gb_per_s, n_bytes / seconds / 1e9);
  return TRUE;
}

/* Changes some rows. Pushes twice: a snapshot contains only completed pushes, and a push may be
 * recorded as complete only after its reply. */
static gboolean
change_some (const TpsDurabilityServer *server, const Bench *bench, GError **error)
{
  for (guint i = 0; i < 2; i++)
    if (!tps_durability_server_push_all (server, &bench->large, CHANGED_STEP, error))
      return FALSE;
  return TRUE;
}

static gboolean
run_snapshots (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  TpsDurabilityServer *server = get_large_server (bench, error);
  gdouble n_bytes;

  return server != NULL && change_some (server, bench, error)
         && measure_snapshot (bench, is_warm_up, &n_bytes, error)
         && measure_restore (bench, is_warm_up, n_bytes, error);
}

/* -- the limits -- */

static gboolean
run_fio (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  TpsSupervisor *supervisor = bench->run->supervisor;
  TpsFioJob job = { .pattern = TPS_FIO_WRITE,
                    .folder = bench->folder,
                    .n_bytes = (gsize) bench->options->n_bytes,
                    .block_bytes = BLOCK_BYTES };
  gdouble written, read;

  if (!tps_fio_run (supervisor, &job, &written, error))
    return FALSE;
  job.pattern = TPS_FIO_READ;
  if (!tps_fio_run (supervisor, &job, &read, error))
    return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add (bench->run->figures, FIO, SNAPSHOT_ROW, &gb_per_s, written / 1e9);
  tps_figures_add (bench->run->figures, FIO, RESTORE_ROW, &gb_per_s, read / 1e9);
  return TRUE;
}

/* -- the peer -- */

static gboolean
run_torch (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  gdouble seconds = tps_child_send (bench->torch, "save", error)
                        ? tps_child_receive_seconds (bench->torch, NULL, error)
                        : -1;

  if (seconds < 0)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add (bench->run->figures, TORCH, SNAPSHOT_ROW, &gb_per_s,
                     (gdouble) bench->options->n_bytes / seconds / 1e9);
  return TRUE;
}

/* Returns TRUE if the interpreter has PyTorch; otherwise records that torch.save is skipped. */
static gboolean
has_torch (Bench *bench)
{
  g_auto (GStrv) argv = tps_argv_format ("%s\n-c\nimport torch", tps_bench_find_python ());
  g_autoptr (GError) local = NULL;
  g_autoptr (TpsChild) child = tps_child_start (bench->run->supervisor, "torch", argv, &local);
  g_autofree gchar *said = child != NULL ? tps_child_receive_all (child, &local) : NULL;

  if (said == NULL)
    skip (bench, "torch.save", "PyTorch is not installed; apt-get install python3-torch");
  return said != NULL;
}

static gboolean
start_torch (Bench *bench, GError **error)
{
  g_autofree gchar *script = tps_bench_find_file ("bench/peers/pytorch_save.py", error);
  g_autofree gchar *file = g_build_filename (bench->folder, "torch.pt", NULL);
  g_autofree gchar *n_bytes = g_strdup_printf ("%" G_GINT64_FORMAT, bench->options->n_bytes);
  gchar *argv[] = { (gchar *) (gsize) tps_bench_find_python (), script, file, n_bytes, NULL };
  g_autofree gchar *version = NULL;
  TpsFigureLimit limit = { TORCH, "/ torch", NULL };

  if (script == NULL)
    return FALSE;
  tps_engine_set_phase (bench->run->engine, "PyTorch starts");
  bench->torch = tps_child_start (bench->run->supervisor, "pytorch", argv, error);
  version = bench->torch != NULL ? tps_child_receive_from_script (bench->torch, error) : NULL;
  limit.version = version;
  if (version != NULL)
    tps_figures_add_limit (bench->run->figures, &limit);
  return version != NULL;
}

/* -- tasks -- */

static gboolean
prepare_snapshots (Bench *bench, GError **error)
{
  gdouble seconds = (gdouble) bench->options->n_bytes / USUAL_BYTES_PER_S;

  if (!bench->options->no_peers && has_torch (bench) && !start_torch (bench, error))
    return FALSE;
  if (get_large_server (bench, error) == NULL)
    return FALSE;
  tps_engine_begin_row (bench->run->engine);
  add_task (bench, "a snapshot, and a restart", NULL, run_snapshots, 4 * seconds + 1);
  if (bench->fio != NULL)
    add_task (bench, "fio, sequential", NULL, run_fio, 2 * seconds + 1);
  if (bench->torch != NULL)
    add_task (bench, "torch.save", NULL, run_torch, 3 * seconds);
  return TRUE;
}

#define LOOKUP_ROW "lookup"
#define WITHOUT "without a snapshot"
#define DURING "during a snapshot"
#define PUSHES "push beside lookups"
#define N_LOOKUP_CLIENTS 1
#define N_PUSH_CLIENTS 2

/* Clients that look up rows (index 0), and clients that push (index 1). */
typedef struct
{
  Bench *bench;
  LoadShape shapes[2];
  Load *loads[2]; /* NULL = not running */
} Mixed;

static void
stop_mixed (Mixed *mixed)
{
  for (guint i = 0; i < G_N_ELEMENTS (mixed->loads); i++)
    g_clear_pointer (&mixed->loads[i], load_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Mixed, stop_mixed)

/* Starts both kinds of clients. `mixed` must be zero. After an error, stop_mixed() cleans up. */
static gboolean
start_mixed (Mixed *mixed, Bench *bench, GError **error)
{
  const TpsDurabilityOptions *o = bench->options;
  TpsDurabilityServer *server = get_large_server (bench, error);

  if (server == NULL)
    return FALSE;
  mixed->bench = bench;
  for (guint i = 0; i < G_N_ELEMENTS (mixed->loads); i++)
    {
      mixed->shapes[i] = (LoadShape) {
        .table = &bench->large,
        .n_ids = (gsize) o->n_ids,
        .n_clients = i == 0 ? N_LOOKUP_CLIENTS : N_PUSH_CLIENTS,
        .is_push = i == 1,
      };
      mixed->loads[i] = load_start (server->served->addresses[0], &mixed->shapes[i], error);
      if (mixed->loads[i] == NULL)
        return FALSE;
    }
  return TRUE;
}

/* Ends both kinds of clients. The caller owns the calls of both. */
static gboolean
finish_mixed (Mixed *mixed, GArray **lookups, GArray **pushes, GError **error)
{
  *lookups = load_stop (g_steal_pointer (&mixed->loads[0]), error);
  if (*lookups == NULL)
    return FALSE;
  *pushes = load_stop (g_steal_pointer (&mixed->loads[1]), error);
  return *pushes != NULL;
}

static gboolean
write_snapshot (Bench *bench, gint64 *begin_ns, gint64 *end_ns, GError **error)
{
  g_auto (TpsWireSnapshotInfo) info = { 0 };

  *begin_ns = tps_clock_now_ns ();
  if (!tps_remote_snapshot (bench->large_server->client, FALSE, tps_served_get_deadline (), &info,
                            error))
    return FALSE;
  *end_ns = tps_clock_now_ns ();
  return TRUE;
}

/* Returns the calls that overlap [begin_ns, end_ns]. The caller owns the result. */
static GArray *
select_calls (const GArray *calls, gint64 begin_ns, gint64 end_ns)
{
  GArray *selected = g_array_new (FALSE, FALSE, sizeof (TpsCallTime));

  for (guint i = 0; i < calls->len; i++)
    {
      const TpsCallTime *call = &g_array_index (calls, TpsCallTime, i);

      if (call->end_ns >= begin_ns && call->begin_ns <= end_ns)
        g_array_append_val (selected, *call);
    }
  return selected;
}

/* Lets the measured time pass while both kinds of clients run, and returns its bounds. It is the
 * time of a snapshot, or a fixed time. */
static gboolean
spend_time (Bench *bench, gboolean with_snapshot, gint64 *begin_ns, gint64 *end_ns, GError **error)
{
  if (with_snapshot)
    return write_snapshot (bench, begin_ns, end_ns, error);
  *begin_ns = tps_clock_now_ns ();
  if (!wait_for (bench, bench->options->seconds, error))
    return FALSE;
  *end_ns = tps_clock_now_ns ();
  return TRUE;
}

static gboolean
run_lookups (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  Bench *bench = data;
  gboolean with_snapshot = g_str_equal (system, DURING);
  g_auto (Mixed) mixed = { 0 };
  g_autoptr (GArray) lookups = NULL, pushes = NULL, lookups_then = NULL, pushes_then = NULL;
  gint64 begin_ns, end_ns;

  if (!start_mixed (&mixed, bench, error)
      || !spend_time (bench, with_snapshot, &begin_ns, &end_ns, error)
      || !finish_mixed (&mixed, &lookups, &pushes, error))
    return FALSE;
  if (is_warm_up)
    return TRUE;
  lookups_then = select_calls (lookups, begin_ns, end_ns);
  pushes_then = select_calls (pushes, begin_ns, end_ns);
  add_calls (bench->run->figures, system, LOOKUP_ROW, &lookups_per_s, lookups_then);
  add_calls (bench->run->figures, system, PUSHES, &pushes_per_s, pushes_then);
  return TRUE;
}

/* -- tasks -- */

static gboolean
prepare_lookups (Bench *bench, GError **error)
{
  if (get_large_server (bench, error) == NULL)
    return FALSE;
  tps_engine_begin_row (bench->run->engine);
  add_task (bench, "lookups ", WITHOUT, run_lookups, bench->options->seconds + 0.5);
  add_task (bench, "lookups ", DURING, run_lookups, bench->options->seconds + 0.5);
  return TRUE;
}

/* -- figures -- */

static gchar *
name_figure (const gchar *system, const gchar *row)
{
  return g_str_equal (system, OURS) ? g_strdup (row) : g_strdup_printf ("%s %s", row, system);
}

static const TpsFigureColumn columns[] = {
  { "median", "", NULL, 50 },
  { "p50 ms", " p50", NULL, 50 },
  { "p99 ms", " p99", NULL, 50 },
  { "p99.9 ms", " p99.9", NULL, 50 },
  { "longest", " longest", NULL, 50 },
  { "MiB", " memory", NULL, 50 },
  { "log/recv", " log / received", NULL, 50 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = {
  .name = name_figure, .label = name_figure, .columns = columns, .has_units = TRUE
};

/* -- the part restart -- */

#define USUAL_RESTART_S 0.1

/* Measures the time from the start of a process until it serves, for a server without tables. The
 * data directory is new only in the warm-up. */
static gboolean
run_restart (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  static const TpsDurabilityMode mode = { "empty", "commit" };
  Bench *bench = data;
  TpsDurabilityServerOptions options;
  g_autoptr (TpsDurabilityServer) server = NULL;
  gdouble seconds;

  if (!init_server (bench, &mode, "empty", &options, error))
    return FALSE;
  server = tps_durability_server_start (bench->run->supervisor, &options, &seconds, error);
  g_free (options.data_dir);
  if (server == NULL)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add (bench->run->figures, OURS, "restart of an empty server", &in_ms,
                     seconds * 1000);
  return TRUE;
}

static gboolean
prepare_restarts (Bench *bench, GError **error)
{
  tps_engine_begin_row (bench->run->engine);
  add_task (bench, "restart of an empty server", NULL, run_restart, USUAL_RESTART_S);
  return TRUE;
}

/* -- functions of the benchmark -- */

static gboolean
load (gpointer user_data, GError **error)
{
  return tps_durability_options_fit (((Bench *) user_data)->options, error);
}

static gboolean
find_fio (Bench *bench, GError **error)
{
  g_autofree gchar *reason = NULL;
  TpsFigureLimit limit = { FIO, "/ fio", NULL };

  bench->fio = tps_fio_find (bench->run->supervisor, &reason, error);
  if (bench->fio == NULL && reason == NULL)
    return FALSE;
  if (bench->fio == NULL)
    skip (bench, "limits of the disk", reason);
  limit.version = bench->fio;
  if (bench->fio != NULL)
    tps_figures_add_limit (bench->run->figures, &limit);
  return TRUE;
}

static void
set_tables (Bench *bench)
{
  const TpsDurabilityOptions *o = bench->options;
  gsize dim = (gsize) o->dim;

  bench->pushed = (TpsDurabilityTable) { .name = "pushed",
                                         .n_rows = (gsize) o->n_rows,
                                         .dim = dim };
  bench->large = (TpsDurabilityTable) { .name = "large",
                                        .n_rows = MAX ((gsize) o->n_bytes / (dim * sizeof (gfloat)),
                                                       1),
                                        .dim = dim,
                                        .is_random = TRUE };
}

static gboolean
prepare_parts (Bench *bench, GError **error)
{
  static const struct
  {
    const gchar *name;
    gboolean (*prepare) (Bench *bench, GError **error);
  } parts[] = { { "push", prepare_pushes },
                { "restart", prepare_restarts },
                { "snapshot", prepare_snapshots },
                { "lookup", prepare_lookups } };

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (tps_durability_options_has_part (bench->options, parts[i].name)
        && !parts[i].prepare (bench, error))
      return FALSE;
  return TRUE;
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  Bench *bench = user_data;
  g_autofree gchar *pattern = g_build_filename (bench->options->disk, "thriftps-XXXXXX", NULL);

  bench->run = run;
  if (g_mkdtemp (pattern) == NULL)
    {
      tps_flags_refuse ("disk", bench->options->disk, "a folder that can be written to", error);
      return FALSE;
    }
  bench->folder = g_steal_pointer (&pattern);
  set_tables (bench);
  return tps_durability_server_probe (run->supervisor, bench->options->server_binary,
                                      &bench->writes_snapshots, error)
         && find_fio (bench, error) && prepare_parts (bench, error);
}

static void
stop (gpointer user_data)
{
  Bench *bench = user_data;

  g_clear_pointer (&bench->large_server, tps_durability_server_kill);
  if (bench->rocksdb != NULL)
    tps_child_kill (bench->rocksdb);
  g_clear_pointer (&bench->rocksdb, tps_child_free);
  if (bench->torch != NULL)
    tps_child_kill (bench->torch);
  g_clear_pointer (&bench->torch, tps_child_free);
  g_clear_pointer (&bench->folder, tps_bench_remove_folder);
}

/* -- ratios that are not ratios to limits -- */

typedef struct
{
  const gchar *name;
  const gchar *system, *row;             /* of the numerator */
  const gchar *other_system, *other_row; /* of the denominator */
  const TpsQuantity *quantity;
  const gchar *better;
} Ratio;

static const Ratio ratios[] = {
  { "push none / no data directory", "none", "push", "no data directory", "push", &pushes_per_s,
    "higher" },
  { "replay / push commit", OURS, "replay", "commit", "push", &pushes_per_s, "higher" },
  { "lookup p99.9 during a snapshot / without", "during a snapshot", "lookup", "without a snapshot",
    "lookup", &of_p999, "lower" },
};

static void
add_output (gpointer user_data, TpsBenchOutput *output)
{
  const Bench *bench = user_data;

  for (guint i = 0; i < G_N_ELEMENTS (ratios); i++)
    {
      const Ratio *ratio = &ratios[i];
      const GArray *ours = tps_figures_get_samples (bench->run->figures, ratio->system, ratio->row,
                                                    ratio->quantity);
      const GArray *other = tps_figures_get_samples (bench->run->figures, ratio->other_system,
                                                     ratio->other_row, ratio->quantity);

      if (ours != NULL && other != NULL)
        tps_bench_output_add_ratio (output, ratio->name, tps_percentile (ours, 50),
                                    tps_percentile (other, 50), ratio->better);
    }
  for (guint i = 0; i < bench->skips->len; i++)
    tps_bench_output_add_fact (output, "not measured", bench->skips->pdata[i]);
}

static void
print_report (gpointer user_data)
{
  const Bench *bench = user_data;
  g_auto (TpsBenchOutput) output = { 0 };

  tps_bench_output_init (&output, NAME, NULL);
  tps_figures_output (bench->run->figures, &output);
  add_output (user_data, &output);
  printf ("\nratios of the medians\n");
  for (guint i = 0; i < output.ratios->len; i++)
    {
      const TpsBenchRatio *ratio = &g_array_index (output.ratios, TpsBenchRatio, i);

      printf ("%-46s %10.3f\n", ratio->name, ratio->ours / ratio->peer);
    }
  for (guint i = 0; i < bench->skips->len; i++)
    printf ("not measured: %s\n", (gchar *) bench->skips->pdata[i]);
}

static gint
run_benchmark (TpsDurabilityOptions *options)
{
  static const TpsBenchmark benchmark = {
    .command_line = &tps_durability_command_line,
    .load = load,
    .prepare = prepare,
    .stop = stop,
    .style = &style,
    .print_report = print_report,
    .add_output = add_output,
  };
  Bench bench = { .options = options, .skips = g_ptr_array_new_with_free_func (g_free) };
  gint status = tps_benchmark_run (&benchmark, &options->run, &bench);

  g_ptr_array_unref (bench.skips);
  g_free (bench.server.data_dir);
  g_free (bench.fio);
  return status;
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  g_auto (TpsDurabilityOptions) options = { 0 };

  tps_benchmark_init ();
  if (!tps_durability_options_parse (&options, argc, argv, &error))
    return tps_benchmark_refuse (NAME, error);
  return run_benchmark (&options);
}
