/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs what a benchmark measures: a warm-up, then rounds. Each round runs every task once, so that
 * what disturbs the machine disturbs all systems.
 *
 * Tasks are dealt in rows: the systems that are compared with each other. The tasks of a row run
 * one after the other, and another one begins in each round, since a run leaves its traces in
 * caches and in the placement of threads. A line on stderr says which task runs and how long the
 * rest takes: in place on a terminal, every few seconds elsewhere.
 *
 * Thread: the one that made it.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsEngine TpsEngine;

/* Runs a task once, and keeps what it measured unless it is a warm-up. The arguments are those of
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
      warm_up_s; /* one run on a usual machine, for the estimate; 0 = not known, here and below */
  gdouble measured_s;
} TpsTask;

/* `n_rounds`: measured ones. */
TpsEngine *tps_engine_new (guint n_rounds);
void tps_engine_free (TpsEngine *engine);

/* The tasks that follow are a row. */
void tps_engine_begin_row (TpsEngine *engine);
void tps_engine_add (TpsEngine *engine, const TpsTask *task);

/* Seconds that are left, of everything before it has begun; NAN where too little is known. */
gdouble tps_engine_estimate (TpsEngine *engine);

/* Called once when all tasks have warmed up. */
void tps_engine_on_warm (TpsEngine *engine, void (*warm) (gpointer user_data), gpointer user_data);

/* What is done before the first task, for the line of progress: "starting PyTorch"; copied. */
void tps_engine_set_phase (TpsEngine *engine, const gchar *phase);

/* Errors: those of the tasks; TPS_ERROR_ABORTED when interrupted. */
gboolean tps_engine_run (TpsEngine *engine, GError **error);

/* For a task that takes long, from within: whether a line is due, and what it says ("epoch 2 of
 * 10"; NULL = the title alone). `share`: how much of the run is done, 0 to 1; NAN = not known. */
gboolean tps_engine_is_due (TpsEngine *engine);
void tps_engine_show (TpsEngine *engine, const gchar *detail, gdouble share);

/* Shows the line of the running task, or of what is done before, if it is due. Suits
 * tps_supervisor_set_waiting(). */
void tps_engine_tick (gpointer data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsEngine, tps_engine_free)

G_END_DECLS
