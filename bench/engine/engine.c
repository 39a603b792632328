/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/engine/engine.h"

#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/process/interrupt.h"
#include "runtime/base/sync.h"

/* A line on stderr that shows progress. A terminal rewrites the line in place; otherwise a new line
 * appears every few seconds. Thread: one thread at a time. */

/* The state of the line. */
typedef struct
{
  gboolean is_terminal;
  gboolean shown; /* a text has been shown */
  gint64 next_ns; /* the time from which a new text is due */
} StatusLine;

#define TERMINAL_INTERVAL_NS G_GINT64_CONSTANT (200000000)
#define FILE_INTERVAL_NS G_GINT64_CONSTANT (5000000000)

static void
wait_from (StatusLine *line, gint64 now_ns)
{
  line->next_ns = now_ns + (line->is_terminal ? TERMINAL_INTERVAL_NS : FILE_INTERVAL_NS);
}

/* Initialises the line. The first text is due after one interval. */
static void
status_line_init (StatusLine *line)
{
  *line = (StatusLine) { .is_terminal = isatty (STDERR_FILENO) };
  wait_from (line, tps_clock_now_ns ());
}

/* Shows `text`, which must not end with a newline, and starts the next interval. */
static void
status_line_show (StatusLine *line, const gchar *text)
{
  wait_from (line, tps_clock_now_ns ());
  line->shown = TRUE;
  fprintf (stderr, line->is_terminal ? "\r%s\033[K" : "%s\n", text);
  fflush (stderr);
}

#define NOTHING G_MAXUINT
/* the completed fraction of a run from which its length can be estimated */
#define LEAST_SHARE 0.02

/* A range of indices of tasks. */
typedef struct
{
  guint first, n_tasks;
} Row;

struct TpsEngine
{
  guint n_rounds;
  GArray *rows;  /* of Row */
  GArray *tasks; /* of TpsTask */
  GPtrArray *titles;
  GArray *times; /* of TpsTaskTime, one for each task, like the titles */
  void (*warm) (gpointer user_data);
  gpointer warm_data;

  /* The current position. */
  guint round;   /* 0 = the warm-up */
  guint task;    /* index, or NOTHING */
  gint64 run_ns; /* the start of the current run */
  gchar *phase;  /* the text of the line of progress before the first task */
  StatusLine line;
};

TpsEngine *
tps_engine_new (guint n_rounds)
{
  TpsEngine *engine = g_new0 (TpsEngine, 1);

  engine->n_rounds = n_rounds;
  engine->rows = g_array_new (FALSE, FALSE, sizeof (Row));
  engine->tasks = g_array_new (FALSE, FALSE, sizeof (TpsTask));
  engine->titles = g_ptr_array_new_with_free_func (g_free);
  engine->times = g_array_new (FALSE, TRUE, sizeof (TpsTaskTime));
  engine->task = NOTHING;
  status_line_init (&engine->line);
  return engine;
}

void
tps_engine_free (TpsEngine *engine)
{
  g_array_unref (engine->rows);
  g_array_unref (engine->tasks);
  g_ptr_array_unref (engine->titles);
  g_array_unref (engine->times);
  g_free (engine->phase);
  g_free (engine);
}

static Row *
get_row (TpsEngine *engine, guint i)
{
  return &g_array_index (engine->rows, Row, i);
}

static const TpsTask *
get_task (TpsEngine *engine, guint i)
{
  return &g_array_index (engine->tasks, TpsTask, i);
}

static TpsTaskTime *
get_time (TpsEngine *engine, guint i)
{
  return &g_array_index (engine->times, TpsTaskTime, i);
}

void
tps_engine_begin_row (TpsEngine *engine)
{
  Row row = { .first = engine->tasks->len };

  g_array_append_val (engine->rows, row);
}

