/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/parts.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

#define ROW "push"

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

static TpsDurabilityLoadShape
get_shape (const TpsDurabilityBench *bench)
{
  return (TpsDurabilityLoadShape) { .table = &bench->pushed,
                                    .n_ids = (gsize) bench->options->n_ids,
                                    .n_clients = (guint) bench->options->n_clients,
                                    .is_push = TRUE };
}

/* Returns the bytes of the tensors of a push: ids and values. */
static gdouble
count_push_bytes (const TpsDurabilityBench *bench)
{
  return (gdouble) bench->options->n_ids
         * (gdouble) (sizeof (gint64) + bench->pushed.dim * sizeof (gfloat));
}

/* -- our servers -- */

typedef struct
{
  TpsDurabilityBench *bench;
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

/* Returns the server's peak memory, not counting the table and, with a log, the LSNs of its
 * rows. */
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
  TpsDurabilityLoadShape shape = get_shape (run->bench);
  g_autoptr (TpsDurabilityLoad)
      load = tps_durability_load_start (run->server->served->addresses[0], &shape, error);

  if (load == NULL || !tps_durability_wait (run->bench, run->bench->options->seconds, error))
    return NULL;
  return tps_durability_load_stop (g_steal_pointer (&load), error);
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
  tps_durability_add_calls (figures, name, ROW, &tps_durability_pushes_per_s, calls);
  tps_figures_add (figures, name, ROW, &tps_durability_memory, get_memory_mib (run));
  if (g_strcmp0 (run->options.mode->durability, "commit") == 0)
    tps_figures_add (figures, name, ROW, &tps_durability_log,
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
    tps_figures_add (run->bench->run->figures, TPS_DURABILITY_OURS, "replay",
                     &tps_durability_pushes_per_s, run->n_pushes / seconds);
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
run_ours (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsDurabilityBench *bench = data;
  Run run = { .bench = bench, .is_warm_up = is_warm_up };
  gboolean ok;

  if (!tps_durability_init_server (bench, get_mode (system), "pushed", &run.options, error))
    return FALSE;
  ok = run_steps (&run, error);
  g_clear_pointer (&run.server, tps_durability_server_kill);
  tps_bench_remove_folder (run.options.data_dir);
  return ok;
}

/* -- the limit: synced writes, each with one push of every client -- */

static gboolean
run_fio (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsDurabilityBench *bench = data;
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
    tps_figures_add (bench->run->figures, TPS_DURABILITY_FIO, ROW, &tps_durability_pushes_per_s,
                     bytes_per_s / (gdouble) group_bytes * n_pushes);
  return TRUE;
}

/* -- the peer -- */

/* Adds the pushes of the reply: "ok", followed by the start and the end of each push in ns. */
static gboolean
add_answer (TpsDurabilityBench *bench, const gchar *answer, gboolean is_warm_up, GError **error)
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
    tps_durability_add_calls (bench->run->figures, TPS_DURABILITY_ROCKSDB, ROW,
                              &tps_durability_pushes_per_s, calls);
  return TRUE;
}

static gboolean
run_rocksdb (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsDurabilityBench *bench = data;
  g_autofree gchar *line = g_strdup_printf ("%g", bench->options->seconds);
  g_autofree gchar *answer = NULL;

  tps_child_resume (bench->rocksdb);
  answer = tps_child_ask (bench->rocksdb, line, error);
  tps_child_pause (bench->rocksdb);
  return answer != NULL && add_answer (bench, answer, is_warm_up, error);
}

static gboolean
start_rocksdb (TpsDurabilityBench *bench, GError **error)
{
  const TpsDurabilityOptions *o = bench->options;
  g_autofree gchar *program = tps_bench_find_file ("bench/rocksdb_push", NULL);
  g_auto (GStrv) argv = NULL;
  g_autofree gchar *version = NULL;
  TpsFigureLimit limit = { TPS_DURABILITY_ROCKSDB, "/ RocksDB", NULL };

  if (program == NULL)
    {
      tps_durability_skip (bench, "RocksDB",
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

static void
add_task (TpsDurabilityBench *bench, const gchar *system, TpsTaskRun run, gdouble seconds)
{
  TpsTask task = {
    .run = run, .bench = bench, .system = (gpointer) (gsize) system, .measured_s = seconds
  };

  tps_engine_add (bench->run->engine, &task, "push, %s", system);
}

gboolean
tps_durability_prepare_pushes (TpsDurabilityBench *bench, GError **error)
{
  static const TpsFigureLimit none = { "none", "/ none", NULL };
  gdouble seconds = bench->options->seconds;

  tps_figures_add_limit (bench->run->figures, &none);
  if (!bench->options->no_peers && !start_rocksdb (bench, error))
    return FALSE;
  tps_engine_begin_row (bench->run->engine);
  for (guint i = 0; i < G_N_ELEMENTS (modes); i++)
    add_task (bench, modes[i].name, run_ours, 2 * seconds + 1);
  if (bench->fio != NULL)
    add_task (bench, TPS_DURABILITY_FIO, run_fio, seconds / 2 + 0.5);
  if (bench->rocksdb != NULL)
    add_task (bench, TPS_DURABILITY_ROCKSDB, run_rocksdb, seconds);
  return TRUE;
}
