/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls with retries, for methods that may be sent twice, because the server replies to a repeated
 * call as to the first one.
 *
 *   CONNECTION_LOST      The call is sent again on a new connection: once, or until the deadline,
 *                        according to `retry`. The first retry has no delay. Later delays are
 *                        random, and grow up to one second, to give a server time to restart.
 *   RESOURCE_EXHAUSTED, UNAVAILABLE
 *                        If the error has retry_after_ms, the call is sent again after this time,
 *                        until the deadline.
 *
 * All other errors are passed to `done` unchanged, and so are errors that come too late for a
 * retry.
 */

#pragma once

#include "plugin/client/client.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_RETRY_ONCE,           /* for calls on an object that the server loses when it restarts */
  TPS_RETRY_UNTIL_DEADLINE, /* for calls on an object that may survive a restart of the server */
} TpsRetry;

/* As tps_client_call_rpc(), but with retries. The arguments are written again for each attempt.
 * `retry` determines the retries after lost connections. */
void tps_client_call_with_retries (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                                   TpsRetry retry, gint64 deadline_ns, TpsClientDone done,
                                   gpointer user_data);

G_END_DECLS
