/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state that the parts of the client share, and how they fit together. Only for them.
 *
 * Each part calls only the parts below it; tests/lint/include_law_test.py checks it.
 *
 *   client.c            the public calls: written for the link of the moment, as frames or large
 *   client_chunks.c     messages that may not fit into a frame
 *   client_sharing.c    requests for the shared memory that a link's pool wants
 *   negotiation.c       one Node.describe for each link; the limits and offers of its peer
 *   channel.c           calls on the link of the moment, or on one given link
 *   deadlines.c         one timer for all calls
 *   client_link.c       one connection: connecting, receiving, its end
 *   client_call.c       one call: its message, its writer, its outcome
 *   call_table.c        the calls in flight
 *
 * The happy path: tps_client_call() writes the message, puts the call into the table under its
 * sequence id and gives the writer to the connection, which sends it from the caller's thread. The
 * answer comes in on the loop, finds its call by the sequence id, and `done` runs there.
 *
 * Threads. Each client has its own loop, so that a long receive from one server does not delay the
 * answers of another. `done` always runs on the loop, never within a call into the client.
 *
 * Locks: `lock`, never held while calling into the connection or the user; a pool's own lock may be
 * taken under it. */

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

/* The reply of Node.describe on one link. */
typedef struct
{
  gint64 max_frame_bytes;  /* of a message to it; 0 = not said */
  gint64 max_shared_bytes; /* of segments on the connection; 0 = none are offered */
  gboolean shares_device;  /* segments may lie in memory of a device */
} TpsPeerFacts;

struct TpsClient
{
  gchar *where;
  TpsAddress address;
  TpsScannerOptions scanner;
  TpsTls *tls; /* NULL = connections are plain */
  gchar *tls_peer;
  gchar *token; /* NULL = connections are not authenticated by one */
  gint64 connect_timeout_ns;
  guint max_in_flight;
  TpsProtocolKind protocol;
  gsize max_shared_bytes;   /* 0 = no memory is shared */
  GDestroyNotify wake_pool; /* with the link: its pool has something to ask */
  gsize ask_bytes;          /* what every server reads: longer messages wait for the negotiation */
  TpsLoop *loop;
  atomic_bool is_traced; /* there is a context */

  TpsMutex lock;           /* guards the following */
  TpsTraceContext context; /* of calls that begin */
  TpsCond idle;            /* one of the counts reached zero */
  gboolean cancelled;
  guint n_callers; /* threads inside tps_client_call() */
  guint n_calls;   /* not finished */
  guint n_links;
  guint32 n_issued;    /* sequence ids */
  TpsCallTable calls;  /* without an outcome, or answered with the writer out */
  TpsClientLink *link; /* the one that new calls use */
  guint64 n_links_made;
  guint n_questions_lost;     /* in a row: links that broke on Node.describe */
  guint n_links_to_spare;     /* so many links are not asked */
  TpsSharingStats past_stats; /* of links that are down */
  gboolean has_warned;        /* that memory cannot be shared */
  gint64 wake_ns;             /* when the deadline timer is to fire, TPS_CLIENT_NEVER = not */

  guint64 timer_id; /* loop thread */
};

G_END_DECLS