void
tps_engine_add (TpsEngine *engine, const TpsTask *task, const gchar *title, ...)
{
  TpsTaskTime time = { .expected_s = { task->warm_up_s > 0 ? task->warm_up_s : task->measured_s,
                                       task->measured_s } };
  va_list arguments;

  g_assert (engine->rows->len > 0);
  va_start (arguments, title);
  g_ptr_array_add (engine->titles, g_strdup_vprintf (title, arguments));
  va_end (arguments);
  g_array_append_vals (engine->tasks, task, 1);
  g_array_append_val (engine->times, time);
  get_row (engine, engine->rows->len - 1)->n_tasks++;
}

void
tps_engine_on_warm (TpsEngine *engine, void (*warm) (gpointer user_data), gpointer user_data)
{
  engine->warm = warm;
  engine->warm_data = user_data;
}

/* -- the estimate -- */

/* Returns the number of runs of a task that have not ended. */
static guint
count_left (TpsEngine *engine, guint i, gboolean is_measured)
{
  const TpsTaskTime *time = get_time (engine, i);

  if (is_measured)
    return engine->n_rounds - time->n_runs[1];
  return get_task (engine, i)->no_warm_up ? 0 : 1 - time->n_runs[0];
}

/* Estimates the seconds of one run of a task. */
static gdouble
estimate_run (TpsEngine *engine, guint i, gboolean is_measured)
{
  const TpsTaskTime *times = get_time (engine, 0);

  return tps_task_time_estimate (&times[i], is_measured,
                                 tps_task_time_get_pace (times, engine->times->len, is_measured));
}

static gdouble
get_elapsed (const TpsEngine *engine)
{
  return (gdouble) (tps_clock_now_ns () - engine->run_ns) / 1e9;
}

/* Estimates the seconds of all runs that have not ended. `run_s` is the total time of the running
 * task; NAN = as expected. If a run has taken longer than expected, it is assumed to end now. */
static gdouble
estimate (TpsEngine *engine, gdouble run_s)
{
  gdouble left_s = engine->tasks->len > 0 ? 0 : (gdouble) NAN;

  for (guint i = 0; i < engine->tasks->len; i++)
    for (guint kind = 0; kind < 2; kind++)
      {
        guint n_left = count_left (engine, i, kind == 1);
        gboolean runs = i == engine->task && (engine->round > 0) == (kind == 1);
        gdouble one_s = runs ? run_s : (gdouble) NAN;

        if (!isfinite (one_s))
          one_s = estimate_run (engine, i, kind == 1);
        if (!isfinite (one_s) && i == engine->task)
          one_s = run_s; /* The first run of a task predicts its other runs. */

        if (n_left > 0)
          left_s += n_left * one_s - (runs ? MIN (get_elapsed (engine), one_s) : 0);
      }
  return left_s;
}

gdouble
tps_engine_estimate (TpsEngine *engine)
{
  return estimate (engine, (gdouble) NAN);
}

/* -- progress -- */

gboolean
tps_engine_is_due (TpsEngine *engine)
{
  return tps_clock_now_ns () >= engine->line.next_ns;
}

static void
append_place (TpsEngine *engine, GString *text)
{
  if (engine->task == NOTHING)
    g_string_append (text, engine->phase);
  else
    {
      if (engine->round == 0)
        g_string_append (text, "warm-up: ");
      else
        g_string_append_printf (text, "round %u of %u: ", engine->round, engine->n_rounds);
      g_string_append (text, g_ptr_array_index (engine->titles, engine->task));
    }
}

void
tps_engine_set_phase (TpsEngine *engine, const gchar *phase)
{
  g_free (engine->phase);
  engine->phase = g_strdup (phase);
  tps_engine_tick (engine);
}

void
tps_engine_show (TpsEngine *engine, const gchar *detail, gdouble share)
{
  g_autoptr (GString) text = g_string_new (NULL);
  gdouble left_s = estimate (engine,
                             share >= LEAST_SHARE ? get_elapsed (engine) / share : (gdouble) NAN);

  append_place (engine, text);
  if (detail != NULL)
    g_string_append_printf (text, ", %s", detail);
  if (isfinite (left_s))
    {
      g_autofree gchar *left = tps_span_to_string (left_s);

      g_string_append_printf (text, "; about %s left", left);
    }
  status_line_show (&engine->line, text->str);
}

