/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state of a client, its calls, each from its message to its outcome, and its links. Private to
 * the client, which has two layers: client.c calls this one.
 *
 * The happy path: tps_client_call() writes the message, puts the call into the table under its
 * sequence id and gives the writer to the connection, which sends it from the caller's thread. The
 * loop receives the reply and finds the call by the sequence id. `done` runs on the loop.
 *
 * A call ends when two references have been dropped. The first one is dropped when the outcome is
 * known (reply, error, deadline), the second one when the writer is freed. The writer borrows the
 * caller's arguments, so even a call with an outcome waits until the callback of
 * tps_writer_set_released() reports that the writer is freed.
 *
 * A link is one connection, from its first attempt to connect to its last event. The client has at
 * most one link that is up or connecting. Links that are going down finish by themselves on the
 * loop. Any violation of the protocol by the peer takes the link down: bytes that are not Thrift, a
 * reply to a call that was never made, or a reply with the wrong name.
 *
 * Threads. Each client has its own loop, so that a long receive from one server does not delay the
 * replies of a different server. `done` always runs on the loop, never within a call into the
 * client.
 *
 * Locks: `lock` must not be held during calls into the connection or into code of the user. A
 * pool's own lock may be taken with `lock` held. */

#pragma once

#include "plugin/client/client.h"
#include "plugin/net/address.h"
#include "plugin/net/connection.h"
#include "plugin/tracing/trace_context.h"
#include "runtime/base/sync.h"

#define TPS_CLIENT_NEVER G_MAXINT64
#define TPS_CALL_TABLE_LISTS 256

typedef struct TpsClientCall TpsClientCall;
typedef struct TpsClientLink TpsClientLink;

/* The calls of a client by sequence id: a hash table. The calls themselves are the nodes of its
 * lists, so that an insertion or removal allocates no memory. Sequence ids are consecutive, so the
 * lists have about the same length. All zero = an empty table. Not thread-safe. */
typedef struct
{
  guint n_calls; /* without background calls, which are not limited */
  TpsClientCall *lists[TPS_CALL_TABLE_LISTS];
} TpsCallTable;

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
  guint n_callers; /* threads that use the client, besides the loop */
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

/* The right to send the writer, decided by one compare-and-exchange. */
enum
{
  TPS_CLIENT_WRITER_UNSENT,
  TPS_CLIENT_WRITER_GIVEN,   /* given to the connection, or about to be */
  TPS_CLIENT_WRITER_DROPPED, /* the call ended first */
};

struct TpsClientCall
{
  TpsRefcount holds; /* the outcome and the writer */
  TpsClient *client;
  gint32 seqid;
  GString *name; /* "Service:method"; empty for a delay */
  gint64 started_ns;
  gint64 deadline_ns;
  TpsClientDone done;
  TpsClientDelayed delayed;
  gpointer user_data;

  /* Called on the loop when both references have been dropped. TRUE: the call continues, and
   * finishes again later. NULL = the call never continues. */
  gboolean (*goes_on) (TpsClientCall *call);

  /* Guarded by client->lock: */
  TpsClientLink *link; /* the link of the call; NULL for a delay and during a negotiation */
  gboolean answered;   /* there is an outcome, but the writer is not freed yet */
  GQueue *queue;       /* the queue of unsent calls that `node` is in; NULL = none */
  GList node;
  TpsClientCall *next_in_table;

  TpsSharing *lease; /* from the link's pool; NULL = none */
  /* a background call may use only the link with this number; 0 = any link */
  guint64 bound;

  /* Owned by the calling thread, then by the loop: */
  gboolean is_large; /* may exceed a frame, and is therefore written inline, in binary protocol */
  gboolean is_framable; /* fits into a frame, but may exceed the server's limit */
  gboolean is_fetched;  /* the reply came in chunks */

  TpsWriter *writer; /* owned by the thread that wins `sending` */
  atomic_int sending;
  atomic_bool writer_released;

  /* Only used on the loop thread: the link to close, because bytes were unsent at the deadline. */
  TpsClientLink *blocked_link;

  /* Owned by the thread that removes the call from the table: */
  TpsMessage *reply;
  GError *error;
};

/* Creates a call without a name or message. tps_client_call_finish() frees it. */
TpsClientCall *tps_client_call_new (TpsClient *client, gint64 deadline_ns, gpointer user_data);
/* Must be called once, before the message is written. */
void tps_client_call_set_name (TpsClientCall *call, const gchar *service, const gchar *method);

/* Writes the message up to the end of the arguments; tensors use the call's lease. The caller must
 * end the message. */
void tps_client_call_write (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data);

/* Gives the writer a reference to the call. Must be called once, after the message has ended. */
void tps_client_call_written (TpsClientCall *call);

/* Frees the message and releases the lease, so that the call can be written again. */
void tps_client_call_unwrite (TpsClientCall *call);

/* Sends the message, unless the call has ended. The call may be freed before this returns. */
void tps_client_call_send (TpsClientCall *call, TpsConnection *connection);

/* Returns TRUE while the connection holds bytes of the call's arguments. */
gboolean tps_client_call_is_being_sent (const TpsClientCall *call);

/* Removes the call from the table and from its queue. Must be called with client->lock held.
 * Returns the writer if the caller must free it, otherwise NULL. */
TpsWriter *tps_client_call_forget (TpsClientCall *call);

/* Drops the reference for the outcome, which must be stored in the call. The call is finished when
 * its writer has been freed. The call must be out of the table, unless it is `answered`. */
void tps_client_call_decided (TpsClientCall *call);
/* Stores `error_taken` as the outcome, and calls tps_client_call_decided(). */
void tps_client_call_fail (TpsClientCall *call, GError *error_taken);

/* The last step, a TpsLoopFunc: reports the outcome and frees the call, which is `user_data`. */
void tps_client_call_finish (gpointer user_data);

/* ---- calls in flight ------------------------------------------------------------------------ */

/* Insert, find (NULL = none) and remove a call. A call to be inserted must not be in any table, and
 * no call in `table` may have its seqid; the removal of an absent call has no effect. */
void tps_call_table_insert (TpsCallTable *table, TpsClientCall *call);
TpsClientCall *tps_call_table_find (const TpsCallTable *table, gint32 seqid);
void tps_call_table_remove (TpsCallTable *table, TpsClientCall *call);

/* Iterates over all calls in arbitrary order: returns the first call if `call` is NULL, otherwise
 * the call after `call`, and NULL at the end. `call` may be removed once its successor is known. */
TpsClientCall *tps_call_table_get_next (const TpsCallTable *table, const TpsClientCall *call);

/* ---- replies -------------------------------------------------------------------------------- */

/* Returns TRUE if the reply carries the name of the call: "Service:method" as sent, or the method
 * alone, as in replies of multiplexed processors. */
gboolean tps_reply_has_name (const TpsMessage *reply, const gchar *sent_name);

/* Returns the name of the transfer from which the reply must be fetched (ServiceError.transfer);
 * the caller owns it. NULL: `reply` is the reply itself. */
gchar *tps_reply_dup_transfer (const TpsMessage *reply);

/* ---- links ---------------------------------------------------------------------------------- */

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
/* Thread: any. The client's lock must not be held during unref(). */
TpsClientLink *tps_client_link_ref (TpsClientLink *link);
void tps_client_link_unref (TpsClientLink *link);

/* Takes `link` down: its calls fail with a copy of `why`. If `link` is NULL, takes down the
 * client's current link, if there is one. Thread: the loop's; if `link` is NULL, any. */
void tps_client_lose_link (TpsClient *client, TpsClientLink *link, const GError *why);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsClientLink, tps_client_link_unref)
