/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/session.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/fault.h"
#include "runtime/base/growing_array.h"
#include "runtime/base/magazine.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"
#include "runtime/base/worker_pool.h"

typedef enum
{
  TPS_SHARING_OFFERED = 0,
  TPS_SHARING_SWITCHED_OFF = 1,
  TPS_SHARING_NOT_LOCAL = 2,
  TPS_SHARING_OTHER_USER = 3,
} SharingOffer;

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
  SharingOffer offer;
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
  GQueue calls;             /* of SessionCall, in order of arrival */
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
  CALL_RUNNING = 0,
  CALL_ANSWERED = 1,
  CALL_SENDING = 2,
} SessionCallState;

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
  SessionCallState state;
  TpsWriter *reply;
  gchar *name;     /* of the method, if the server injects faults; else NULL */
  TpsGrant *grant; /* a reference; NULL = nothing is checked */
} SessionCall;

/* ---- offer of shared memory ----------------------------------------------------------------- */

static const struct
{
  TpsErrorCode code;
  const gchar *why;
} refusals[] = {
  [TPS_SHARING_SWITCHED_OFF] = { TPS_ERROR_UNAVAILABLE,
                                 "shared memory is disabled on this server" },
  [TPS_SHARING_NOT_LOCAL] = { TPS_ERROR_UNAVAILABLE,
                              "shared memory is offered over Unix sockets only, and this "
                              "connection is none" },
  [TPS_SHARING_OTHER_USER] = { TPS_ERROR_PERMISSION_DENIED,
                               "shared memory is offered to processes of the server's user only" },
};

/* Decides about the connection of `fd`, a connected socket. `max_bytes` 0 = shared memory is
 * disabled. */
static SharingOffer
find_offer (gint fd, gsize max_bytes)
{
  struct ucred peer; /* when it connected */
  socklen_t n_peer = sizeof peer;
  gint domain;
  socklen_t n_domain = sizeof domain;

  if (max_bytes == 0)
    return TPS_SHARING_SWITCHED_OFF;
  if (getsockopt (fd, SOL_SOCKET, SO_DOMAIN, &domain, &n_domain) < 0 || domain != AF_UNIX)
    return TPS_SHARING_NOT_LOCAL;
  if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_peer) < 0 || peer.uid != geteuid ())
    return TPS_SHARING_OTHER_USER;
  return TPS_SHARING_OFFERED;
}

/* ---- object --------------------------------------------------------------------------------- */

/* Creates a session without a connection. The caller must set `connection` and `id`. */
static TpsSession *
session_new (TpsIoThread *io, const gchar *peer)
{
  TpsSession *session = g_new0 (TpsSession, 1);

  tps_refcount_init (&session->refcount);
  tps_mutex_init (&session->lock);
  g_queue_init (&session->calls);
  session->core = tps_server_core_ref (io->core);
  session->io = io;
  for (guint lane = 0; lane < TPS_N_LANES; lane++)
    session->jobs[lane] = tps_job_queue_new (io->core->workers, (TpsLane) lane);
  session->peer = g_strdup (peer);
  session->began_ns = tps_clock_now_ns ();
  tps_identity_init (&session->identity, io->core->access);
  session->link.data = session;
  return session;
}

TPS_DEFINE_REF (TpsSession, tps_session)

void
tps_session_unref (TpsSession *session)
{
  if (!tps_refcount_dec (&session->refcount))
    return;
  tps_connection_unref (session->connection);
  for (guint lane = 0; lane < TPS_N_LANES; lane++)
    tps_job_queue_unref (session->jobs[lane]);
  g_clear_pointer (&session->segments, tps_segment_registry_unref);
  tps_server_core_unref (session->core);
  tps_mutex_clear (&session->lock);
  g_free (session->peer);
  tps_identity_clear (&session->identity);
  g_clear_pointer (&session->tenant_of, tps_principal_unref);
  g_clear_pointer (&session->context, g_hash_table_unref);
  g_free (session);
}

/* Applies `refused`, `crowded` and `throttled`; must be called after each change. The lock must be
 * held. */
static void
update_reading (TpsSession *session)
{
  gboolean paused = session->refused || session->crowded || session->throttled;

  if (paused == session->paused)
    return;
  session->paused = paused;
  if (paused)
    tps_connection_pause (session->connection);
  else
    tps_connection_resume (session->connection);
}

