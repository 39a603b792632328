/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One connection of the client, from its first attempt to connect to its last event. Only for the
 * client.
 *
 * The client has at most one link that is up or coming up; links that are going down finish on the
 * loop by themselves. Whatever a peer does wrong (bytes that are no Thrift, an answer to a call
 * that was never made, or under another name) takes the link down. */

#pragma once

#include "plugin/client/client_private.h"
#include "plugin/client/connector.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_CLIENT_LINK_NEW,        /* the loop has not begun */
  TPS_CLIENT_LINK_CONNECTING, /* connector is there */
  TPS_CLIENT_LINK_UP,         /* connection is there, `closed` will come */
  TPS_CLIENT_LINK_CLOSED,     /* `closed` has come */
} TpsClientLinkPhase;

typedef enum
{
  TPS_NEGOTIATION_NONE, /* not asked, or without a result */
  TPS_NEGOTIATION_ASKED,
  TPS_NEGOTIATION_DONE,
} TpsNegotiationState;

/* negotiation.h. All zero at first. */
typedef struct
{
  TpsNegotiationState state;
  TpsPeerFacts facts; /* DONE */
  GQueue waiting;     /* ASKED: of TpsClientCall */
} TpsNegotiation;

struct TpsClientLink
{
  TpsRefcount refcount; /* the link itself until its last event, and requests that outlive it */
  TpsClient *client;
  guint64 number; /* client->n_links_made, with this link */

  /* client->lock */
  gboolean down; /* no call uses it any more */
  gboolean up;
  GQueue unsent; /* of TpsClientCall, waiting for `up` */
  TpsNegotiation negotiation;

  /* Set once, before `up`. */
  TpsConnection *connection;

  TpsSegmentPool *pool; /* NULL: no memory is shared; shut down with `down` */

  /* loop thread */
  TpsClientLinkPhase phase;
  gboolean torn_down;
  TpsConnector *connector;
  guint64 opening_timer; /* of an encrypted connection; 0 = none */
};

/* Under the lock. The client's. */
TpsClientLink *tps_client_link_new (TpsClient *client);

TpsClientLink *tps_client_link_ref (TpsClientLink *link);

/* Not under the lock. */
void tps_client_link_unref (TpsClientLink *link);

/* Takes `link` down: its calls fail with `why`. With NULL for the link, the client's link of that
 * moment, if there is one. Thread: the loop's; with NULL any. */
void tps_client_lose_link (TpsClient *client, TpsClientLink *link, const GError *why);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsClientLink, tps_client_link_unref)

G_END_DECLS
