/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs the tasks of a benchmark: a warm-up, then rounds. Each round runs every task once. A
 * disturbance of the machine therefore affects all systems.
 *
 * A row is a group of tasks: systems that are compared with each other. The tasks of a row run one
 * after another. Each round starts with another task of the row, because a run affects caches and
 * the placement of threads. A line of progress on stderr shows the running task and the remaining
 * time. A terminal rewrites the line in place; otherwise a new line appears every few seconds.
 *
 * Thread: the thread that created the engine. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsEngine TpsEngine;

/* Runs a task once, and stores the measurements unless it is a warm-up. Pointers of the task. */
typedef gboolean (*TpsTaskRun) (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up,
                                GError **error);

/* A task: the work of one system in one row. */
typedef struct
{
  TpsTaskRun run;
  gpointer bench, system, row; /* borrowed; passed to `run` */
  gboolean no_warm_up;         /* runs in measured rounds only */
  /* expected seconds of one run on a typical machine; 0 = unknown. The warm-up: 0 = the same */
  gdouble measured_s;
  gdouble warm_up_s;
} TpsTask;

/* Creates an engine with `n_rounds` measured rounds. The caller owns the result. */
TpsEngine *tps_engine_new (guint n_rounds);
void tps_engine_free (TpsEngine *engine);

/* tps_engine_begin_row() starts a row; tps_engine_add() adds a task to the newest row. The task is
 * copied. Its title, such as "push 16 MiB, thriftps tcp", is for the line of progress. */
void tps_engine_begin_row (TpsEngine *engine);
void tps_engine_add (TpsEngine *engine, const TpsTask *task, const gchar *title, ...)
    G_GNUC_PRINTF (3, 4);

/* Returns the remaining seconds, or the total seconds before the start. NAN if unknown. */
gdouble tps_engine_estimate (TpsEngine *engine);

/* Sets a function that is called once, after the warm-up of all tasks. */
void tps_engine_on_warm (TpsEngine *engine, void (*warm) (gpointer user_data), gpointer user_data);

/* Sets the text of progress before the first task, such as "starting PyTorch"; copied. */
void tps_engine_set_phase (TpsEngine *engine, const gchar *phase);

/* Runs all tasks. Blocks. Errors: those of the tasks; ABORTED after an interrupt. */
gboolean tps_engine_run (TpsEngine *engine, GError **error);

/* For calls from a long task. tps_engine_is_due() returns TRUE if the line of progress is due.
 * tps_engine_show() prints the line, with a text such as "epoch 2 of 10" (NULL = only the title).
 * `share` is the completed fraction of the run, from 0 to 1; NAN = unknown. */
gboolean tps_engine_is_due (TpsEngine *engine);
void tps_engine_show (TpsEngine *engine, const gchar *detail, gdouble share);

/* Prints the line of progress if it is due; for tps_supervisor_set_waiting(). `data` = engine. */
void tps_engine_tick (gpointer data);

/* -- estimates, without a clock -- */

/* The runs of one task. Index 0 is the warm-up, index 1 the measured runs. */
typedef struct
{
  gdouble expected_s[2]; /* of one run on a typical machine; 0 = unknown */
  gdouble spent_s[2];    /* in all runs so far */
  guint n_runs[2];       /* so far */
} TpsTaskTime;

/* Adds a run that has ended. */
void tps_task_time_add (TpsTaskTime *time, gboolean is_measured, gdouble seconds);

/* Returns the ratio of actual to expected time of all tasks that have run with one; 1 without any.
 * Warm-ups have their own ratio, because their initial work has no expected time. */
gdouble tps_task_time_get_pace (const TpsTaskTime *times, guint n_times, gboolean is_measured);

/* Returns the seconds of one run: the mean of the runs so far; without runs, the expected time
 * multiplied by `pace`; without an expected time, the time of the warm-up. NAN if none is known. */
gdouble tps_task_time_estimate (const TpsTaskTime *time, gboolean is_measured, gdouble pace);

/* Formats a duration as "40 s", "3 min 10 s" or "2 h 05 min". The caller owns the result. */
gchar *tps_span_to_string (gdouble seconds);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsEngine, tps_engine_free)

G_END_DECLS