void
tps_session_describe (TpsSession *session, gint64 now_ns, TpsConnectionInfo *info)
{
  TpsConnectionTraffic traffic;

  tps_connection_get_traffic (session->connection, &traffic);
  *info = (TpsConnectionInfo) {
    .id = session->id,
    .peer = g_strdup (session->peer),
    .is_unix = session->is_unix,
    .is_encrypted = traffic.is_encrypted,
    .age_ns = now_ns - session->began_ns,
    .n_received_bytes = traffic.n_received_bytes,
    .n_sent_bytes = traffic.n_sent_bytes,
    .n_queued_bytes = traffic.n_queued_bytes,
    .is_half_closed = traffic.is_half_closed,
  };
  if (session->segments != NULL)
    info->n_shared_bytes = tps_segment_registry_get_bytes (session->segments);
  TPS_LOCK_SCOPE (&session->lock);
  info->protocol = session->protocol == 0                      ? NULL
                   : session->protocol == TPS_PROTOCOL_COMPACT ? "compact"
                                                               : "binary";
  info->is_framed = session->framed;
  info->principal = tps_principal_ref (tps_identity_get_principal (&session->identity));
  info->n_calls = session->n_calls;
  info->n_in_flight = session->calls.length;
}

TpsConnection *
tps_session_get_connection (TpsSession *session)
{
  return session->connection;
}

/* ---- identity ------------------------------------------------------------------------------- */

/* The identity of a caller comes from three sources, in this order: the user of a Unix socket, the
 * certificate of an encrypted connection, a token. A token comes in the header of a message or in
 * Session.authenticate. If the principal changes, later calls have the tenant of the new principal;
 * in-flight calls keep their tenant. */

static TpsTraceEvent tokens_refused = TPS_TRACE_EVENT ("tokens_refused", TPS_TRACE_WARNING);

#define BEARER "Bearer "

/* Identifies a peer on a Unix socket by its user at the time when the peer connected. Must be
 * called before the connection begins. */
static void
show_user (TpsSession *session, gint fd)
{
  struct ucred peer;
  socklen_t n_bytes = sizeof peer;
  gchar name[32];

  if (getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) < 0 || peer.uid == (uid_t) -1)
    return; /* not a Unix socket */
  session->is_unix = TRUE;
  g_snprintf (name, sizeof name, "uid:%u", (guint) peer.uid);
  tps_identity_show (&session->identity, TPS_PRINCIPAL_UID, name);
}

/* Sets the principal from the certificate. Called at the first call, when the handshake has
 * ended. */
static void
show_certificate (TpsSession *session)
{
  const gchar *name = NULL;

  if (session->is_identified)
    return;
  session->is_identified = TRUE;
  name = tps_connection_get_peer_name (session->connection);
  if (name != NULL)
    tps_identity_show (&session->identity, TPS_PRINCIPAL_CERTIFICATE, name);
}

/* Stops reading after too many wrong tokens. The connection sends the replies to earlier calls, and
 * then closes. */
static void
refuse_more (TpsSession *session)
{
  if (session->refused)
    return;
  session->refused = TRUE;
  session->ended = TRUE;
  update_reading (session);
  tps_trace (&tokens_refused, tps_field_text ("peer", session->peer),
             tps_field_uint ("failures", session->identity.n_failures));
}

/* Authenticates the caller, and refuses more calls after too many failures. The lock must be
 * held. */
static gboolean
take_token (TpsSession *session, const gchar *token, GError **error)
{
  gboolean ok = tps_identity_authenticate (&session->identity, token, error);

  if (session->identity.n_failures >= TPS_ACCESS_MAX_FAILURES)
    refuse_more (session);
  return ok;
}

/* A token in the header of a message has the same effect as an earlier call of
 * Session.authenticate. Peers may send the same token with each message. The lock must be held. */
static gboolean
take_header (TpsSession *session, const TpsMessage *message, GError **error)
{
  const gchar *header = tps_message_get_header (message, "authorization");
  const gchar *token;

  if (G_LIKELY (header == NULL))
    return TRUE;
  tps_connection_forget_received (session->connection);
  if (session->core->access == NULL)
    return TRUE;
  if (g_ascii_strncasecmp (header, BEARER, strlen (BEARER)) != 0)
    return tps_fail (error, TPS_ERROR_UNAUTHENTICATED,
                     "the header authorization is not \"Bearer TOKEN\"");
  token = header + strlen (BEARER);
  return tps_identity_has_token (&session->identity, token) || take_token (session, token, error);
}

