/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls that are sent again where that is worth it, for methods that may be sent twice: the server answers the second one
 * as the first.
 *
 *   CONNECTION_LOST      once, on a new connection
 *   RESOURCE_EXHAUSTED   with retry_after_ms: after that time, as often as the deadline allows
 *
 * Everything else, and what comes too late to be tried again, goes to `done` as it is.
 */

#pragma once

#include "plugin/client/client.h"

G_BEGIN_DECLS

/* As tps_client_call_rpc(): the arguments are written again for each try. */
void tps_client_call_with_retries (TpsClient *client, const TpsRpc *rpc, gconstpointer arguments,
                                   gint64 deadline_ns, TpsClientDone done, gpointer user_data);

G_END_DECLS