void
tps_engine_tick (gpointer data)
{
  TpsEngine *engine = data;

  if ((engine->task != NOTHING || engine->phase != NULL) && tps_engine_is_due (engine))
    tps_engine_show (engine, NULL, (gdouble) NAN);
}

/* -- rounds -- */

static gboolean
run_task (TpsEngine *engine, guint i, GError **error)
{
  const TpsTask *task = get_task (engine, i);
  gboolean ok;

  if (!tps_interrupt_check (error))
    return FALSE;
  engine->task = i;
  engine->run_ns = tps_clock_now_ns ();
  tps_engine_tick (engine);
  ok = task->run (task->bench, task->system, task->row, engine->round == 0, error);
  engine->task = NOTHING;
  tps_task_time_add (get_time (engine, i), engine->round > 0, get_elapsed (engine));
  return ok;
}

static gboolean
run_row (TpsEngine *engine, const Row *row, GError **error)
{
  guint first = engine->round == 0 ? 0 : engine->round - 1;

  for (guint i = 0; i < row->n_tasks; i++)
    {
      guint task = row->first + (first + i) % row->n_tasks;

      if (engine->round == 0 && get_task (engine, task)->no_warm_up)
        continue;
      if (!run_task (engine, task, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
run_round (TpsEngine *engine, GError **error)
{
  for (guint i = 0; i < engine->rows->len; i++)
    if (!run_row (engine, get_row (engine, i), error))
      return FALSE;
  return TRUE;
}

gboolean
tps_engine_run (TpsEngine *engine, GError **error)
{
  gboolean ok = TRUE;

  g_clear_pointer (&engine->phase, g_free);
  for (engine->round = 0; ok && engine->round <= engine->n_rounds; engine->round++)
    {
      ok = run_round (engine, error);
      if (ok && engine->round == 0 && engine->warm != NULL)
        engine->warm (engine->warm_data);
    }
  if (engine->line.shown && engine->line.is_terminal)
    fputs ("\r\033[K", stderr); /* clears the line */
  return ok;
}

/* -- estimates -- */

void
tps_task_time_add (TpsTaskTime *time, gboolean is_measured, gdouble seconds)
{
  time->spent_s[is_measured] += seconds;
  time->n_runs[is_measured]++;
}

gdouble
tps_task_time_get_pace (const TpsTaskTime *times, guint n_times, gboolean is_measured)
{
  gdouble spent_s = 0, expected_s = 0;

  for (guint i = 0; i < n_times; i++)
    if (times[i].expected_s[is_measured] > 0 && times[i].n_runs[is_measured] > 0)
      {
        spent_s += times[i].spent_s[is_measured];
        expected_s += times[i].expected_s[is_measured] * times[i].n_runs[is_measured];
      }
  return expected_s > 0 ? spent_s / expected_s : 1;
}

gdouble
tps_task_time_estimate (const TpsTaskTime *time, gboolean is_measured, gdouble pace)
{
  if (time->n_runs[is_measured] > 0)
    return time->spent_s[is_measured] / time->n_runs[is_measured];
  if (time->expected_s[is_measured] > 0)
    return time->expected_s[is_measured] * pace;
  return time->n_runs[0] > 0 ? time->spent_s[0] / time->n_runs[0] : (gdouble) NAN;
}

gchar *
tps_span_to_string (gdouble seconds)
{
  gint64 whole = (gint64) (seconds + 0.5);

  if (whole < 60)
    return g_strdup_printf ("%" G_GINT64_FORMAT " s", whole);
  if (whole < 3600)
    return g_strdup_printf ("%" G_GINT64_FORMAT " min %02" G_GINT64_FORMAT " s", whole / 60,
                            whole % 60);
  return g_strdup_printf ("%" G_GINT64_FORMAT " h %02" G_GINT64_FORMAT " min", whole / 3600,
                          whole / 60 % 60);
}