static void
join_tenant (TpsSession *session)
{
  const TpsPrincipal *principal = tps_identity_get_principal (&session->identity);

  if (G_LIKELY (principal == session->tenant_of))
    return;
  g_clear_pointer (&session->tenant_of, tps_principal_unref);
  session->tenant_of = tps_principal_ref (principal);
  session->tenant = tps_quotas_find (session->core->quotas, tps_principal_get_tenant (principal));
  for (guint lane = 0; lane < TPS_N_LANES; lane++)
    tps_job_queue_set_group (session->jobs[lane], tps_tenant_get_job_group (session->tenant));
}

/* Identifies the sender of `message` by its certificate and the message's header, and sets the
 * tenant of its calls. Returns a reference to the grant of the call; NULL = nothing is checked.
 * If `error` is set, the call must be refused: UNAUTHENTICATED, UNAVAILABLE. The lock must be
 * held. Thread: the loop's. */
static TpsGrant *
identify (TpsSession *session, const TpsMessage *message, GError **error)
{
  TpsGrant *grant;

  show_certificate (session);
  take_header (session, message, error);
  grant = tps_identity_get_grant (&session->identity);
  session->has_rights = tps_grant_has_rights (grant);
  if (session->core->quotas != NULL)
    join_tenant (session); /* the tenant of the grant's principal */
  return grant;
}

/* Returns the pool for the message that begins, borrowed: peers without rights have a pool of their
 * own. For TpsScannerOptions. A token in the header of the message is not known yet. The message
 * must therefore fit into the budget of peers without rights, unless an earlier message had the
 * token. Thread: the loop's. */
static TpsBufferPool *
choose_bodies (gpointer data)
{
  TpsSession *session = data;

  if (!session->has_rights)
    {
      g_autoptr (TpsGrant) grant = NULL;

      tps_mutex_lock (&session->lock);
      show_certificate (session);
      grant = tps_identity_get_grant (&session->identity);
      tps_mutex_unlock (&session->lock);
      session->has_rights = tps_grant_has_rights (grant);
    }
  return session->has_rights ? session->core->bodies : session->core->strangers_bodies;
}

/* Returns a reference to the context of the connection; NULL = none. Thread: any. */
static GHashTable *
dup_context (TpsSession *session)
{
  TPS_LOCK_SCOPE (&session->lock);
  return session->context != NULL ? g_hash_table_ref (session->context) : NULL;
}

/* ---- order of replies ----------------------------------------------------------------------- */

/* When a message arrives, its call is entered at the end of `calls`, and the dispatcher runs the
 * handler. finish_call() is called at once or later, on any thread. The reply is sent as soon as no
 * earlier call blocks it, and then the call leaves the list.
 *
 * A call blocks a later call if both have the same sequence id, or if the connection is not framed:
 * the peer of such a connection assigns each reply to its oldest call. A call stays in the list
 * while its reply is passed to the socket, so that two threads cannot change the order.
 *
 * If the arguments of a call contain slices of shared memory, the reply also waits until the slices
 * are released, because the reply returns them to the client.
 *
 * At the limit of calls, the connection is not read until half of the calls have been answered. */

static TpsDepot call_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine call_magazine;

static gboolean
blocks (const TpsSession *session, const SessionCall *earlier, const SessionCall *later)
{
  return earlier->ordered && later->ordered && (!session->framed || earlier->seqid == later->seqid);
}

static gboolean
is_next (const TpsSession *session, const SessionCall *call)
{
  for (const GList *item = session->calls.head; item != &call->link; item = item->next)
    if (blocks (session, item->data, call))
      return FALSE;
  return TRUE;
}

static SessionCall *
find_sendable (const TpsSession *session)
{
  for (const GList *item = session->calls.head; item != NULL; item = item->next)
    {
      SessionCall *call = item->data;

      if (call->state == CALL_ANSWERED && is_next (session, call))
        return call;
    }
  return NULL;
}

/* ---- replies -------------------------------------------------------------------------------- */

