/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls on the client's current link, which is created if there is none, or on a given link. Used
 * by the calls of users and by the client's own calls. Private to the client. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* Mark the time in which a thread uses the client. Any thread except the client's loop must call
 * the first function before it uses the client, and the second one afterwards. tps_client_free()
 * waits for such threads. */
void tps_channel_enter (TpsClient *client);
void tps_channel_leave (TpsClient *client);

/* Returns the client's current link, and creates it if there is none; borrowed. Must be called with
 * client->lock held. */
TpsClientLink *tps_channel_get_link (TpsClient *client);

/* Counts the call and gives it a sequence id, even if the result is an error. The caller must then
 * pass the error to tps_channel_refuse(). Returns NULL on success. Errors: ABORTED, CONNECTION_LOST
 * (the link of a background call is down), RESOURCE_EXHAUSTED, DEADLINE_EXCEEDED. */
GError *tps_channel_register (TpsClientCall *call);

/* Ends a registered call that has not been submitted, with the error. */
void tps_channel_refuse (TpsClientCall *call, GError *error_taken);

/* Sends a registered call whose message is written; from here on, the loop may end the call at any
 * time. FALSE: nothing has happened, because the call's lease belongs to a link that is down. The
 * caller must then write the message again for the new link. Calls without a lease never return
 * FALSE. */
gboolean tps_channel_submit (TpsClientCall *call);

/* Puts a call that does not wait for a link into the table. Must be called with client->lock held.
 * Sets `wake` if the caller must post tps_deadlines_set_timer() to the loop. Returns NULL on
 * success. Errors: ABORTED, CONNECTION_LOST, RESOURCE_EXHAUSTED. */
GError *tps_channel_enter_table (TpsClientCall *call, gboolean *wake);

/* As tps_client_call_rpc() and tps_client_delay(), but without shared memory. The message must fit
 * into a frame. */
void tps_channel_call (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                       gint64 deadline_ns, TpsClientDone done, gpointer user_data);
void tps_channel_delay (TpsClient *client, gint64 until_ns, TpsClientDelayed func,
                        gpointer user_data);

/* Starts a background call on `link`. The arguments are written before this returns. If the link is
 * down, the call fails with CONNECTION_LOST. The call has no deadline and does not count as an
 * in-flight call. */
void tps_channel_call_on (TpsClientLink *link, const TpsRpc *rpc, gconstpointer arguments,
                          TpsClientDone done, gpointer user_data);

/* Returns the error of calls on a cancelled client. */
GError *tps_channel_cancelled_error (const TpsClient *client);

G_END_DECLS
