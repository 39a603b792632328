/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The facts about the peer of a link (Node.describe): limits, chunks, shared memory. Each link
 * makes one request, when its reply is first needed. Small calls never wait for it. Private to the
 * client.
 *
 *   unknown service or method   The peer gives no information: all facts are zero.
 *   any other error             The waiting calls fail; the next call that needs the facts sends
 *                               another request.
 *   lost connection             The next link repeats the request. After MAX_REQUESTS_LOST losses
 *                               in a row, some links skip the request, and their facts are zero:
 *                               some servers close the connection if a request names an unknown
 *                               service.
 *
 * If a peer never replies, waiting calls end at their deadlines, and tensors travel inline. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* Gets the facts; under the lock. FALSE: not known yet. */
gboolean tps_negotiation_get (const TpsClientLink *link, TpsPeerFacts *facts);

/* Returns whether the next link may offer shared memory. Call it under the lock. */
gboolean tps_negotiation_may_offer (const TpsClient *client);

/* Tells the link's pool the offers of its peer, at once or when they are known. Thread: any. */
void tps_negotiation_offer (TpsClientLink *link);

/* Calls `done`, later and on the loop, with the facts of the current link or with an error. `call`
 * must have been registered and written. It waits in the table until then, and its deadline or a
 * cancelled client ends it instead. */
void tps_negotiation_await (TpsClientCall *call,
                            void (*done) (TpsClientCall *call, const TpsPeerFacts *facts,
                                          const GError *error));

G_END_DECLS