static gsize
count_reply (const SessionCall *call)
{
  gsize n_bytes = 0;
  guint n_pieces;

  if (call->reply != NULL)
    tps_writer_get_pieces (call->reply, &n_pieces, &n_bytes);
  return n_bytes;
}

typedef struct
{
  TpsConnection *connection;
  TpsWriter *reply;
} DelayedReply;

static void
send_delayed (gpointer data)
{
  g_autofree DelayedReply *delayed = data;

  tps_connection_send (delayed->connection, delayed->reply);
  tps_connection_unref (delayed->connection);
}

/* A fault of --fault may delay or drop the reply, and close the connection. The timer thread of the
 * workers sends a delayed reply, which later replies may overtake. */
static void
send_reply (TpsSession *session, const SessionCall *call)
{
  TpsServerCore *core = session->core;
  TpsFault fault = { .action = TPS_FAULT_NONE };

  if (core->faults != NULL)
    fault = tps_fault_plan_draw (core->faults, TPS_FAULT_AT_REPLY, call->name);
  if (fault.action == TPS_FAULT_DELAY)
    {
      DelayedReply *delayed = g_new (DelayedReply, 1);

      *delayed = (DelayedReply) { tps_connection_ref (session->connection), call->reply };
      tps_worker_pool_add_timer (core->workers, tps_clock_now_ns () + fault.delay_ns, send_delayed,
                                 delayed);
    }
  else if (fault.action == TPS_FAULT_NONE)
    tps_connection_send (session->connection, call->reply);
  else
    tps_writer_free (call->reply);
  if (fault.action == TPS_FAULT_DISCONNECT)
    tps_connection_close (session->connection);
}

/* Sends all replies that no call blocks. Returns the number of calls that have left the list. The
 * lock must be held; it is released during each send. */
static guint
send_replies (TpsSession *session)
{
  guint n_left = 0;
  SessionCall *call;

  while ((call = find_sendable (session)) != NULL)
    {
      call->state = CALL_SENDING;
      session->n_unsent -= count_reply (call);
      tps_mutex_unlock (&session->lock);
      if (call->reply != NULL)
        send_reply (session, call);
      tps_mutex_lock (&session->lock);
      /* If the peer sends no more requests, the last call closes the connection. */
      g_queue_unlink (&session->calls, &call->link);
      g_free (call->name);
      g_clear_pointer (&call->grant, tps_grant_unref);
      tps_magazine_put (&call_magazine, &call_depot, call);
      if (session->calls.length <= session->core->limits.max_in_flight / 2)
        session->crowded = FALSE;
      update_reading (session);
      if (session->ended && session->calls.length == 0)
        tps_connection_close_when_sent (session->connection);
      n_left++;
    }
  return n_left;
}

/* Reports that one condition of the reply is met: its existence, or the release of the slices. The
 * lock must be held, and is released. */
static void
drop_awaited (SessionCall *call)
{
  TpsSession *session = call->session;
  guint n_left = 0;

  if (--call->n_awaited == 0)
    {
      call->state = CALL_ANSWERED;
      n_left = send_replies (session);
    }
  tps_mutex_unlock (&session->lock);
  for (; n_left > 0; n_left--)
    {
      tps_server_core_drop (session->core, &session->core->n_calls);
      tps_session_unref (session);
    }
}

/* TpsCarrierOps.finish of a SessionCall: sends the reply as soon as no earlier reply is
 * outstanding with which the peer could confuse it. Thread: any. */
static void
finish_call (gpointer carried, TpsWriter *reply)
{
  SessionCall *call = carried;

  tps_mutex_lock (&call->session->lock);
  call->reply = reply;
  call->session->n_unsent += count_reply (call);
  call->ordered = call->ordered && reply != NULL;
  drop_awaited (call);
}

static void
on_slices_released (gpointer data)
{
  SessionCall *call = data;

  tps_mutex_lock (&call->session->lock);
  drop_awaited (call);
}

/* ---- arrival of calls ----------------------------------------------------------------------- */

static void
enter (TpsSession *session, SessionCall *call, const TpsMessage *message, GError **error)
{
  const TpsServerLimits *limits = &session->core->limits;

  atomic_fetch_add (&session->core->n_calls, 1);
  tps_refcount_inc (&session->refcount);
  TPS_LOCK_SCOPE (&session->lock);
  call->grant = identify (session, message, error);
  session->framed = message->framed;
  session->protocol = message->protocol;
  session->n_calls++;
  g_queue_push_tail_link (&session->calls, &call->link);
  if (session->calls.length >= limits->max_in_flight)
    session->crowded = TRUE;
  update_reading (session);
}

