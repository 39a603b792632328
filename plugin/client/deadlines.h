/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The deadlines of the client's calls: one timer for all calls, set at or before the earliest
 * deadline. Successive calls with the same timeout do not touch the timer. Private to the client.
 *
 * A call whose deadline passes ends: its sequence id leaves the table, and a late reply is dropped
 * with its bodies. The treatment of the call's bytes depends on their state:
 *
 *   unsent      The call waits for a connection or a negotiation: the writer is freed.
 *   sent        The socket has taken all bytes: there is nothing to release.
 *   in between  Bytes wait in the connection. The connection is closed, because a partial message
 *               cannot be resumed. The other calls of the connection fail with CONNECTION_LOST. The
 *               next call reconnects.
 *
 * The third rule also holds if a peer replies before it has read the whole call. The outcome is the
 * reply, but `done` is not called before the bytes have been sent or the deadline has closed the
 * connection. */

#pragma once

#include "plugin/client/client_private.h"

G_BEGIN_DECLS

/* Sets client->wake_ns to the deadline of `call`, if this is earlier. Must be called with
 * client->lock held, when a call has entered the table. TRUE: the timer is set too late, and the
 * caller must post tps_deadlines_set_timer() to the loop. */
gboolean tps_deadlines_add (TpsClientCall *call);

/* The first function sets the timer to wake_ns, and the second one removes it. TpsLoopFuncs;
 * `user_data` is the client. Thread: the loop's. */
void tps_deadlines_set_timer (gpointer user_data);
void tps_deadlines_clear_timer (gpointer user_data);

G_END_DECLS
