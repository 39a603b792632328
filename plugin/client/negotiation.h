/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The facts about the peer of a link (Node.describe): limits and offers of shared memory. Each link
 * makes one request, when the facts are first needed. Small calls never wait for the reply. Private
 * to the client.
 *
 *   unknown service or method   The peer gives no information: all facts are zero.
 *   any other error             The waiting calls fail. The next call that needs the facts repeats
 *                               the request.
 *   lost connection             The next link repeats the request. After MAX_REQUESTS_LOST
 *                               consecutive losses, some links skip the request, and their facts
 *                               are zero, because some servers close the connection if a request
 *                               names an unknown service.
 *
 * If a peer never replies, waiting calls end at their deadlines, and tensors travel inline. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* Copies the facts to `facts`. FALSE: they are not known yet, and `facts` is all zero. Must be
 * called with client->lock held. */
gboolean tps_negotiation_get (const TpsClientLink *link, TpsPeerFacts *facts);

/* Returns TRUE if the next link will make the request, so that its peer may offer shared memory.
 * Must be called with client->lock held. */
gboolean tps_negotiation_may_offer (const TpsClient *client);

/* Passes the peer's offers of shared memory to the link's pool, at once or when they are known. The
 * link must have a pool. Thread: any. */
void tps_negotiation_offer (TpsClientLink *link);

/* Calls `done`, later and on the loop, with the facts of the current link or with an error. `call`
 * must have been registered and written. The call waits in the table until then. If its deadline
 * passes or the client is cancelled, the call ends, and `done` is not called. */
void tps_negotiation_await (TpsClientCall *call,
                            void (*done) (TpsClientCall *call, const TpsPeerFacts *facts,
                                          const GError *error));

G_END_DECLS