/* Enters a call at the end of the list. The call lives until it is answered. If `error` is set,
 * the call must be refused with it. Thread: the loop's. */
static SessionCall *
enter_call (TpsSession *session, TpsMessage *message, GError **error)
{
  SessionCall *call = tps_magazine_take (&call_magazine, &call_depot);

  if (call == NULL)
    call = g_new (SessionCall, 1);
  *call = (SessionCall) {
    .session = session,
    .link = { .data = call },
    .seqid = message->seqid,
    .ordered = message->kind != TPS_MESSAGE_ONEWAY,
    .name = session->core->faults != NULL ? g_strdup (message->name) : NULL,
  };
  if (session->segments != NULL)
    message->sharing = tps_segment_registry_receive (session->segments, on_slices_released, call);
  if (G_UNLIKELY (atomic_load_explicit (&session->has_context, memory_order_relaxed)))
    message->context = dup_context (session);
  call->n_awaited = message->sharing != NULL ? 2 : 1;
  enter (session, call, message, error);
  return call;
}

/* ---- the carrier: the caller ---------------------------------------------------------------- */

#define SMALL_REPLY_BYTES ((gsize) 64 << 10) /* see has_room() */
/* The longest pause after one refusal. It is short, because other calls of the peer may have
 * separate limits. */
#define MAX_THROTTLE_MS 100
#define NS_PER_MS 1000000

static TpsSession *
get_session (gpointer carried)
{
  return ((const SessionCall *) carried)->session;
}

static const gchar *
get_peer (gpointer carried)
{
  return get_session (carried)->peer;
}

/* Called only if there is no access control. The principal then does not change after the first
 * call, so no lock is necessary. */
static const TpsPrincipal *
get_principal (gpointer carried)
{
  return tps_identity_get_principal (&get_session (carried)->identity);
}

/* Gives later calls the rights of the owner of `token`. After too many wrong tokens the connection
 * closes. Errors: UNAUTHENTICATED, UNAVAILABLE. Thread: any. */
static gboolean
authenticate (gpointer carried, const gchar *token, GError **error)
{
  TpsSession *session = get_session (carried);

  tps_connection_forget_received (session->connection);
  TPS_LOCK_SCOPE (&session->lock);
  return take_token (session, token, error);
}

/* Replaces the context of the connection. Takes a reference to `context`; NULL = none. Thread:
 * any. */
static void
set_context (gpointer carried, GHashTable *context)
{
  TpsSession *session = get_session (carried);

  TPS_LOCK_SCOPE (&session->lock);
  g_clear_pointer (&session->context, g_hash_table_unref);
  if (context != NULL)
    session->context = g_hash_table_ref (context);
  atomic_store_explicit (&session->has_context, context != NULL, memory_order_relaxed);
}

static TpsSegmentRegistry *
get_segments (gpointer carried, GError **error)
{
  const TpsSession *session = get_session (carried);

  if (session->segments == NULL)
    g_set_error_literal (error, TPS_ERROR, refusals[session->offer].code,
                         refusals[session->offer].why);
  return session->segments;
}

static gconstpointer
get_connection (gpointer carried)
{
  return get_session (carried);
}

/* ---- the carrier: work ---------------------------------------------------------------------- */

static gboolean
may_wait (gpointer carried)
{
  return TRUE;
}

static gboolean
is_wanted (gpointer carried)
{
  return !atomic_load_explicit (&get_session (carried)->closed, memory_order_relaxed);
}

static void
run_on_worker (gpointer carried, TpsLane lane, TpsJobFunc func, TpsJobFunc cancel,
               gpointer user_data)
{
  tps_job_queue_submit (get_session (carried)->jobs[lane], func, cancel, user_data);
}

static gboolean
is_alone (G_GNUC_UNUSED gpointer carried)
{
  return tps_loop_is_undisturbed ();
}

/* ---- the carrier: throttling ---------------------------------------------------------------- */

static void
set_throttled (TpsSession *session, gboolean throttled)
{
  TPS_LOCK_SCOPE (&session->lock);
  session->throttled = throttled;
  update_reading (session);
}

