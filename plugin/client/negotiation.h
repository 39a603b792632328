/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the peer of a link says of itself (Node.describe): one question for each link, asked when
 * its answer is first of use, and one answer for everything that depends on it: limits, chunks,
 * shared memory. Small calls never wait for it. Only for the client.
 *
 *   no service, no method   the peer says nothing of itself: all facts are zero
 *   any other error         fails what waits; the next call that needs the answer asks again
 *   the connection breaks   the next link asks again. After MAX_QUESTIONS_LOST in a row some links
 *                           are not asked, their facts are zero: there are servers that close the
 *                           connection when they are asked for a service that they do not have.
 *
 * A peer that never answers: calls that wait end at their deadlines, tensors travel inline. */

#pragma once

#include "plugin/client/client_link.h"

G_BEGIN_DECLS

/* Under the lock. FALSE: not known yet. */
gboolean tps_negotiation_get (const TpsClientLink *link, TpsPeerFacts *facts);

/* Under the lock: whether the next link may offer shared memory. */
gboolean tps_negotiation_may_offer (const TpsClient *client);

/* Tells the link's pool what its peer offers, now or when that is known. Thread: any. */
void tps_negotiation_offer (TpsClientLink *link);

/* Calls `done`, later and on the loop, with the facts of the link of the moment or with an error.
 * `call` has been registered and written, and waits in the table until then: its deadline, or
 * cancelling the client, ends it instead. */
void tps_negotiation_await (TpsClientCall *call,
                            void (*done) (TpsClientCall *call, const TpsPeerFacts *facts,
                                          const GError *error));

G_END_DECLS
