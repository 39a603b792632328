/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the child processes of the benchmark. A child reads orders from its standard input
 * until the end of the input. For a line "BYTES CALLS", it sums the data once and checks the sum,
 * and then sums CALLS times. It replies "ok SECONDS", the total of the timed calls, or "error
 * TEXT". */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A rank of one of our process groups; strings are borrowed. */
typedef struct
{
  guint rank;
  guint size;
  const gchar *role;  /* "placed" = the data are in memory of the group; "shared"; "tcp" */
  const gchar *store; /* the address of the rendezvous service */
} TpsAllReduceRank;

/* Runs one rank of our process groups. Returns the exit status. Blocks. */
gint tps_all_reduce_run_rank (const TpsAllReduceRank *options);

/* Runs the limit: one process whose threads sum data in memory that all of them map. Each thread
 * sums its part of the data, and writes the sum to the data of every rank. Returns the exit status.
 * Blocks. */
gint tps_all_reduce_run_limit (guint n_threads);

/* -- functions that both roles share -- */

/* Sums `n_elems` floats once with a check, and `n_calls` times with a clock. Returns the
 * nanoseconds of the `n_calls` sums; -1 with an error. */
typedef gint64 (*TpsAllReduceRun) (gpointer user_data, gsize n_elems, guint n_calls,
                                   GError **error);

/* Reads orders and calls `run` for each of them, until the end of the input. Returns the exit
 * status. Blocks. */
gint tps_all_reduce_serve (TpsAllReduceRun run, gpointer user_data);

/* tps_all_reduce_fill() writes the contribution of rank `rank`, and tps_all_reduce_check() compares
 * `data` with the expected sum of `size` ranks. Both have `n_elems` elements. Errors: INTERNAL,
 * with the first element that differs. */
void tps_all_reduce_fill (gfloat *data, gsize n_elems, guint rank);
gboolean tps_all_reduce_check (const gfloat *data, gsize n_elems, guint size, GError **error);

G_END_DECLS
