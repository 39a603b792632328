/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls on the client's link of the moment, which is made where there is none, or on one given
 * link. Users' calls and what the client asks by itself go this way. Only for the client. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* Threads that use the client from outside its loop do so between these two: freeing the client
 * waits for them. */
void tps_channel_enter (TpsClient *client);
void tps_channel_leave (TpsClient *client);

/* Under the lock. The link of the moment. */
TpsClientLink *tps_channel_get_link (TpsClient *client);

/* Counts the call and gives it a sequence id, whatever is returned. A call with an error must be
 * refused. Errors: ABORTED, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED. */
GError *tps_channel_register (TpsClientCall *call);

/* Ends a registered call that has not been put on its way. */
void tps_channel_refuse (TpsClientCall *call, GError *error_taken);

/* Puts a registered call that has been written on its way; from here on the loop may end it at any
 * time. FALSE: nothing has happened, it is to be written again, for another link; never for a call
 * without a lease. */
gboolean tps_channel_submit (TpsClientCall *call);

/* Under the lock: puts the call, which waits for something else than a link, into the table. Sets
 * `wake` where the deadline timer is to be set. Errors as tps_channel_register(). */
GError *tps_channel_enter_table (TpsClientCall *call, gboolean *wake);

/* As tps_client_call_rpc() and tps_client_delay(), without shared memory; the message must fit into
 * a frame. */
void tps_channel_call (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                       gint64 deadline_ns, TpsClientDone done, gpointer user_data);
void tps_channel_delay (TpsClient *client, gint64 until_ns, TpsClientDelayed func,
                        gpointer user_data);

/* A background call, whose arguments are written before this returns: it uses `link` or fails with
 * CONNECTION_LOST, has no deadline, and does not count as a call in flight. */
void tps_channel_call_on (TpsClientLink *link, const TpsRpc *rpc, gconstpointer arguments,
                          TpsClientDone done, gpointer user_data);

/* The client was cancelled: calls on it fail so. */
GError *tps_channel_cancelled_error (const TpsClient *client);

G_END_DECLS