static void
end_throttle (gpointer data)
{
  TpsSession *session = data;

  session->throttle_timer = 0;
  set_throttled (session, FALSE);
}

/* Stops reading until `until_ns`. Must be called on the loop's thread. A closed connection must
 * have no timer. */
static void
begin_throttle (TpsSession *session, gint64 until_ns)
{
  if (session->throttle_timer != 0 || atomic_load (&session->closed))
    return;
  session->throttle_timer = tps_loop_add_timer (session->io->loop, until_ns, end_throttle, session);
  set_throttled (session, TRUE);
}

typedef struct
{
  TpsSession *session; /* a reference */
  gint64 until_ns;
} Throttle;

static void
run_throttle (gpointer data)
{
  Throttle *throttle = data;

  begin_throttle (throttle->session, throttle->until_ns);
  tps_session_unref (throttle->session);
  g_free (throttle);
}

/* Pauses the connection after a refusal, to limit the rate of calls of a peer that ignores
 * refusals. Thread: any, because workers refuse calls with long arguments. A call of a closed
 * connection may outlive the server and its loops, so `io` is used only under the lock that
 * on_closed() takes. */
static void
throttle_session (gpointer carried, gint wait_ms)
{
  TpsSession *session = get_session (carried);
  gint64 until_ns = tps_clock_now_ns () + (gint64) MIN (wait_ms, MAX_THROTTLE_MS) * NS_PER_MS;
  gboolean is_open, is_here;

  tps_mutex_lock (&session->lock);
  is_open = !atomic_load (&session->closed);
  is_here = is_open && tps_loop_is_current (session->io->loop);
  if (is_open && !is_here)
    {
      Throttle *throttle = g_new (Throttle, 1);

      *throttle = (Throttle) { tps_session_ref (session), until_ns };
      tps_loop_post (session->io->loop, run_throttle, throttle);
    }
  tps_mutex_unlock (&session->lock);
  if (is_here)
    begin_throttle (session, until_ns);
}

/* Limits free logins to the same number as wrong tokens. */
static gboolean
may_log_in (gpointer carried)
{
  TpsSession *session = get_session (carried);

  if (session->n_free_logins >= TPS_ACCESS_MAX_FAILURES)
    return FALSE;
  session->n_free_logins++;
  return TRUE;
}

/* ---- the carrier: memory of replies --------------------------------------------------------- */

static TpsBudget *
get_reply_budget (gpointer carried)
{
  return get_session (carried)->core->replies;
}

static gsize
count_unread (TpsSession *session)
{
  gsize n_bytes = tps_connection_get_n_bytes_queued (session->connection);

  TPS_LOCK_SCOPE (&session->lock);
  n_bytes += session->n_unsent;
  return n_bytes;
}

/* Clients that do not read must not use up the budget of replies. If more than half of it is
 * charged, the unread replies of a connection may take at most an eighth of the free part. The last
 * eighth of the budget is reserved for small replies of connections without unread replies. */
static gboolean
has_room (gpointer carried, gsize n_bytes)
{
  TpsSession *session = get_session (carried);
  gsize n_free = tps_budget_get_free (session->core->replies);
  gsize n_max = tps_budget_get_max (session->core->replies);
  gsize n_unread;

  if (n_free >= n_max / 2)
    return TRUE;
  n_unread = count_unread (session);
  if (n_unread == 0)
    return n_bytes <= SMALL_REPLY_BYTES || n_free >= n_max / 8;
  return n_unread + n_bytes <= n_free / 8;
}

static const TpsCarrierOps carrier_ops = {
  .get_reply_budget = get_reply_budget,
  .has_room = has_room,
  .get_peer = get_peer,
  .get_principal = get_principal,
  .authenticate = authenticate,
  .throttle = throttle_session,
  .may_log_in = may_log_in,
  .set_context = set_context,
  .may_wait = may_wait,
  .is_wanted = is_wanted,
  .run_on_worker = run_on_worker,
  .is_alone = is_alone,
  .get_segments = get_segments,
  .get_connection = get_connection,
  .finish = finish_call,
};

/* ---- events of the connection --------------------------------------------------------------- */

