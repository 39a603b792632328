/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls that are sent again where that is worth it, for methods that may be sent twice: the server
 * answers the second one as the first.
 *
 *   CONNECTION_LOST      on a new connection: once, or as often as the deadline allows, after 10 ms
 *                        at first and up to a second later, for a server that is started again
 *   RESOURCE_EXHAUSTED, UNAVAILABLE   with retry_after_ms: after that time, as often as the
 *                                     deadline allows
 *
 * Everything else, and what comes too late to be tried again, goes to `done` as it is.
 */

#pragma once

#include "plugin/client/client.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_RETRY_ONCE,           /* what the call belongs to does not outlive the server */
  TPS_RETRY_UNTIL_DEADLINE, /* a server that is started again may have what the call belongs to */
} TpsRetry;

/* As tps_client_call_rpc(): the arguments are written again for each try. `retry` is for lost
 * connections. */
void tps_client_call_with_retries (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                                   TpsRetry retry, gint64 deadline_ns, TpsClientDone done,
                                   gpointer user_data);

G_END_DECLS
