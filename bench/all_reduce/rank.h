/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the child processes of the benchmark. A child reads orders from its standard input.
 * For a line "BYTES CALLS", it sums the data once and checks the sum, and then sums CALLS times. It
 * replies "ok SECONDS", the total of the timed calls, or "error TEXT". */

#pragma once

#include <glib.h>

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
 * writes the sum of its part to the data of every rank. Returns the exit status. Blocks. */
gint tps_all_reduce_run_limit (guint n_threads);
