/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The deadlines of the client's calls: one timer for all, at or before the earliest one. Calls that
 * follow each other with the same patience do not touch it at all. Only for the client.
 *
 * A deadline that passes forgets the call: its sequence id leaves the table, and an answer that
 * comes later finds nobody and is dropped with its bodies. The bytes of the arguments are then
 * treated as follows:
 *   not given to the connection yet (connecting, negotiating): the writer is freed unsent
 *   all taken by the socket: nothing is left to release
 *   waiting in the connection, or sent in part: the connection is closed, since a message that was
 *       cut cannot be resumed. The other calls of the connection fail with CONNECTION_LOST. The
 *       next call connects again.
 * The same holds for a peer that answers before it has read the call: the answer stands, `done`
 * waits for the bytes, and the deadline closes the connection. */

#pragma once

#include "plugin/client/client_private.h"

G_BEGIN_DECLS

/* Under the lock: the call has entered the table. TRUE: the timer stands too late,
 * tps_deadlines_set_timer() is to be posted to the loop. */
gboolean tps_deadlines_add (TpsClientCall *call);

/* TpsLoopFuncs of the client: set the timer to wake_ns; take it away. */
void tps_deadlines_set_timer (gpointer user_data);
void tps_deadlines_clear_timer (gpointer user_data);

G_END_DECLS
