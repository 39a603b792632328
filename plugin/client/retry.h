/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls with retries, for methods that may be sent twice because the server replies to a repeat as
 * to the first call.
 *
 *   CONNECTION_LOST      On a new connection, once or until the deadline. The delay grows from 10
 *                        ms to one second, to give a server time to restart.
 *   RESOURCE_EXHAUSTED, UNAVAILABLE   With retry_after_ms: after that time, until the deadline.
 *
 * All other errors go to `done` unchanged, and so do errors too late for a retry.
 */

#pragma once

#include "plugin/client/client.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_RETRY_ONCE,           /* the server loses the object of the call when it restarts */
  TPS_RETRY_UNTIL_DEADLINE, /* a restarted server may still have the object of the call */
} TpsRetry;

/* As tps_client_call_rpc(), with retries; the arguments are written again for each attempt. `retry`
 * determines the retries after lost connections. */
void tps_client_call_with_retries (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                                   TpsRetry retry, gint64 deadline_ns, TpsClientDone done,
                                   gpointer user_data);

G_END_DECLS
