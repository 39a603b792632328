/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The connections of the HTTP server: their number, their deadlines, and the memory that they hold.
 *
 *   accept       a new connection, with the deadline for a request
 *   serve        the whole request has been received within the limits of http_guard.h: libsoup
 *                gets it, and creates the message of the connection
 *   expect       the request has a response: the deadline is the deadline for sending it
 *   stream       the connection is an event stream: it has no deadline
 *   end          the connection is gone; either side may have closed it
 *
 * If there are too many connections, the one that has been without a complete request for the
 * longest time gives way to a new connection, or else the one with the oldest response. So peers
 * that are idle or slow cannot prevent the response to another peer, such as a health check.
 *
 * libsoup keeps a connection open after its response only if libsoup itself listens. Here libsoup
 * closes the connection, so each connection has one message. Thread: the HTTP thread.
 */

#pragma once

#include <libsoup/soup.h>

#include "runtime/base/budget.h"
#include "runtime/base/counters.h"

typedef struct TpsHttpConnections TpsHttpConnections;

/* Read-only for others, but for `charge`. */
typedef struct
{
  TpsHttpConnections *all;
  GList link;
  GSocket *socket;
  gchar *request; /* [TPS_HTTP_MAX_REQUEST_BYTES + 1]; NULL = libsoup has the request */
  gsize n_received;
  GSource *receiving;         /* NULL = libsoup has the request */
  GSocketConnection *carrier; /* of libsoup's output; NULL = the request is incomplete */
  SoupServerMessage *message; /* borrowed while libsoup uses it; otherwise NULL */
  gchar *peer;                /* address for the log */
  gboolean is_local;          /* the peer is on this machine */
  gboolean is_answered;
  gboolean is_stream;
  gboolean is_cut;
  TpsCharge charge;  /* for the response, until the connection is gone */
  GSource *deadline; /* NULL = none */
} TpsHttpConnection;

typedef struct
{
  GMainContext *context; /* borrowed; runs the timers of the deadlines */
  SoupServer *soup;      /* borrowed */
  TpsBudget *budget;     /* charged for large responses; borrowed; NULL = none */
  TpsCounters *counters; /* of the gauge http_connections; borrowed; NULL = none */
  guint max_connections;
  guint max_streams;
  guint request_ms; /* timeout for receiving a request */
  guint answer_ms;  /* timeout for sending a response */
} TpsHttpConnectionLimits;

/* Current counts, and totals since the start. */
typedef struct
{
  guint n_connections, n_streams;
  guint64 n_accepted, n_refused;
} TpsHttpConnectionCounts;

/* Creates an object without connections; copies `limits`. The caller owns the result. */
TpsHttpConnections *tps_http_connections_new (const TpsHttpConnectionLimits *limits);
/* Frees the object. Must not be called before libsoup's server has been freed. If libsoup still
 * keeps a connection, the object is leaked, because the end of the connection uses it. */
void tps_http_connections_free (TpsHttpConnections *connections);

/* Takes ownership of `fd`, a connected socket. If all connections are event streams, the response
 * is 503, and the connection is closed. */
void tps_http_connections_accept (TpsHttpConnections *connections, gint fd);

/* Shuts down all connections. They end when libsoup reads their sockets. */
void tps_http_connections_cut_all (TpsHttpConnections *connections);

/* Fills in `counts`. */
void tps_http_connections_get_counts (const TpsHttpConnections *connections,
                                      TpsHttpConnectionCounts *counts);

/* Returns the connection of a message that libsoup has started, borrowed from the message. */
TpsHttpConnection *tps_http_connection_of (SoupServerMessage *message);

/* Records that the request has a response, due within `answer_ms`; no effect on a stream. */
void tps_http_connection_expect_taken (TpsHttpConnection *connection);

/* Makes the connection an event stream, without a deadline. FALSE: there are too many. */
gboolean tps_http_connection_become_stream (TpsHttpConnection *connection);

/* Shuts down the connection, even in the middle of a message. libsoup frees it later. */
void tps_http_connection_cut (TpsHttpConnection *connection);
