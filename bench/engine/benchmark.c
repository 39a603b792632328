/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/engine/benchmark.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

#define EXIT_BAD_FLAG 2
#define EXIT_INTERRUPTED 130
#define STOP_PATIENCE_MS 3000
#define WORTH_SAYING_S 5 /* the time from which the length of a run is announced at its start */

typedef struct
{
  const TpsBenchmark *benchmark;
  const TpsRunFlags *flags;
  gpointer user_data;
  TpsBenchRun run;
} Life;

/* Checks before the run that the outputs can be written: a late failure would waste a long run. */
static gboolean
check_outputs (const TpsRunFlags *flags, GError **error)
{
  g_autofree gchar *folder = flags->json != NULL ? g_path_get_dirname (flags->json) : NULL;

  if (folder != NULL && access (folder, W_OK) != 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--json: cannot write into %s: %s",
                   folder, g_strerror (errno));
      return FALSE;
    }
  return TRUE;
}

/* Prints the description of the run. Called before the systems start. */
static void
print_head (const Life *life)
{
  const TpsBenchmark *benchmark = life->benchmark;
  g_autoptr (GPtrArray) flags = tps_command_line_describe (benchmark->command_line, life->flags);
  g_autofree gchar *host = tps_bench_describe_host ();
  g_autofree gchar *note = benchmark->note != NULL ? benchmark->note (life->user_data) : NULL;

  printf ("%s:", benchmark->command_line->name);
  for (guint i = 0; i < flags->len; i++)
    printf (" %s", (gchar *) flags->pdata[i]);
  printf ("\nhost: %s%s%s\n\n", host, note != NULL ? "; " : "", note != NULL ? note : "");
  if (benchmark->print_head != NULL)
    benchmark->print_head (life->user_data);
  fflush (stdout);
}

void
tps_benchmark_say_length (TpsBenchRun *run)
{
  gdouble seconds = tps_engine_estimate (run->engine);
  g_autofree gchar *span = NULL;

  if (run->has_said_length || !isfinite (seconds) || seconds < WORTH_SAYING_S)
    return;
  span = tps_span_to_string (seconds);
  fprintf (stderr, "%s: takes about %s\n", run->name, span);
  run->has_said_length = TRUE;
}

static gboolean
write_json (const Life *life, GError **error)
{
  g_autoptr (GPtrArray)
      flags = tps_command_line_describe (life->benchmark->command_line, life->flags);
  g_auto (TpsBenchOutput) output;

  tps_bench_output_init (&output, life->benchmark->command_line->name, flags);
  if (life->run.figures != NULL)
    tps_figures_output (life->run.figures, &output);
  if (life->benchmark->add_output != NULL)
    life->benchmark->add_output (life->user_data, &output);
  return tps_bench_output_write_json (&output, life->flags->json, error);
}

/* Fails the run if the report has not been written completely. */
static gboolean
finish_output (GError **error)
{
  if (fflush (stdout) == 0 && !ferror (stdout))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "the report cannot be written to standard output");
  return FALSE;
}

static void
print_figures (const TpsFigures *figures)
{
  g_autofree gchar *table = tps_figures_show (figures);

  fputs (table, stdout);
}

static gboolean
report (const Life *life, GError **error)
{
  const TpsBenchmark *benchmark = life->benchmark;

  if (life->run.figures != NULL)
    print_figures (life->run.figures);
  if (benchmark->print_report != NULL)
    benchmark->print_report (life->user_data);
  return (life->flags->json == NULL || write_json (life, error)) && finish_output (error);
}

static gboolean
measure (Life *life, GError **error)
{
  if (!life->benchmark->prepare (life->user_data, &life->run, error))
    return FALSE;
  tps_benchmark_say_length (&life->run);
  return tps_engine_run (life->run.engine, error) && report (life, error);
}

static void
stop (Life *life)
{
  life->benchmark->stop (life->user_data);
  tps_supervisor_stop (life->run.supervisor,
                       tps_interrupt_is_set () ? STOP_PATIENCE_MS / 3 : STOP_PATIENCE_MS);
  tps_supervisor_free (life->run.supervisor);
  tps_engine_free (life->run.engine);
  g_clear_pointer (&life->run.figures, tps_figures_free);
  g_clear_pointer (&life->run.folder, tps_bench_remove_folder);
}

gint
tps_benchmark_run (const TpsBenchmark *benchmark, const TpsRunFlags *flags, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  Life life = { .benchmark = benchmark, .flags = flags, .user_data = user_data };
  const gchar *name = benchmark->command_line->name;
  gint status = 0;

  tps_interrupt_install ();
  if ((benchmark->load != NULL && !benchmark->load (user_data, &error))
      || !check_outputs (flags, &error))
    return tps_benchmark_refuse (name, error);
  print_head (&life);
  life.run.name = name;
  life.run.supervisor = tps_supervisor_new ();
  life.run.engine = tps_engine_new ((guint) flags->repeats);
  if (benchmark->style != NULL)
    life.run.figures = tps_figures_new (benchmark->style);
  tps_supervisor_set_waiting (life.run.supervisor, tps_engine_tick, life.run.engine);
  if (!measure (&life, &error))
    {
      fflush (stdout);
      fprintf (stderr, "%s: %s\n", name, error->message);
      status = tps_interrupt_is_set () ? EXIT_INTERRUPTED : 1;
      if (benchmark->fail != NULL)
        benchmark->fail (user_data, error);
    }
  stop (&life);
  return status;
}

const gchar *
tps_benchmark_get_folder (TpsBenchRun *run, GError **error)
{
  if (run->folder == NULL)
    run->folder = g_dir_make_tmp ("thriftps-XXXXXX", error);
  return run->folder;
}

void
tps_benchmark_init (void)
{
  /* Only the character set follows the user: numbers have the same format in every locale. */
  setlocale (LC_CTYPE, "");
}

gint
tps_benchmark_refuse (const gchar *name, const GError *error)
{
  fprintf (stderr, "%s: %s\n", name, error->message);
  return EXIT_BAD_FLAG;
}
