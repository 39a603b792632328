/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs the tasks of a benchmark: a warm-up, then rounds. Each round runs every task once, so that a
 * disturbance of the machine affects all systems.
 *
 * Tasks are grouped in rows: systems that are compared with each other. The tasks of a row run one
 * after the other. Each round starts with another task of the row, because a run affects caches and
 * the placement of threads. A line on stderr shows the running task and the remaining time: in
 * place on a terminal, every few seconds otherwise.
 *
 * Thread: the thread that created the engine.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsEngine TpsEngine;

/* Runs a task once, and stores its measurements unless it is a warm-up. The arguments are those of
 * the task. */
typedef gboolean (*TpsTaskRun) (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up,
                                GError **error);

typedef struct
{
  const gchar *title; /* "push 16 MiB, thriftps tcp", for progress; copied */
  TpsTaskRun run;
  gpointer bench, system, row; /* borrowed; passed to `run` */
  gboolean no_warm_up;         /* runs in measured rounds only */
  gdouble
      /* the time of one run on a typical machine, for the estimate; 0 = unknown, here and below */
      warm_up_s;
  gdouble measured_s;
} TpsTask;

/* Creates an engine with `n_rounds` measured rounds. Owned by the caller. */
TpsEngine *tps_engine_new (guint n_rounds);
void tps_engine_free (TpsEngine *engine);

/* Starts a row, to which the following tasks belong. */
void tps_engine_begin_row (TpsEngine *engine);
void tps_engine_add (TpsEngine *engine, const TpsTask *task);

/* Returns the remaining seconds, or the total before the start; NAN if too little is known. */
gdouble tps_engine_estimate (TpsEngine *engine);

/* Sets a function that is called once, when all tasks have warmed up. */
void tps_engine_on_warm (TpsEngine *engine, void (*warm) (gpointer user_data), gpointer user_data);

/* Names the work before the first task for the line of progress: "starting PyTorch". Copied. */
void tps_engine_set_phase (TpsEngine *engine, const gchar *phase);

/* Runs all tasks. Errors: those of the tasks; TPS_ERROR_ABORTED if interrupted. */
gboolean tps_engine_run (TpsEngine *engine, GError **error);

/* For use within a long task: tps_engine_is_due() returns TRUE if a line of progress is due; the
 * other function prints it, with a text ("epoch 2 of 10"; NULL = the title only). `share` is the
 * completed fraction of the run, 0 to 1; NAN = unknown. */
gboolean tps_engine_is_due (TpsEngine *engine);
void tps_engine_show (TpsEngine *engine, const gchar *detail, gdouble share);

/* Prints the line of progress of the running task, or of the work before, if it is due. Suitable
 * for tps_supervisor_set_waiting(). */
void tps_engine_tick (gpointer data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsEngine, tps_engine_free)

G_END_DECLS
