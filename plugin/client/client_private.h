/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the parts of the client share: client.c makes calls, client_call.c ends them, client_link.c connects and receives,
 * client_sharing.c asks for shared memory. Only for them. */

#pragma once

#include "plugin/client/call_table.h"
#include "plugin/client/client.h"
#include "plugin/client/connector.h"
#include "plugin/client/peer.h"
#include "plugin/net/connection.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

/* The happy path: tps_client_call() writes the message, puts the call into the table under its sequence id and gives the
 * writer to the connection, which sends it from the caller's thread. The answer comes in on the loop, finds its call by
 * the sequence id, and `done` runs there.
 *
 * Threads. Every client has a loop of its own: a trainer has a handful of servers, and a long receive from one must not
 * hold up the answers of another. `done` always runs on the loop, never within a call into the client.
 *
 * A call ends when two holds are gone: its outcome (answer, error, deadline) and its writer. The writer borrows the
 * caller's arguments, so even a call whose outcome is known waits until the writer is freed; its release
 * (tps_writer_set_released()) is the only thing that says so.
 *
 * A deadline that passes forgets the call: its sequence id leaves the table, and an answer that comes later finds nobody
 * and is dropped with its bodies. What then happens to the bytes of the arguments:
 *   not given to the connection yet (still connecting)   the writer is freed unsent
 *   all taken by the socket                              nothing is left to release
 *   waiting in the connection, or sent in part           the connection is closed. A message that was cut cannot be
 *       resumed, and a peer that did not read until now cannot be made to. The other calls of the connection fail with
 *       CONNECTION_LOST; the next call connects anew.
 * The same holds for a peer that answers before it has read the call: the answer stands, `done` waits for the bytes, and
 * the deadline closes the connection.
 *
 * A link is one connection from its first attempt to connect to its last event. The client has at most one that is up or
 * coming up; links that are going down finish on the loop by themselves. Whatever a peer does wrong (bytes that are no
 * Thrift, an answer to a call that was never made, or under another name) takes the link down.
 *
 * Shared memory. A link to a Unix socket has a pool of segments, which knows what to ask of the server; client_sharing.c
 * asks, by background calls that go out on that link or not at all, without a deadline (a peer that does not answer
 * them gets everything inline), and that do not count as calls in flight. A call is written with a lease of the pool of
 * the client's link; should that link go before the call is in the table, it is written again for the next one.
 *
 * Locks: `lock`, never held while calling into the connection or the user; a pool's own lock may be taken under it. */

#define TPS_CLIENT_NEVER G_MAXINT64

typedef struct TpsClientLink TpsClientLink;

struct TpsClient
{
  gchar *where;
  TpsAddress address;
  TpsScannerOptions scanner;
  gint64 connect_timeout_ns;
  guint max_in_flight;
  TpsProtocolKind protocol;
  gsize max_shared_bytes;    /* 0 = no memory is shared */
  gsize ask_bytes;           /* what every server reads: longer messages wait for what it says */
  atomic_uint n_limits_lost; /* connections lost by asking */
  TpsLoop *loop;

  TpsMutex lock; /* guards the following */
  TpsCond idle;  /* one of the counts reached zero */
  gboolean cancelled;
  guint n_callers; /* threads inside tps_client_call() */
  guint n_calls;   /* not finished */
  guint n_links;
  guint32 n_issued;    /* sequence ids */
  TpsCallTable calls;  /* without an outcome, or answered with the writer out */
  TpsClientLink *link; /* the one that new calls use */
  guint64 n_links_made;
  TpsPeerFacts facts;         /* of the peer of `link`, if facts_link is n_links_made */
  guint n_offers_lost;        /* one after the other: connections that broke on Node.describe */
  TpsSharingStats past_stats; /* of links that are down */
  gboolean has_warned;        /* that memory cannot be shared */
  guint64 facts_link;         /* the value of n_links_made then; 0 = never asked */
  gint64 wake_ns;             /* when the deadline timer is to fire, TPS_CLIENT_NEVER = not */

  guint64 timer_id; /* loop thread */
};

typedef enum
{
  TPS_CLIENT_LINK_NEW,        /* the loop has not begun */
  TPS_CLIENT_LINK_CONNECTING, /* connector is there */
  TPS_CLIENT_LINK_UP,         /* connection is there, `closed` will come */
  TPS_CLIENT_LINK_CLOSED,     /* `closed` has come */
} TpsClientLinkPhase;

struct TpsClientLink
{
  TpsClient *client;

  /* client->lock */
  gboolean down;      /* no call uses it any more */
  gboolean offer_out; /* Node.describe has been asked for the pool, and not answered */
  gboolean up;
  GQueue unsent; /* of TpsClientCall, waiting for `up` */

  /* Set once, before `up`. */
  TpsConnection *connection;

  TpsSegmentPool *pool; /* NULL: no memory is shared; shut down with `down` */
  guint64 number;       /* client->n_links_made, with this link */

  /* loop thread */
  TpsClientLinkPhase phase;
  gboolean torn_down;
  TpsConnector *connector;
};

