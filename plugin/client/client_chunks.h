/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls and answers that no frame may hold: callers see nothing of it. Only for the client.
 *
 * A large message is written in binary protocol and inline. It goes in a frame where the server
 * reads such frames, which the negotiation says, and in chunks otherwise. An answer that says where
 * the real one waits is replaced by that. */

#pragma once

#include "plugin/client/client_private.h"

G_BEGIN_DECLS

/* Whether the message that was written may be too large for a frame of the server. */
gboolean tps_client_call_may_be_too_large (TpsClientCall *call);

/* Ends the message of a large call. Errors: RESOURCE_EXHAUSTED for what no transfer can hold
 * either. */
gboolean tps_client_call_end_large (TpsClientCall *call, GError **error);

/* Sends a large call, in a frame or in chunks. */
void tps_client_call_send_large (TpsClientCall *call);

/* Whether the answer waits in the server: it is then fetched, and the call finished again. On the
 * loop. */
gboolean tps_client_call_fetch_answer (TpsClientCall *call);

G_END_DECLS
