/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One connection of the client, from its first attempt to connect to its last event. Private to the
 * client.
 *
 * The client has at most one link that is up or connecting. Links that are going down finish by
 * themselves on the loop. Any violation of the protocol by the peer takes the link down: bytes that
 * are not Thrift, a reply to a call that was never made, or a reply with the wrong name. */

#pragma once

#include "plugin/client/client_call.h"

G_BEGIN_DECLS

/* One attempt to connect a socket. */
typedef struct TpsConnector TpsConnector;

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

/* The state of the negotiation of a link (client.c); initially all zero. */
typedef struct
{
  TpsNegotiationState state;
  TpsPeerFacts facts; /* valid if DONE */
  GQueue waiting;     /* of TpsClientCall: calls that wait for the facts */
} TpsNegotiation;

struct TpsClientLink
{
  /* The link has a reference to itself until its last event. Requests may hold further references
   * for longer. */
  TpsRefcount refcount;
  TpsClient *client;
  guint64 number; /* value of client->n_links_made after the creation of this link */

  /* Guarded by client->lock: */
  gboolean down; /* no call uses it any more */
  gboolean up;
  GQueue unsent; /* of TpsClientCall; sent when the link is up */
  TpsNegotiation negotiation;

  /* Set once, before the phase `up`. */
  TpsConnection *connection;

  TpsSegmentPool *pool; /* shut down when `down` is set; NULL = no shared memory */

  /* Only used on the loop thread: */
  TpsClientLinkPhase phase;
  gboolean torn_down;
  TpsConnector *connector;
  guint64 opening_timer; /* timer of the handshake of an encrypted connection; 0 = none */
};

/* Creates a link, which connects on the loop. Must be called with client->lock held. */
TpsClientLink *tps_client_link_new (TpsClient *client);

/* Takes a reference. Thread: any. */
TpsClientLink *tps_client_link_ref (TpsClientLink *link);

/* Drops a reference. Must not be called with client->lock held. Thread: any. */
void tps_client_link_unref (TpsClientLink *link);

/* Takes `link` down: its calls fail with a copy of `why`. If `link` is NULL, takes down the
 * client's current link, if there is one. Thread: the loop's; if `link` is NULL, any. */
void tps_client_lose_link (TpsClient *client, TpsClientLink *link, const GError *why);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsClientLink, tps_client_link_unref)

G_END_DECLS
