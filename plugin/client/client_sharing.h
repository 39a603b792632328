/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The memory that a link shares with its peer. A link to a Unix socket has a pool of segments,
 * which knows what to ask of the server; this part asks. Its requests are background calls: they
 * use that link or fail, have no deadline (a peer that does not answer them gets everything
 * inline), and do not count as calls in flight. Only for the client. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* For tensors that are about to be written. The link is made now, so that they can be for it. */
void tps_client_call_take_lease (TpsClientCall *call);

/* Asks for whatever the pool of the link (`user_data`) wants, on the loop. For client->wake_pool;
 * with locks held. */
void tps_client_wake_pool (gpointer user_data);

G_END_DECLS
