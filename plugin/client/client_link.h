/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One connection of the client, from its first attempt to connect to its last event. Private to the
 * client.
 *
 * The client has at most one link that is up or connecting. Links that are going down finish by
 * themselves on the loop. Any violation by the peer takes the link down: bytes that are not Thrift,
 * a reply to a call that was never made, or a reply with another name. */

#pragma once

#include "plugin/client/client_private.h"
#include "plugin/client/connector.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_CLIENT_LINK_NEW,        /* the loop has not started it */
  TPS_CLIENT_LINK_CONNECTING, /* `connector` is set */
  TPS_CLIENT_LINK_UP,         /* `connection` is set, and `closed` will follow */
  TPS_CLIENT_LINK_CLOSED,     /* `closed` was called */
} TpsClientLinkPhase;

typedef enum
{
  TPS_NEGOTIATION_NONE, /* not requested, or without a result */
  TPS_NEGOTIATION_REQUESTED,
  TPS_NEGOTIATION_DONE,
} TpsNegotiationState;

/* The state of negotiation.h. All zero at first. */
typedef struct
{
  TpsNegotiationState state;
  TpsPeerFacts facts; /* valid if DONE */
  GQueue waiting;     /* if REQUESTED: TpsClientCalls that wait */
} TpsNegotiation;

struct TpsClientLink
{
  /* held by the link itself until its last event, and by requests that outlive it */
  TpsRefcount refcount;
  TpsClient *client;
  guint64 number; /* the value of client->n_links_made with this link */

  /* Guarded by client->lock: */
  gboolean down; /* no call uses it any more */
  gboolean up;
  GQueue unsent; /* of TpsClientCall; sent when the link is up */
  TpsNegotiation negotiation;

  /* Set once, before the phase `up`. */
  TpsConnection *connection;

  TpsSegmentPool *pool; /* shut down with `down`; NULL: no shared memory */

  /* Only used on the loop thread: */
  TpsClientLinkPhase phase;
  gboolean torn_down;
  TpsConnector *connector;
  guint64 opening_timer; /* timer of the handshake of an encrypted connection; 0 = none */
};

/* Creates the client's link; under the lock. */
TpsClientLink *tps_client_link_new (TpsClient *client);

/* Takes a reference. Thread: any. */
TpsClientLink *tps_client_link_ref (TpsClientLink *link);

/* Must not be called under the lock. */
void tps_client_link_unref (TpsClientLink *link);

/* Takes `link` down: its calls fail with `why`. NULL for `link` means the client's current link, if
 * there is one. Thread: the loop's; with NULL, any. */
void tps_client_lose_link (TpsClient *client, TpsClientLink *link, const GError *why);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsClientLink, tps_client_link_unref)

G_END_DECLS
