/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A process of thriftps_server, the access of clients to its tables, and their calls. */

#pragma once

#include "bench/process/child.h"
#include "plugin/client/remote_tables.h"

#define TPS_SERVED_ROWS_AT_ONCE 65536 /* rows of a call that fills or reads a table */

/* The process; read-only for its users. */
typedef struct
{
  TpsChild *child;
  gchar **addresses; /* in the order of the flags; ended by NULL */
} TpsServed;

/* Returns the path of a thriftps_server; NULL = ours. The caller owns it. Errors: NOT_FOUND. */
gchar *tps_served_find (const gchar *program, GError **error);

/* Starts `program` with `flags`, one per line, of which `n_addresses` make it listen. Waits until
 * it listens. `name` is for messages. The caller owns the result. Errors: UNAVAILABLE, ABORTED. */
TpsServed *tps_served_start (TpsSupervisor *supervisor, const gchar *name, const gchar *program,
                             const gchar *flags, guint n_addresses, GError **error);
/* Close the pipes to the process, after which it ends, or kill it; and free `served`. */
void tps_served_free (TpsServed *served);
void tps_served_kill (TpsServed *served);

/* Connects to all tables at `address`. `token` and `lookup_device` are those of
 * TpsRemoteTablesOptions. The caller owns the result. Blocks. Errors: those of the first call. */
TpsRemoteTables *tps_served_connect (const gchar *address, const gchar *token,
                                     TpsDevice *lookup_device, GError **error);

/* Returns the deadline of a call, which no call reaches. */
gint64 tps_served_get_deadline (void);

/* Return views of ids [n] and of rows [n, dim], for arguments of calls. The data are borrowed. */
TpsTensorView tps_view_ids (const gint64 *ids, gsize n);
TpsTensorView tps_view_rows (const gfloat *rows, gsize n, gsize dim);

/* -- clients that make one call after another, each on its own thread -- */

/* The time of one call. */
typedef struct
{
  gint64 begin_ns, end_ns;
} TpsCallTime;

/* Makes one call of a client. Thread: the client's own thread. */
typedef gboolean (*TpsMakeCall) (gpointer client, GError **error);

typedef struct TpsCallers TpsCallers;

/* Starts the calls of `clients` [n]: each client makes at least one call, and at most `n_calls`
 * calls (0 = no limit) until tps_callers_stop() or `seconds` (0 = no limit) have passed. The
 * clients are borrowed. The caller owns the result. */
TpsCallers *tps_callers_start (gpointer const *clients, guint n, TpsMakeCall call, gint64 n_calls,
                               gdouble seconds);

/* Tells all clients to end after their running call, if they have no limit; waits for their end,
 * and frees the callers. Returns all calls, an array of TpsCallTime that the caller owns; NULL with
 * the first error of a client. Blocks. */
GArray *tps_callers_stop (TpsCallers *callers, GError **error);

/* Returns the durations of calls in milliseconds, an array of gdouble that the caller owns. */
GArray *tps_calls_get_ms (const GArray *calls);

/* Returns the seconds from the start of the first call to the end of the last one. */
gdouble tps_calls_get_span (const GArray *calls);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsServed, tps_served_free)
