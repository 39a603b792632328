/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the benchmark's child processes. Each answers orders on its standard input, until
 * its end: for a line "BYTES CALLS" the data is summed up once and checked, then so many times; the
 * answer is "ok SECONDS", of the timed calls together, or "error TEXT".
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint rank;
  guint size;
  gboolean no_shared_memory;
  const gchar *store; /* address of the rendezvous service */
} TpsAllReduceRank;

/* One rank of a process group of ours. Returns the exit status. */
gint tps_all_reduce_run_rank (const TpsAllReduceRank *options);

/* The limit: one process whose threads add up what lies in memory that all of them map, each thread
 * its part, and write the sum to all places. */
gint tps_all_reduce_run_limit (guint n_threads);

/* -- what both do -- */

/* Runs `reduce` for every order; it sums up `n_calls` times and returns nanoseconds, or -1 with an
 * error. */
typedef gint64 (*TpsAllReduceRun) (gpointer user_data, gsize n_elems, guint n_calls,
                                   GError **error);
gint tps_all_reduce_serve (TpsAllReduceRun run, gpointer user_data);

/* What rank `rank` brings to the checked sum, and the sum of all. */
void tps_all_reduce_fill (gfloat *data, gsize n_elems, guint rank);
gboolean tps_all_reduce_check (const gfloat *data, gsize n_elems, guint size, GError **error);

G_END_DECLS
