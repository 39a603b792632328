/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One row of the benchmark: so many calls of one kind, of one size. As a line that every load
 * generator understands:
 *
 *   push 1048576 1 4 200      operation, bytes, connections, calls in flight on each connection,
 *                             calls in all
 *
 * and its answer: "ok SECONDS NS NS …", the time of all calls together and of each; or "error
 * TEXT". "check " before it: the contents of all answers are compared (pattern.h), which takes its
 * time; for our own load generators only.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_TRANSFER_PUSH, /* a tensor there, nothing back */
  TPS_TRANSFER_PULL, /* its size there, a tensor back */
  TPS_TRANSFER_ECHO, /* a tensor both ways */
} TpsTransferOp;

typedef struct
{
  TpsTransferOp op;
  gsize n_bytes;
  guint n_connections;
  guint n_in_flight; /* on each connection */
  guint n_calls;     /* in all */
  gboolean is_check;
} TpsTransferRow;

/* "push"; static. */
const gchar *tps_transfer_op_name (TpsTransferOp op);

/* FALSE for a line that is none. */
gboolean tps_transfer_row_parse (const gchar *line, TpsTransferRow *row);

/* The line, without its end; owned by the caller. */
gchar *tps_transfer_row_to_line (const TpsTransferRow *row);

/* "push 1 MiB", and "x8" for 8 connections, "/4" for 4 in flight; owned by the caller. */
gchar *tps_transfer_row_to_title (const TpsTransferRow *row);

/* The calls that check such a row: each of its connections gets a reply with bytes. */
TpsTransferRow tps_transfer_row_get_check (const TpsTransferRow *row);

/* Bytes of tensors that the calls move in all. */
gdouble tps_transfer_row_get_bytes (const TpsTransferRow *row);

/* Answers all rows that come on standard input, until its end. `run` fills `ns` [n_calls] and
 * returns the time of all together in ns, or -1 with an error. */
typedef gint64 (*TpsTransferRun) (gpointer user_data, const TpsTransferRow *row, gint64 *ns,
                                  GError **error);
gint tps_transfer_serve_rows (TpsTransferRun run, gpointer user_data);

G_END_DECLS
