/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls and replies that may not fit into a frame, transparent to callers. Private to the client.
 *
 * A large message is written inline in binary protocol. If the server's frame limit, known from the
 * negotiation, permits it, it is sent in a frame, and otherwise in chunks. A reply that names a
 * transfer is replaced by the reply that is fetched from it. */

#pragma once

#include "plugin/client/client_private.h"

G_BEGIN_DECLS

/* Returns whether the written message may be too large for a frame of the server. */
gboolean tps_client_call_may_be_too_large (TpsClientCall *call);

/* Ends the message of a large call. Errors: RESOURCE_EXHAUSTED if it does not fit into a transfer
 * either. */
gboolean tps_client_call_end_large (TpsClientCall *call, GError **error);

/* Sends a large call, in a frame or in chunks. */
void tps_client_call_send_large (TpsClientCall *call);

/* Returns whether the server keeps the reply for a transfer. The reply is then fetched, and the
 * call finishes again later. Runs on the loop. */
gboolean tps_client_call_fetch_answer (TpsClientCall *call);

G_END_DECLS
