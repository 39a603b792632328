/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The memory that a link shares with its peer. A link to a Unix socket has a pool of segments,
 * which decides on the requests to the server; this part sends the requests. They are background
 * calls: they use this link or fail, have no deadline, and do not count as in-flight calls. If a
 * peer does not answer them, the client sends all tensors to this peer inline. Private to the
 * client. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* Takes a lease from the pool of the current link, for the tensors of a call whose message is about
 * to be written. Creates the link if there is none. Does nothing on a client without shared
 * memory. */
void tps_client_call_take_lease (TpsClientCall *call);

/* Posts a function to the loop that sends the requests of the pool of the link (`user_data`). For
 * client->wake_pool; may be called with locks held. Thread: any. */
void tps_client_wake_pool (gpointer user_data);

G_END_DECLS
