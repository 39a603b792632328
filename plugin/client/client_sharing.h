/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The memory that a link shares with its peer. A link to a Unix socket has a pool of segments,
 * which decides on the requests to the server; this part sends them. The requests are background
 * calls. They use that link or fail, and they have no deadline: if a peer does not answer them, the
 * client sends it all tensors inline. They do not count as in-flight calls. Private to the
 * client. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* Takes a lease for the tensors of a call whose message is about to be written. It creates the
 * link, to which the lease belongs. */
void tps_client_call_take_lease (TpsClientCall *call);

/* Sends the requests that the pool of the link (`user_data`) has, on the loop. For
 * client->wake_pool; may be called with locks held. */
void tps_client_wake_pool (gpointer user_data);

G_END_DECLS
