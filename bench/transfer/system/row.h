/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The messages between the processes of the benchmark, and the contents of their tensors. */

#pragma once

#include <glib.h>

#include "runtime/base/buffer.h"

G_BEGIN_DECLS

/* -- row -- */

/* A row of the benchmark: a number of calls of one kind and one size. Every load generator reads
 * rows as lines:
 *
 *   push 1048576 1 4 200      operation, bytes, connections, calls in flight on each connection,
 *                             number of calls
 *
 * It replies "ok SECONDS NS NS …", the total time and the time of each call; or "error TEXT". With
 * the prefix "check ", it compares the contents of all replies (pattern.h), which takes additional
 * time. Only our own load generators accept this prefix. */

/* The kinds of calls. */
typedef enum
{
  TPS_TRANSFER_PUSH, /* a tensor to the server, an empty reply */
  TPS_TRANSFER_PULL, /* a size to the server, a tensor back */
  TPS_TRANSFER_ECHO, /* a tensor in both directions */
} TpsTransferOp;

/* A row. */
typedef struct
{
  TpsTransferOp op;
  gsize n_bytes;
  guint n_connections;
  guint n_in_flight; /* on each connection */
  guint n_calls;     /* on all connections together */
  gboolean is_check;
} TpsTransferRow;

/* Returns the name, such as "push". Static. */
const gchar *tps_transfer_op_name (TpsTransferOp op);

/* Parses a line. Returns FALSE if it is not a row. */
gboolean tps_transfer_row_parse (const gchar *line, TpsTransferRow *row);

/* Returns the line, without a newline. The caller owns the result. */
gchar *tps_transfer_row_to_line (const TpsTransferRow *row);

/* Returns a title such as "push 1 MiB x8 /4": 8 connections (unless 1), 4 calls in flight on each
 * (unless 1). The caller owns the result. */
gchar *tps_transfer_row_to_title (const TpsTransferRow *row);

/* Returns the calls that check a row: on each connection one whose reply has a tensor. */
TpsTransferRow tps_transfer_row_get_check (const TpsTransferRow *row);

/* Returns the bytes of tensors that all calls move together. */
gdouble tps_transfer_row_get_bytes (const TpsTransferRow *row);

/* tps_transfer_serve_rows() replies to all rows from the standard input until its end, and returns
 * the exit status. `run` makes the calls of a row, writes the times of the calls to `ns` [n_calls],
 * and returns the total time in ns; -1 with an error. */
typedef gint64 (*TpsTransferRun) (gpointer user_data, const TpsTransferRow *row, gint64 *ns,
                                  GError **error);
gint tps_transfer_serve_rows (TpsTransferRun run, gpointer user_data);

/* -- pattern -- */

/* The contents of the tensors: the same in every process, without repetitions and without zeros.
 * Memory that was never written is one page of zeros, which copies faster. */

#define TPS_TRANSFER_MAX_BYTES ((gsize) 256 << 20) /* of a row */

/* Fill or check memory. `n_bytes` must be a multiple of 4. tps_transfer_pattern_matches() returns
 * TRUE if the memory contains the pattern. */
void tps_transfer_pattern_fill (gpointer data, gsize n_bytes);
gboolean tps_transfer_pattern_matches (gconstpointer data, gsize n_bytes);

/* Creates a buffer with the pattern. The caller owns the result. */
TpsBuffer *tps_transfer_pattern_new (gsize n_bytes);

/* -- serve -- */

/* The start and the end of a server process of the transfer benchmark. Peers do the same. */

/* Prints "listening on ADDRESS". */
void tps_transfer_announce (const gchar *address);

/* Waits for the end of the standard input. */
void tps_transfer_wait_for_end (void);

/* Prints the error to stderr. Returns the exit status 1. */
gint tps_transfer_fail (const GError *error);

G_END_DECLS
