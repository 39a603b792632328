/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls and replies that may not fit into a frame, transparent to callers. Private to the client.
 *
 * A large message is written inline in binary protocol. It is sent in a frame if the server's frame
 * limit, known from the negotiation, permits this, and otherwise in chunks. A reply that names a
 * transfer is replaced by the reply that is fetched from the transfer. */

#pragma once

#include "plugin/client/client_private.h"

G_BEGIN_DECLS

/* Returns TRUE if the written message is longer than `ask_bytes`, and is not known to fit into a
 * frame of the server. */
gboolean tps_client_call_may_be_too_large (TpsClientCall *call);

/* Ends the message of a large call, for a frame or for a transfer. Errors: RESOURCE_EXHAUSTED if
 * the message is too long for both. */
gboolean tps_client_call_end_large (TpsClientCall *call, GError **error);

/* Sends a large call, in a frame or in chunks, once the server's frame limit is known. */
void tps_client_call_send_large (TpsClientCall *call);

/* Returns TRUE if the server keeps the reply for a transfer. The reply is then fetched, and the
 * call finishes again later. Thread: the loop's. */
gboolean tps_client_call_fetch_answer (TpsClientCall *call);

G_END_DECLS
