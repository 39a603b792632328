/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state that the parts of the client share, and a map of the parts. Private to the client.
 *
 * Each part must call only the parts below it; tests/lint/include_law_test.py checks this rule.
 *
 *   client.c            the public calls: messages for the current link, in frames or large
 *   client_chunks.c     messages that may not fit into a frame
 *   client_sharing.c    requests for the shared memory that a link's pool needs
 *   negotiation.c       one Node.describe per link: the limits and offers of its peer
 *   channel.c           calls on the current link, or on a given link
 *   deadlines.c         one timer for all calls
 *   client_link.c       one connection: connecting, receiving, closing
 *   client_call.c       one call: its message, its writer, its outcome
 *   call_table.c        the calls in flight
 *
 * The happy path: tps_client_call() writes the message, puts the call into the table under its
 * sequence id and gives the writer to the connection, which sends it from the caller's thread. The
 * loop receives the reply and finds the call by the sequence id. `done` runs on the loop.
 *
 * Threads. Each client has its own loop, so that a long receive from one server does not delay the
 * replies of a different server. `done` always runs on the loop, never within a call into the
 * client.
 *
 * Locks: `lock` must not be held during calls into the connection or into code of the user. A
 * pool's own lock may be taken with `lock` held. */

#pragma once

#include "plugin/client/call_table.h"
#include "plugin/client/client.h"
#include "plugin/net/address.h"
#include "plugin/net/connection.h"
#include "plugin/tracing/trace_context.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

#define TPS_CLIENT_NEVER G_MAXINT64

typedef struct TpsClientLink TpsClientLink;

/* The facts about a peer, from its reply to Node.describe. */
typedef struct
{
  gint64 max_frame_bytes;  /* limit of a message to the peer; 0 = unknown */
  gint64 max_shared_bytes; /* limit of the segments on the connection; 0 = none are offered */
  gboolean shares_device;  /* segments may lie in memory of a device */
  gboolean shares_lookups; /* segments with results of lookups may lie in memory of a device */
} TpsPeerFacts;

struct TpsClient
{
  gchar *where;
  TpsAddress address;
  TpsScannerOptions scanner;
  TpsTls *tls; /* NULL = connections are plain */
  gchar *tls_peer;
  gchar *token; /* NULL = connections are not authenticated with a token */
  gint64 connect_timeout_ns;
  guint max_in_flight;
  TpsProtocolKind protocol;
  gsize max_shared_bytes; /* 0 = no shared memory */
  gboolean shares_answers;
  TpsDevice *lookup_device; /* NULL = none */
  GDestroyNotify wake_pool; /* called with the link when its pool has requests */
  /* messages up to this size are sent at once; longer ones wait for the negotiation */
  gsize ask_bytes;
  TpsLoop *loop;
  atomic_bool is_traced; /* `context` is set */

  TpsMutex lock;           /* guards the following */
  TpsTraceContext context; /* of new calls */
  TpsCond idle;            /* signalled when one of the counts reaches zero */
  gboolean cancelled;
  guint n_callers; /* threads between tps_channel_enter() and tps_channel_leave() */
  guint n_calls;   /* calls that are not finished */
  guint n_links;
  guint32 n_issued;    /* number of sequence ids issued */
  TpsCallTable calls;  /* calls without an outcome, and answered calls whose writer is not freed */
  TpsClientLink *link; /* the link for new calls */
  guint64 n_links_made;
  guint n_requests_lost;      /* consecutive links that broke on Node.describe */
  guint n_links_to_skip;      /* number of links that will skip the request */
  TpsSharingStats past_stats; /* totals of links that are down */
  gboolean has_warned;        /* the warning about missing shared memory was logged */
  gint64 wake_ns;             /* next time of the deadline timer; TPS_CLIENT_NEVER = not set */

  guint64 timer_id; /* only used on the loop thread */
};

G_END_DECLS
