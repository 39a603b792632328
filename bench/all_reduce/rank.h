/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the benchmark's child processes. Each reads orders from its standard input until the
 * end of the input. For a line "BYTES CALLS", the data are summed once and checked, and then summed
 * CALLS times. The reply is "ok SECONDS", the total of the timed calls, or "error TEXT".
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint rank;
  guint size;
  const gchar *role;  /* "placed": the data lie in the group's memory; "shared"; "tcp" */
  const gchar *store; /* address of the rendezvous service */
} TpsAllReduceRank;

/* Runs one rank of one of our process groups. Returns the exit status. */
gint tps_all_reduce_run_rank (const TpsAllReduceRank *options);

/* Runs the limit: one process whose threads sum data in memory that all of them map. Each thread
 * sums its part and writes the result to all places. Returns the exit status. */
gint tps_all_reduce_run_limit (guint n_threads);

/* -- shared by both roles -- */

/* Executes `reduce` for every order. It sums `n_calls` times and returns nanoseconds, or -1 with an
 * error. */
typedef gint64 (*TpsAllReduceRun) (gpointer user_data, gsize n_elems, guint n_calls,
                                   GError **error);
gint tps_all_reduce_serve (TpsAllReduceRun run, gpointer user_data);

/* The checked data: the contribution of rank `rank`, and the expected sum. */
void tps_all_reduce_fill (gfloat *data, gsize n_elems, guint rank);
gboolean tps_all_reduce_check (const gfloat *data, gsize n_elems, guint size, GError **error);

G_END_DECLS
