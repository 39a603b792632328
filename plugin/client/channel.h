/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls on the client's current link, which is created if there is none, or on a given link. The
 * calls of users and the client's own calls use this part. Private to the client. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* A thread that uses the client outside its loop must do so between these two calls. Freeing the
 * client waits for such threads. */
void tps_channel_enter (TpsClient *client);
void tps_channel_leave (TpsClient *client);

/* Returns the current link. Call it under the lock. */
TpsClientLink *tps_channel_get_link (TpsClient *client);

/* Counts the call and gives it a sequence id, even if it returns an error. After an error, the
 * caller must refuse the call. Errors: ABORTED, RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED. */
GError *tps_channel_register (TpsClientCall *call);

/* Ends a registered call that has not been submitted. */
void tps_channel_refuse (TpsClientCall *call, GError *error_taken);

/* Sends a registered call whose message is written; from here on, the loop may end the call at any
 * time. FALSE: nothing has happened, and the caller must write the message again for another link.
 * Calls without a lease never return FALSE. */
gboolean tps_channel_submit (TpsClientCall *call);

/* Puts a call that does not wait for a link into the table. Call it under the lock. Sets `wake` if
 * the deadline timer must be set. Errors: those of tps_channel_register(). */
GError *tps_channel_enter_table (TpsClientCall *call, gboolean *wake);

/* As tps_client_call_rpc() and tps_client_delay(), but without shared memory; the message must fit
 * into a frame. */
void tps_channel_call (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                       gint64 deadline_ns, TpsClientDone done, gpointer user_data);
void tps_channel_delay (TpsClient *client, gint64 until_ns, TpsClientDelayed func,
                        gpointer user_data);

/* Starts a background call. The arguments are written before this returns. The call uses `link` or
 * fails with CONNECTION_LOST, has no deadline, and does not count as an in-flight call. */
void tps_channel_call_on (TpsClientLink *link, const TpsRpc *rpc, gconstpointer arguments,
                          TpsClientDone done, gpointer user_data);

/* Returns the error of calls on a cancelled client. */
GError *tps_channel_cancelled_error (const TpsClient *client);

G_END_DECLS