static TpsTraceEvent connection_ended = TPS_TRACE_EVENT ("connection_ended", TPS_TRACE_DEBUG);
static TpsTraceEvent connection_lost = TPS_TRACE_EVENT ("connection_lost", TPS_TRACE_INFO);
static TpsTraceEvent half_closed_refused = TPS_TRACE_EVENT ("half_closed_refused", TPS_TRACE_INFO);
static TpsTraceEvent connection_closed = TPS_TRACE_EVENT ("connection_closed", TPS_TRACE_WARNING);

static void
on_message (TpsConnection *connection, TpsMessage *message, gpointer data)
{
  TpsSession *session = data;
  TpsServerCore *core = session->core;
  gboolean stopping = atomic_load_explicit (&core->stopping, memory_order_relaxed);
  g_autoptr (GError) error = NULL;
  SessionCall *call = enter_call (session, message, &error);
  const GError *refuse = error == NULL && stopping ? core->stopping_error : error;
  const TpsCaller caller = { call->grant, session->tenant };

  tps_dispatcher_handle (core->dispatcher, message, &caller, refuse, &carrier_ops, call);
}

/* Copies the head, and adds references to the bodies. Returns FALSE if there is no memory. */
static gboolean
copy_arguments (TpsMessage *copy, const TpsMessage *message)
{
  if (!tps_byte_array_try_set_size (&copy->head, message->head->len))
    return FALSE;
  if (message->head->len > 0)
    memcpy (copy->head->data, message->head->data, message->head->len);
  for (guint i = 0; i < message->n_bodies; i++)
    {
      if (!tps_message_add_body (copy, &message->bodies[i], NULL))
        return FALSE;
      tps_buffer_ref (message->bodies[i].buffer);
    }
  return TRUE;
}

/* Returns a copy of the request that has no reply, or NULL if there is no memory. The caller owns
 * it. */
static TpsMessage *
dup_oneway (const TpsMessage *message)
{
  TpsMessage *copy = tps_message_new_like (message);

  copy->kind = TPS_MESSAGE_ONEWAY;
  copy->n_bytes_bodies = message->n_bytes_bodies;
  copy->n_bytes_refused = message->n_bytes_refused;
  copy->n_bytes_dropped = message->n_bytes_dropped;
  copy->pool_limit = message->pool_limit;
  if (copy_arguments (copy, message))
    return copy;
  tps_message_free (copy);
  return NULL;
}

/* The drawn fault drops the message, or doubles it (the second time as a oneway message, which has
 * no reply); the connection may be closed. */
static void
on_message_with_faults (TpsConnection *connection, TpsMessage *message, gpointer data)
{
  const TpsSession *session = data;
  TpsFault fault = tps_fault_plan_draw (session->core->faults, TPS_FAULT_AT_REQUEST, message->name);
  TpsMessage *copy = NULL;

  if (fault.action == TPS_FAULT_DROP || fault.action == TPS_FAULT_DISCONNECT)
    {
      tps_message_free (message);
      if (fault.action == TPS_FAULT_DISCONNECT)
        tps_connection_close (connection);
      return;
    }
  if (fault.action == TPS_FAULT_DUPLICATE)
    copy = dup_oneway (message);
  on_message (connection, message, data);
  if (copy != NULL)
    on_message (connection, copy, data);
}

/* ---- end of the connection ------------------------------------------------------------------ */

static void
shut_down_segments (gpointer data)
{
  TpsSegmentRegistry *segments = data;

  tps_segment_registry_shut_down (segments);
  tps_segment_registry_unref (segments);
}

/* Segments are unmapped on a worker, because this takes long for much memory. A stopping server may
 * have no workers any more, so they are unmapped here. */
static void
end_sharing (TpsSession *session)
{
  TpsServerCore *core = session->core;

  if (session->segments == NULL)
    return;
  tps_segment_registry_ref (session->segments);
  if (atomic_load (&core->stopping) || !tps_segment_registry_has_segments (session->segments))
    shut_down_segments (session->segments);
  else
    tps_worker_pool_submit (core->workers, shut_down_segments, session->segments);
}

