/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of a session; no other file may include this header. Each part calls only parts below
 * it:
 *
 *   session_events.c   the begin of a session, and the events of its connection
 *   session_carrier.c  the functions that a call offers to the services
 *   session_calls.c    the outstanding calls, and the order of their replies
 *   session_caller.c   the identity, the tenant and the context of the caller
 *   session.c          the object
 */

#pragma once

#include "plugin/server/session.h"
#include "plugin/server/sharing_offer.h"

G_BEGIN_DECLS

struct TpsSession
{
  TpsRefcount refcount;
  TpsServerCore *core;
  TpsIoThread *io;
  GList link; /* in io->sessions; the loop's thread only */
  TpsConnection *connection;
  gchar *peer;
  TpsTenant *tenant;       /* of later calls; NULL = no limits. The loop's thread only */
  TpsPrincipal *tenant_of; /* the principal that has `tenant`; a reference */
  TpsSharingOffer offer;
  TpsSegmentRegistry *segments;   /* NULL: shared memory is not offered */
  TpsJobQueue *jobs[TPS_N_LANES]; /* of calls, on the server's workers */
  atomic_bool closed;
  atomic_bool has_context; /* `context` is not NULL */
  gboolean has_rights;     /* of the last call; the loop's thread only */
  gboolean half_closed;    /* counted in core->n_half_closed; the loop's thread only */
  guint64 throttle_timer;  /* 0 = none; the loop's thread only */
  guint n_free_logins;     /* calls that were not charged to the tenant; the loop's thread only */
  guint64 id;
  gboolean is_unix;
  gint64 began_ns;

  TpsMutex lock;            /* guards all fields below; taken before the connection's lock */
  GHashTable *context;      /* of Session.set_context, immutable; NULL = none */
  GQueue calls;             /* of TpsSessionCall, in order of arrival */
  gsize n_unsent;           /* bytes of replies that must wait for earlier ones */
  guint64 n_calls;          /* calls received so far */
  TpsProtocolKind protocol; /* of the last call; 0 = none was received */
  gboolean framed;          /* of the last call */
  TpsIdentity identity;
  gboolean is_identified; /* the name in the certificate has been read */
  gboolean refused;       /* after too many wrong tokens */
  gboolean crowded;       /* there are too many calls */
  gboolean throttled;     /* until `throttle_timer` */
  gboolean paused;        /* refused, crowded or throttled: the connection is not read */
  gboolean ended;         /* no more calls: the connection closes after the last reply */
};

typedef enum
{
  TPS_SESSION_CALL_RUNNING = 0,
  TPS_SESSION_CALL_ANSWERED = 1,
  TPS_SESSION_CALL_SENDING = 2,
} TpsSessionCallState;

/* One outstanding call: the `carried` of its carrier. */
typedef struct
{
  TpsSession *session;
  GList link;
  gint32 seqid;
  gboolean ordered; /* replies to other calls may have to wait for its reply */
  /* The number of open conditions of the reply: the handler has finished, and slices of shared
   * memory in the arguments have been released. */
  guint n_awaited;
  TpsSessionCallState state;
  TpsWriter *reply;
  gchar *name;     /* of the method, if the server injects faults; else NULL */
  TpsGrant *grant; /* a reference; NULL = nothing is checked */
} TpsSessionCall;

/* ---- session.c ------------------------------------------------------------------------------ */

/* Creates a session without a connection. The caller must set `connection` and `id`. */
TpsSession *tps_session_new (TpsIoThread *io, const gchar *peer);

/* Stops or resumes reading. The lock must be held. */
void tps_session_set_paused (TpsSession *session, gboolean paused);

/* Applies `refused`, `crowded` and `throttled`; must be called after each change. The lock must be
 * held. */
static inline void
tps_session_update_reading (TpsSession *session)
{
  gboolean paused = session->refused || session->crowded || session->throttled;

  if (paused != session->paused)
    tps_session_set_paused (session, paused);
}

/* ---- session_caller.c ----------------------------------------------------------------------- */

/* Identifies a peer on a Unix socket by its user at the time when the peer connected. Must be
 * called before the connection begins. */
void tps_session_show_user (TpsSession *session, gint fd);

/* Identifies the sender of `message` by its certificate and the message's header, and sets the
 * tenant of its calls. Returns a reference to the grant of the call; NULL = nothing is checked. If
 * `error` is set, the call must be refused: UNAUTHENTICATED, UNAVAILABLE. The lock must be held.
 * Thread: the loop's. */
TpsGrant *tps_session_identify (TpsSession *session, const TpsMessage *message, GError **error);

/* Returns the pool for the message that begins, borrowed: peers without rights have a pool of their
 * own. For TpsScannerOptions. Thread: the loop's. */
TpsBufferPool *tps_session_choose_bodies (gpointer session);

/* Gives later calls the rights of the owner of `token`. After too many wrong tokens the connection
 * closes. Errors: UNAUTHENTICATED, UNAVAILABLE. Thread: any. */
gboolean tps_session_authenticate (TpsSession *session, const gchar *token, GError **error);

/* Replaces the context of the connection. Takes a reference to `context`; NULL = none. Thread:
 * any. */
void tps_session_set_context (TpsSession *session, GHashTable *context);

/* Returns a reference to the context of the connection; NULL = none. Thread: any. */
GHashTable *tps_session_dup_context (TpsSession *session);

/* ---- session_calls.c ------------------------------------------------------------------------ */

/* Enters a call at the end of the list. The call lives until it is answered. If `error` is set,
 * the call must be refused with it. Thread: the loop's. */
TpsSessionCall *tps_session_enter_call (TpsSession *session, TpsMessage *message, GError **error);

/* TpsCarrierOps.finish of a TpsSessionCall: sends the reply as soon as no earlier reply is
 * outstanding with which the peer could confuse it. Thread: any. */
void tps_session_finish_call (gpointer carried, TpsWriter *reply);

/* ---- session_carrier.c ---------------------------------------------------------------------- */

/* The carrier whose `carried` is a TpsSessionCall. */
extern const TpsCarrierOps tps_session_carrier_ops;

G_END_DECLS
