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
 * on one system. A figure is the median of the rounds. Tables are checked after pushes and after
 * restarts. */

#include <stdio.h>

#include "bench/durability/parts.h"
#include "bench/process/runfiles.h"
#include "bench/report/percentile.h"

#define NAME "durability"

/* -- figures -- */

static gchar *
name_figure (const gchar *system, const gchar *row)
{
  return g_str_equal (system, TPS_DURABILITY_OURS) ? g_strdup (row)
                                                   : g_strdup_printf ("%s %s", row, system);
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
  TpsDurabilityBench *bench = data;
  TpsDurabilityServerOptions options;
  g_autoptr (TpsDurabilityServer) server = NULL;
  gdouble seconds;

  if (!tps_durability_init_server (bench, &mode, "empty", &options, error))
    return FALSE;
  server = tps_durability_server_start (bench->run->supervisor, &options, &seconds, error);
  g_free (options.data_dir);
  if (server == NULL)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add (bench->run->figures, TPS_DURABILITY_OURS, "restart of an empty server",
                     &tps_durability_ms, seconds * 1000);
  return TRUE;
}

static gboolean
prepare_restarts (TpsDurabilityBench *bench, GError **error)
{
  TpsTask task = { .run = run_restart, .bench = bench, .measured_s = USUAL_RESTART_S };

  tps_engine_begin_row (bench->run->engine);
  tps_engine_add (bench->run->engine, &task, "restart of an empty server");
  return TRUE;
}

/* -- functions of the benchmark -- */

static gboolean
load (gpointer user_data, GError **error)
{
  return tps_durability_options_fit (((TpsDurabilityBench *) user_data)->options, error);
}

static gboolean
find_fio (TpsDurabilityBench *bench, GError **error)
{
  g_autofree gchar *reason = NULL;
  TpsFigureLimit limit = { TPS_DURABILITY_FIO, "/ fio", NULL };

  bench->fio = tps_fio_find (bench->run->supervisor, &reason, error);
  if (bench->fio == NULL && reason == NULL)
    return FALSE;
  if (bench->fio == NULL)
    tps_durability_skip (bench, "limits of the disk", reason);
  limit.version = bench->fio;
  if (bench->fio != NULL)
    tps_figures_add_limit (bench->run->figures, &limit);
  return TRUE;
}

static void
set_tables (TpsDurabilityBench *bench)
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
prepare_parts (TpsDurabilityBench *bench, GError **error)
{
  static const struct
  {
    const gchar *name;
    gboolean (*prepare) (TpsDurabilityBench *bench, GError **error);
  } parts[] = { { "push", tps_durability_prepare_pushes },
                { "restart", prepare_restarts },
                { "snapshot", tps_durability_prepare_snapshots },
                { "lookup", tps_durability_prepare_lookups } };

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (tps_durability_options_has_part (bench->options, parts[i].name)
        && !parts[i].prepare (bench, error))
      return FALSE;
  return TRUE;
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  TpsDurabilityBench *bench = user_data;
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
  TpsDurabilityBench *bench = user_data;

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
  { "push none / no data directory", "none", "push", "no data directory", "push",
    &tps_durability_pushes_per_s, "higher" },
  { "replay / push commit", TPS_DURABILITY_OURS, "replay", "commit", "push",
    &tps_durability_pushes_per_s, "higher" },
  { "lookup p99.9 during a snapshot / without", "during a snapshot", "lookup", "without a snapshot",
    "lookup", &tps_durability_p999, "lower" },
};

static void
add_output (gpointer user_data, TpsBenchOutput *output)
{
  const TpsDurabilityBench *bench = user_data;

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
  const TpsDurabilityBench *bench = user_data;
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
  TpsDurabilityBench bench = { .options = options,
                               .skips = g_ptr_array_new_with_free_func (g_free) };
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
