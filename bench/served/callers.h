/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients that make one call after another, each on its own thread, and the times of all calls. */

#pragma once

#include <glib.h>

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