/* Who may send the writer: decided by one compare-and-exchange. */
enum
{
  TPS_CLIENT_WRITER_UNSENT,
  TPS_CLIENT_WRITER_GIVEN,   /* to the connection, or about to be */
  TPS_CLIENT_WRITER_DROPPED, /* the call ended first */
};

struct TpsClientCall
{
  TpsRefcount holds; /* the outcome, the writer */
  TpsClient *client;
  gint32 seqid;
  GString *name; /* "Service:method"; empty for a delay */
  gint64 started_ns;
  gint64 deadline_ns;
  TpsClientDone done;
  TpsClientDelayed delayed;
  gpointer user_data;

  /* client->lock */
  TpsClientLink *link; /* NULL for a delay */
  gboolean answered;   /* the outcome stands, the writer is still out */
  gboolean queued;     /* in link->unsent */
  GList node;
  TpsClientCall *next_in_table;

  TpsSharing *lease;     /* of the link's pool; NULL = none */
  TpsSegmentPool *bound; /* a background call: goes out on the link of this pool only */

  /* Whoever makes the call, then the loop. */
  gboolean is_large;    /* may be too large for a frame: written inline, in binary protocol */
  gboolean is_framable; /* a frame can hold it, though perhaps not one that the server reads */
  gboolean is_fetched;  /* the answer came in chunks */

  TpsWriter *writer; /* whoever wins `sending` */
  atomic_int sending;
  atomic_bool writer_released;

  /* Loop thread: to be closed, because the deadline passed with bytes unsent. */
  TpsClientLink *blocked_link;

  /* Whoever takes the call out of the table. */
  TpsMessage *reply;
  GError *error;
};

/* client.c */

/* A background call, whose arguments are written before this returns. */
void tps_client_call_bound (TpsClient *client, TpsSegmentPool *pool, const TpsRpc *rpc,
                            gconstpointer arguments, TpsClientDone done, gpointer user_data);

/* Puts a call that has been written on its way. FALSE: it is to be written again, for another link; never for a large one. */
gboolean tps_client_call_submit (TpsClientCall *call);

/* client_chunks.c */

/* Whether the message that was written may be too large for a frame of the server. */
gboolean tps_client_call_may_be_too_large (TpsClientCall *call);

/* Ends the message of a large call. Errors: RESOURCE_EXHAUSTED for what no transfer can hold either. */
gboolean tps_client_call_end_large (TpsClientCall *call, GError **error);

/* Sends a large call, in a frame or in chunks. */
void tps_client_call_send_large (TpsClientCall *call);

/* Whether the answer waits in the server: it is then fetched, and the call finished again. On the loop. */
gboolean tps_client_call_fetch_answer (TpsClientCall *call);

/* client_sharing.c */

/* Under the lock: a pool for the new link; NULL where memory is not shared. */
TpsSegmentPool *tps_client_make_pool (TpsClientLink *link);

/* Under the lock: the link goes down. */
void tps_client_end_pool (TpsClientLink *link);

/* Asks for whatever the pool wants now. Thread: any. */
void tps_client_share_memory (TpsClient *client, TpsSegmentPool *pool, guint64 link_number);

/* client_call.c */

/* Without a name. Ends with tps_client_call_finish(). */
TpsClientCall *tps_client_call_new (TpsClient *client, gint64 deadline_ns, gpointer user_data);

/* Sends, unless the call ended first. Afterwards the call may be gone. */
void tps_client_call_send (TpsClientCall *call, TpsConnection *connection);

/* Under the lock: takes the call out of the table and of the queue; returns the writer where nobody else will free it. */
TpsWriter *tps_client_call_forget (TpsClientCall *call);

/* The outcome stands in the call, which is out of the table (or answered). Reports it when the writer is gone too. */
void tps_client_call_decided (TpsClientCall *call);
void tps_client_call_fail (TpsClientCall *call, GError *error_taken);

/* The last step, on the loop: reports, frees. A TpsLoopFunc of the call. */
void tps_client_call_finish (gpointer user_data);

/* For tps_writer_set_released (), with the call. */
void tps_client_call_writer_released (gpointer user_data);

/* TpsLoopFuncs of the client: set the timer to wake_ns; take it away. */
void tps_client_set_timer (gpointer user_data);
void tps_client_clear_timer (gpointer user_data);

/* peer.c */

/* The answer to Node.describe. Errors: INTERNAL for one that cannot be understood. */
gboolean tps_peer_facts_read (TpsReader *result, TpsWireType type, TpsPeerFacts *facts,
                              GError **error);

/* FALSE: not known for the link of that number. */
gboolean tps_client_get_facts (TpsClient *client, guint64 n_links_made, TpsPeerFacts *facts);

/* Keeps the facts if the client's link is still the one of that number. */
void tps_client_keep_facts (TpsClient *client, guint64 n_links_made, const TpsPeerFacts *facts);

/* client_link.c */

/* Under the lock. */
TpsClientLink *tps_client_link_new (TpsClient *client);

/* Takes `link` down: its calls fail with `why`. With NULL for the link, the client's link of that moment, if there is
 * one. Thread: the loop's; with NULL any. */
void tps_client_lose_link (TpsClient *client, TpsClientLink *link, const GError *why);

G_END_DECLS
