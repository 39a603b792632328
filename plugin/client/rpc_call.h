/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls of methods by their descriptors, with results in their C form, and with retries. */

#pragma once

#include "plugin/client/client.h"

G_BEGIN_DECLS

/* Whether a call is sent again. The server must reply to a repeated call as to the first one.
 *
 *   CONNECTION_LOST      The call is sent again on a new connection: once, or until the deadline.
 *                        The first retry has no delay. Later delays are random, and grow up to one
 *                        second, to give a server time to restart.
 *   RESOURCE_EXHAUSTED, UNAVAILABLE
 *                        If the error has retry_after_ms, the call is sent again after this time,
 *                        until the deadline.
 *
 * All other errors end the call, and so do errors that come too late for a retry. */
typedef enum
{
  TPS_RETRY_NEVER,
  TPS_RETRY_ONCE,           /* for calls on an object that the server loses when it restarts */
  TPS_RETRY_UNTIL_DEADLINE, /* for calls on an object that may survive a restart of the server */
} TpsRetry;

/* Called exactly once, on the I/O thread. `result` is the value that `rpc->result` describes; NULL
 * on failure, and for methods without a result. The callee may move parts out of it, and zero them;
 * the rest is released after the call. Errors: those of TpsClientDone, and INTERNAL if the reply
 * cannot be decoded. */
typedef void (*TpsRpcDone) (gpointer user_data, gpointer result, const GError *error);

/* Calls a method and never blocks. `arguments` must stay until `done`, which may be called before
 * this returns. They are written again for each attempt. Thread: any. */
void tps_rpc_call (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments, TpsRetry retry,
                   gint64 deadline_ns, TpsRpcDone done, gpointer user_data);

/* As tps_rpc_call(), but waits. Writes the result to `result` (NULL = it is not needed) on success
 * only; the caller owns it. Thread: any except the client's I/O thread. */
gboolean tps_rpc_call_sync (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                            TpsRetry retry, gint64 deadline_ns, gpointer result, GError **error);

G_END_DECLS
