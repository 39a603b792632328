/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The connections of the HTTP server: their number, their deadlines, and the memory that they hold.
 *
 *   accept       one more connection; beyond the limit it is answered with 503 and closed
 *   start        libsoup has a message for it; its deadline is that of the request
 *   expect       the request was answered: the deadline is that of the answer
 *   stream       an event stream: no deadline
 *   end          the connection is gone; either side may have closed it
 *
 * libsoup keeps a connection after its answer only for servers that listen by themselves; here it
 * closes it. So a connection has one message. Thread: the HTTP thread alone.
 */

#pragma once

#include <libsoup/soup.h>

#include "runtime/base/budget.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

typedef struct TpsHttpConnections TpsHttpConnections;
typedef struct TpsHttpConnection TpsHttpConnection;

typedef struct
{
  GMainContext *context; /* borrowed; its timers are the deadlines */
  SoupServer *soup;      /* borrowed */
  TpsBudget *budget;     /* charged for the memory of connections; borrowed; NULL = none */
  TpsCounters *counters; /* of the gauge http_connections; borrowed; NULL = none */
  guint max_connections;
  guint max_streams;
  guint request_ms; /* for a request to come */
  guint answer_ms;  /* for an answer to be taken */
} TpsHttpConnectionLimits;

/* A snapshot of counts, and those since the start. */
typedef struct
{
  guint n_connections, n_streams;
  guint64 n_accepted, n_refused;
} TpsHttpConnectionCounts;

/* Copies `limits`. The caller owns the result. */
TpsHttpConnections *tps_http_connections_new (const TpsHttpConnectionLimits *limits);
/* After libsoup's server and all of its connections have been freed. */
void tps_http_connections_free (TpsHttpConnections *connections);

/* Takes over `fd`, a connected socket, and has libsoup serve it. One too many is answered with
 * 503. */
void tps_http_connections_accept (TpsHttpConnections *connections, gint fd);

/* Cuts all connections. They end when libsoup reads their sockets. */
void tps_http_connections_cut_all (TpsHttpConnections *connections);

/* Fills in `counts`. */
void tps_http_connections_get_counts (const TpsHttpConnections *connections,
                                      TpsHttpConnectionCounts *counts);

/* Of a message that libsoup has started. Borrowed while the message lives. */
TpsHttpConnection *tps_http_connection_of (SoupServerMessage *message);

/* The peer, for the log, and whether it is on this machine. Borrowed. */
const gchar *tps_http_connection_get_peer (const TpsHttpConnection *connection);
gboolean tps_http_connection_is_local (const TpsHttpConnection *connection);

/* Charges `n_bytes` more until the connection is gone. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_http_connection_charge (TpsHttpConnection *connection, gsize n_bytes, GError **error);

/* The answer is there: it must be taken within `answer_ms`, unless it is a stream. */
void tps_http_connection_expect_taken (TpsHttpConnection *connection);

/* It is an event stream from now on, without a deadline. FALSE: there are too many. */
gboolean tps_http_connection_become_stream (TpsHttpConnection *connection);

/* Ends it now, even in the middle of a message. libsoup drops it a moment later. */
void tps_http_connection_cut (TpsHttpConnection *connection);

G_END_DECLS