static void
on_closed (TpsConnection *connection, const GError *error, gpointer data)
{
  TpsSession *session = data;

  tps_mutex_lock (&session->lock);
  atomic_store (&session->closed, TRUE);
  tps_mutex_unlock (&session->lock);
  if (session->throttle_timer != 0)
    tps_loop_cancel_timer (session->io->loop, session->throttle_timer);
  /* Calls that no worker has begun are cancelled, and calls that are pending in a service end. If
   * the server is stopping, the services end these themselves, and may have been freed. */
  for (guint lane = 0; lane < TPS_N_LANES; lane++)
    tps_job_queue_cancel (session->jobs[lane]);
  if (!atomic_load (&session->core->stopping))
    tps_dispatcher_connection_closed (session->core->dispatcher, session);
  /* A connection is lost if its peer is gone, and closed if this server ends it because of invalid
   * messages or unread replies. */
  if (error == NULL)
    tps_trace (&connection_ended, tps_field_text ("peer", session->peer));
  else
    tps_trace (g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST) ? &connection_lost
                                                                             : &connection_closed,
               tps_field_text ("peer", session->peer), tps_field_text ("reason", error->message));
  tps_session_list_remove (&session->core->sessions, session->id);
  tps_gauge_add (session->core->counts.open, -1);
  end_sharing (session);
  if (session->half_closed)
    atomic_fetch_sub (&session->core->n_half_closed, 1);
  g_queue_unlink (&session->io->sessions, &session->link);
  tps_server_core_drop (session->core, &session->core->n_connections);
  tps_session_unref (session);
}

/* Half-closed connections do not count toward `max_connections`. Their number is limited by
 * `max_half_closed`: any further half-closed connection is closed at once. */
static void
on_half_closed (TpsConnection *connection, gpointer data)
{
  TpsSession *session = data;
  TpsServerCore *core = session->core;

  session->half_closed = TRUE;
  if (atomic_fetch_add (&core->n_half_closed, 1) < core->limits.max_half_closed)
    return;
  tps_trace (&half_closed_refused, tps_field_text ("peer", session->peer),
             tps_field_uint ("max_half_closed", core->limits.max_half_closed));
  tps_connection_close (connection);
}

/* The peer has shut down its sending side. It still gets the replies to its calls. */
static void
on_ended (TpsConnection *connection, gpointer data)
{
  TpsSession *session = data;

  TPS_LOCK_SCOPE (&session->lock);
  session->ended = TRUE;
  if (session->calls.length == 0)
    tps_connection_close_when_sent (connection);
}

/* ---- beginning ------------------------------------------------------------------------------ */

static void
start_session (gpointer data)
{
  TpsSession *session = data;

  g_queue_push_tail_link (&session->io->sessions, &session->link);
  tps_connection_start (session->connection);
}

void
tps_session_begin (TpsIoThread *io, gint fd, const gchar *peer, TpsNetChannel *channel)
{
  const TpsConnectionEvents events = { .message = io->core->faults != NULL ? on_message_with_faults
                                                                           : on_message,
                                       .closed = on_closed,
                                       .half_closed = on_half_closed,
                                       .ended = on_ended };
  const TpsServerLimits *limits = &io->core->limits;
  TpsScannerOptions options = {
    .max_message_bytes = limits->max_frame_bytes,
    .max_head_bytes = limits->max_head_bytes,
    .bodies = io->core->bodies,
  };
  TpsSession *session = session_new (io, peer);
  TpsServerCore *core = session->core;
  TpsSegmentLimits sharing = { .max_bytes = core->limits.max_shared_bytes,
                               .copies = core->bodies,
                               .all = core->segments,
                               .device = core->limits.shared_device,
                               .device_for_lookups_only = core->limits.device_for_lookups_only,
                               .all_on_device = core->segments_on_device,
                               .common = core->common_segments };

  if (io->core->access != NULL)
    {
      options.choose_bodies = choose_bodies;
      options.user_data = session;
    }
  show_user (session, fd);
  session->offer = find_offer (fd, sharing.max_bytes);
  if (session->offer == TPS_SHARING_OFFERED)
    session->segments = tps_segment_registry_new (&sharing);
  session->connection = tps_connection_new (io->loop, fd, &options, &events, session);
  tps_connection_set_channel (session->connection, channel);
  tps_connection_set_counters (session->connection, io->core->counts.received_bytes,
                               io->core->counts.sent_bytes);
  tps_connection_set_max_queued (session->connection, limits->max_queued_bytes, io->core->replies);
  session->id = tps_session_list_add (&io->core->sessions, session);
  tps_loop_post (io->loop, start_session, session);
}
