/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A message comes in -> it is entered at the end of `calls` -> the dispatcher runs its handler ->
 * finish_call(), now or later, on any thread -> its answer is sent as soon as no earlier call
 * stands in its way -> the call leaves the list.
 *
 * A call stands in the way of a later one when both have the same sequence id, or the connection
 * does not frame: such a peer takes the next answer for that of its oldest call. It stays in the
 * list while its answer is being handed to the socket, so that two threads cannot change the order.
 *
 * With slices of shared memory in its arguments a call is answered when these are let go of too:
 * its answer gives them back.
 *
 * Too many calls: the connection is not read until half of them have been answered. Nor is it read
 * for a while after a call that was refused because its tenant is at a limit: a peer that takes no
 * notice of refusals gets few of them.
 */

#include "plugin/server/session.h"

#include <string.h>
#include <sys/socket.h>

#include "plugin/server/message_faults.h"
#include "plugin/server/sharing_offer.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/trace.h"

static TpsTraceEvent connection_ended = TPS_TRACE_EVENT ("connection_ended", TPS_TRACE_DEBUG);
static TpsTraceEvent connection_lost = TPS_TRACE_EVENT ("connection_lost", TPS_TRACE_INFO);
static TpsTraceEvent half_closed_refused = TPS_TRACE_EVENT ("half_closed_refused", TPS_TRACE_INFO);
static TpsTraceEvent tokens_refused = TPS_TRACE_EVENT ("tokens_refused", TPS_TRACE_WARNING);
static TpsTraceEvent connection_closed = TPS_TRACE_EVENT ("connection_closed", TPS_TRACE_WARNING);

#define BEARER "Bearer "

#define SMALL_REPLY_BYTES ((gsize) 64 << 10)
/* Of one time that a connection is not read: its peer may have other calls, which other limits
 * admit. */
#define MAX_THROTTLE_MS 100
#define NS_PER_MS 1000000

typedef enum
{
  CALL_RUNNING = 0,
  CALL_ANSWERED = 1,
  CALL_SENDING = 2,
} CallState;

typedef struct
{
  TpsSession *session;
  GList link;
  gint32 seqid;
  gboolean ordered; /* has an answer that others may have to wait for */
  /* of what the answer waits for: the reply, and that slices of shared memory are let go of */
  guint n_awaited;
  CallState state;
  TpsWriter *reply;
  gchar *name;     /* of the method, where faults are made; else NULL */
  TpsGrant *grant; /* a reference; NULL = nothing is checked */
} Call;

static TpsDepot call_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine call_magazine;

struct TpsSession
{
  TpsRefcount refcount;
  TpsServerCore *core;
  TpsIoThread *io;
  GList link; /* in io->sessions; the loop's thread only */
  TpsConnection *connection;
  gchar *peer;
  TpsTenant *tenant;       /* of later calls; NULL = there are no limits. The loop's thread only */
  TpsPrincipal *tenant_of; /* whose tenant that is; a reference */
  TpsSharingOffer offer;
  TpsSegmentRegistry *segments;   /* NULL: not offered */
  TpsJobQueue *jobs[TPS_N_LANES]; /* of calls, on the server's workers */
  atomic_bool closed;
  atomic_bool has_context; /* `context` is not NULL */
  gboolean half_closed;    /* counted as such; the loop's thread only */
  guint64 throttle_timer;  /* 0 = none; the loop's thread only */
  guint n_free_logins;     /* that were not charged to the tenant; the loop's thread only */
  guint64 id;
  gboolean is_unix;
  gint64 began_ns;

  TpsMutex lock;            /* guards everything below; taken before the connection's */
  GHashTable *context;      /* of Session.set_context; not changed once it is here; NULL = none */
  GQueue calls;             /* of Call, in order of arrival */
  gsize n_unsent;           /* bytes of replies that wait for earlier ones */
  guint64 n_calls;          /* that have come */
  TpsProtocolKind protocol; /* of the last one; 0 = none has come */
  gboolean framed;          /* the same */
  TpsIdentity identity;
  gboolean is_identified; /* what the channel shows has been looked at */
  gboolean refused;       /* too many wrong tokens: nothing more is read */
  gboolean crowded;       /* there are too many calls */
  gboolean throttled;     /* until the timer */
  gboolean paused;        /* one of these three: the connection is not read */
  gboolean ended;         /* no call will come: the connection closes with the last answer */
};

TpsSession *
tps_session_ref (TpsSession *session)
{
  tps_refcount_inc (&session->refcount);
  return session;
}

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

/* ---- answers -------------------------------------------------------------------------------- */

static gboolean
stands_in_the_way (const TpsSession *session, const Call *earlier, const Call *later)
{
  return earlier->ordered && later->ordered && (!session->framed || earlier->seqid == later->seqid);
}

static gboolean
is_next (const TpsSession *session, const Call *call)
{
  for (const GList *item = session->calls.head; item != &call->link; item = item->next)
    if (stands_in_the_way (session, item->data, call))
      return FALSE;
  return TRUE;
}

static Call *
find_sendable (const TpsSession *session)
{
  for (const GList *item = session->calls.head; item != NULL; item = item->next)
    {
      Call *call = item->data;

      if (call->state == CALL_ANSWERED && is_next (session, call))
        return call;
    }
  return NULL;
}

static Call *
call_new (TpsSession *session, const TpsMessage *message)
{
  Call *call = tps_magazine_take (&call_magazine, &call_depot);

  if (call == NULL)
    call = g_new (Call, 1);
  *call = (Call) {
    .session = session,
    .link = { .data = call },
    .seqid = message->seqid,
    .ordered = message->kind != TPS_MESSAGE_ONEWAY,
    .name = session->core->faults != NULL ? g_strdup (message->name) : NULL,
  };
  return call;
}

/* With the lock held, by the loop's thread: the handshake of an encrypted connection has ended when
 * its first call comes. */
static void
identify (TpsSession *session)
{
  const gchar *name = NULL;

  if (session->is_identified)
    return;
  session->is_identified = TRUE;
  name = tps_connection_get_peer_name (session->connection);
  if (name != NULL)
    tps_identity_show (&session->identity, TPS_PRINCIPAL_CERTIFICATE, name);
}

/* With the lock held. Calls from now on are those of the principal's tenant; calls under way stay
 * those of the tenant that began them. */
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

/* With the lock held. */
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

/* The connection answers what it has taken, and closes. */
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

/* With the lock held. */
static gboolean
take_token (TpsSession *session, const gchar *token, GError **error)
{
  gboolean ok = tps_identity_authenticate (&session->identity, token, error);

  if (session->identity.n_failures >= TPS_ACCESS_MAX_FAILURES)
    refuse_more (session);
  return ok;
}

/* With the lock held. A token in the header of a message is as one for authenticate() before it.
 * Each message of a connection may have the same. */
static gboolean
take_header (TpsSession *session, const TpsMessage *message, GError **error)
{
  const gchar *header = tps_message_get_header (message, "authorization");
  const gchar *token;

  if (G_LIKELY (header == NULL) || session->core->access == NULL)
    return TRUE;
  if (g_ascii_strncasecmp (header, BEARER, strlen (BEARER)) != 0)
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAUTHENTICATED,
                           "the header authorization is not \"Bearer TOKEN\"");
      return FALSE;
    }
  token = header + strlen (BEARER);
  return tps_identity_has_token (&session->identity, token) || take_token (session, token, error);
}

/* FALSE: the call must be refused. */
static gboolean
enter_call (TpsSession *session, Call *call, const TpsMessage *message, GError **error)
{
  gboolean ok;
  const TpsServerLimits *limits = &session->core->limits;

  atomic_fetch_add (&session->core->n_calls, 1);
  tps_refcount_inc (&session->refcount);
  tps_mutex_lock (&session->lock);
  identify (session);
  ok = take_header (session, message, error);
  call->grant = tps_identity_get_grant (&session->identity);
  if (session->core->quotas != NULL)
    join_tenant (session);
  session->framed = message->framed;
  session->protocol = message->protocol;
  session->n_calls++;
  g_queue_push_tail_link (&session->calls, &call->link);
  if (session->calls.length >= limits->max_in_flight)
    session->crowded = TRUE;
  update_reading (session);
  tps_mutex_unlock (&session->lock);
  return ok;
}

/* With the lock held. */
static void
leave_call (TpsSession *session, Call *call)
{
  g_queue_unlink (&session->calls, &call->link);
  g_free (call->name);
  g_clear_pointer (&call->grant, tps_grant_unref);
  tps_magazine_put (&call_magazine, &call_depot, call);
  if (session->calls.length <= session->core->limits.max_in_flight / 2)
    session->crowded = FALSE;
  update_reading (session);
  if (session->ended && session->calls.length == 0)
    tps_connection_close_when_sent (session->connection);
}

static gsize
count_reply (const Call *call)
{
  gsize n_bytes = 0;
  guint n_pieces;

  if (call->reply != NULL)
    tps_writer_get_pieces (call->reply, &n_pieces, &n_bytes);
  return n_bytes;
}

static void
send_reply (TpsSession *session, const Call *call)
{
  TpsServerCore *core = session->core;

  if (core->faults == NULL)
    tps_connection_send (session->connection, call->reply);
  else
    tps_message_faults_send (core->faults, session->connection, call->name, call->reply,
                             core->workers);
}

/* With the lock held, released meanwhile: sends what may be sent now. The number of calls that
 * left. */
static guint
send_answers (TpsSession *session)
{
  guint n_left = 0;
  Call *call;

  while ((call = find_sendable (session)) != NULL)
    {
      call->state = CALL_SENDING;
      session->n_unsent -= count_reply (call);
      tps_mutex_unlock (&session->lock);
      if (call->reply != NULL)
        send_reply (session, call);
      tps_mutex_lock (&session->lock);
      leave_call (session, call);
      n_left++;
    }
  return n_left;
}

/* ---- the carrier ---------------------------------------------------------------------------- */

static gboolean
may_wait (gpointer carried)
{
  return TRUE;
}

static gboolean
is_wanted (gpointer carried)
{
  const Call *call = carried;

  return !atomic_load_explicit (&call->session->closed, memory_order_relaxed);
}

static void
run_on_worker (gpointer carried, TpsLane lane, TpsJobFunc func, TpsJobFunc cancel,
               gpointer user_data)
{
  const Call *call = carried;

  tps_job_queue_submit (call->session->jobs[lane], func, cancel, user_data);
}

static gconstpointer
get_connection (gpointer carried)
{
  const Call *call = carried;

  return call->session;
}

static TpsSegmentRegistry *
get_segments (gpointer carried, GError **error)
{
  const TpsSession *session = ((const Call *) carried)->session;

  if (session->segments == NULL)
    tps_sharing_offer_refuse (session->offer, error);
  return session->segments;
}

/* With the lock held, which is given back: one thing less that the call's answer waits for. */
static void
drop_awaited (Call *call)
{
  TpsSession *session = call->session;
  guint n_left = 0;

  if (--call->n_awaited == 0)
    {
      call->state = CALL_ANSWERED;
      n_left = send_answers (session);
    }
  tps_mutex_unlock (&session->lock);
  for (; n_left > 0; n_left--)
    {
      tps_server_core_drop (session->core, &session->core->n_calls);
      tps_session_unref (session);
    }
}

static void
finish_call (gpointer carried, TpsWriter *reply)
{
  Call *call = carried;

  tps_mutex_lock (&call->session->lock);
  call->reply = reply;
  call->session->n_unsent += count_reply (call);
  call->ordered = call->ordered && reply != NULL;
  drop_awaited (call);
}

/* Nobody looks any more at the slices that came with the call. */
static void
on_slices_released (gpointer data)
{
  Call *call = data;

  tps_mutex_lock (&call->session->lock);
  drop_awaited (call);
}

static const gchar *
get_peer (gpointer carried)
{
  return ((const Call *) carried)->session->peer;
}

/* Without access the principal never changes once there is a call. */
static const TpsPrincipal *
get_principal (gpointer carried)
{
  return tps_identity_get_principal (&((const Call *) carried)->session->identity);
}

static const TpsGrant *
get_grant (gpointer carried)
{
  return ((const Call *) carried)->grant;
}

static gboolean
authenticate (gpointer carried, const gchar *token, GError **error)
{
  TpsSession *session = ((const Call *) carried)->session;
  gboolean ok;

  tps_mutex_lock (&session->lock);
  ok = take_token (session, token, error);
  tps_mutex_unlock (&session->lock);
  return ok;
}

static TpsTenant *
get_tenant (gpointer carried)
{
  return ((const Call *) carried)->session->tenant;
}

static void
set_throttled (TpsSession *session, gboolean throttled)
{
  tps_mutex_lock (&session->lock);
  session->throttled = throttled;
  update_reading (session);
  tps_mutex_unlock (&session->lock);
}

static void
end_throttle (gpointer data)
{
  TpsSession *session = data;

  session->throttle_timer = 0;
  set_throttled (session, FALSE);
}

/* On the loop's thread. A connection that has closed has no timer any more. */
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

/* Calls with long arguments are refused by workers. */
static void
throttle_session (gpointer carried, gint wait_ms)
{
  TpsSession *session = ((const Call *) carried)->session;
  gint64 until_ns = tps_clock_now_ns () + (gint64) MIN (wait_ms, MAX_THROTTLE_MS) * NS_PER_MS;
  Throttle *throttle;

  if (tps_loop_is_current (session->io->loop))
    {
      begin_throttle (session, until_ns);
      return;
    }
  throttle = g_new (Throttle, 1);
  *throttle = (Throttle) { tps_session_ref (session), until_ns };
  tps_loop_post (session->io->loop, run_throttle, throttle);
}

/* As many as wrong tokens are answered. */
static gboolean
may_log_in (gpointer carried)
{
  TpsSession *session = ((const Call *) carried)->session;

  if (session->n_free_logins >= TPS_ACCESS_MAX_FAILURES)
    return FALSE;
  session->n_free_logins++;
  return TRUE;
}

static void
set_context (gpointer carried, GHashTable *context)
{
  TpsSession *session = ((const Call *) carried)->session;

  tps_mutex_lock (&session->lock);
  g_clear_pointer (&session->context, g_hash_table_unref);
  if (context != NULL)
    session->context = g_hash_table_ref (context);
  atomic_store_explicit (&session->has_context, context != NULL, memory_order_relaxed);
  tps_mutex_unlock (&session->lock);
}

static TpsBudget *
get_reply_budget (gpointer carried)
{
  return ((const Call *) carried)->session->core->replies;
}

static gsize
count_unread (TpsSession *session)
{
  gsize n_bytes = tps_connection_get_n_bytes_queued (session->connection);

  tps_mutex_lock (&session->lock);
  n_bytes += session->n_unsent;
  tps_mutex_unlock (&session->lock);
  return n_bytes;
}

/* Connections that do not read must not take all that there is for replies. When more than half of
 * it is taken, a connection with unread replies may add a part of what is left, and the last eighth
 * is for small first replies. */
static gboolean
has_room (gpointer carried, gsize n_bytes)
{
  TpsSession *session = ((const Call *) carried)->session;
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
  .get_grant = get_grant,
  .authenticate = authenticate,
  .get_tenant = get_tenant,
  .throttle = throttle_session,
  .may_log_in = may_log_in,
  .set_context = set_context,
  .may_wait = may_wait,
  .is_wanted = is_wanted,
  .run_on_worker = run_on_worker,
  .get_segments = get_segments,
  .get_connection = get_connection,
  .finish = finish_call,
};

/* ---- events of the connection --------------------------------------------------------------- */

/* NULL: there is none. */
static GHashTable *
dup_context (TpsSession *session)
{
  GHashTable *context;

  tps_mutex_lock (&session->lock);
  context = session->context != NULL ? g_hash_table_ref (session->context) : NULL;
  tps_mutex_unlock (&session->lock);
  return context;
}

static void
on_message (TpsConnection *connection, TpsMessage *message, gpointer data)
{
  TpsSession *session = data;
  TpsServerCore *core = session->core;
  gboolean stopping = atomic_load_explicit (&core->stopping, memory_order_relaxed);
  Call *call = call_new (session, message);
  const GError *refuse = stopping ? core->stopping_error : NULL;
  g_autoptr (GError) error = NULL;

  if (session->segments != NULL)
    message->sharing = tps_segment_registry_receive (session->segments, on_slices_released, call);
  if (G_UNLIKELY (atomic_load_explicit (&session->has_context, memory_order_relaxed)))
    message->context = dup_context (session);
  call->n_awaited = message->sharing != NULL ? 2 : 1;
  if (!enter_call (session, call, message, &error))
    refuse = error;
  tps_dispatcher_handle (core->dispatcher, message, refuse, &carrier_ops, call);
}

static void
on_message_with_faults (TpsConnection *connection, TpsMessage *message, gpointer data)
{
  const TpsSession *session = data;

  tps_message_faults_receive (session->core->faults, connection, message, on_message, data);
}

static void
shut_down_segments (gpointer data)
{
  TpsSegmentRegistry *segments = data;

  tps_segment_registry_shut_down (segments);
  tps_segment_registry_unref (segments);
}

/* On a worker: unmapping much memory takes long. While stopping there may be none any more. */
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

/* Calls that have not begun are cancelled, calls that wait in a service end. While stopping the
 * services end all waiting calls themselves, and may be gone. */
static void
end_calls (TpsSession *session)
{
  TpsServerCore *core = session->core;

  for (guint lane = 0; lane < TPS_N_LANES; lane++)
    tps_job_queue_cancel (session->jobs[lane]);
  if (!atomic_load (&core->stopping))
    tps_dispatcher_connection_closed (core->dispatcher, session);
}

/* Lost: the peer is gone. Closed: by this server, because of what the peer sent or did not take. */
static void
trace_end (const TpsSession *session, const GError *error)
{
  if (error == NULL)
    tps_trace (&connection_ended, tps_field_text ("peer", session->peer));
  else
    tps_trace (g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST) ? &connection_lost
                                                                             : &connection_closed,
               tps_field_text ("peer", session->peer), tps_field_text ("reason", error->message));
}

static void
on_closed (TpsConnection *connection, const GError *error, gpointer data)
{
  TpsSession *session = data;

  atomic_store (&session->closed, TRUE);
  if (session->throttle_timer != 0)
    tps_loop_cancel_timer (session->io->loop, session->throttle_timer);
  end_calls (session);
  trace_end (session, error);
  tps_session_list_remove (&session->core->sessions, session->id);
  tps_gauge_add (session->core->counts.open, -1);
  end_sharing (session);
  if (session->half_closed)
    atomic_fetch_sub (&session->core->n_half_closed, 1);
  g_queue_unlink (&session->io->sessions, &session->link);
  tps_server_core_drop (session->core, &session->core->n_connections);
  tps_session_unref (session);
}

/* The place of the connection is free for others. So that this does not multiply connections
 * without a bound, those beyond a limit close now. */
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

/* Answers still go to a peer that has only shut down its sending side. */
static void
on_ended (TpsConnection *connection, gpointer data)
{
  TpsSession *session = data;

  tps_mutex_lock (&session->lock);
  session->ended = TRUE;
  if (session->calls.length == 0)
    tps_connection_close_when_sent (connection);
  tps_mutex_unlock (&session->lock);
}

static void
start_session (gpointer data)
{
  TpsSession *session = data;

  g_queue_push_tail_link (&session->io->sessions, &session->link);
  tps_connection_start (session->connection);
}

static void
offer_sharing (TpsSession *session, gint fd)
{
  TpsServerCore *core = session->core;
  TpsSegmentLimits limits = { .max_bytes = core->limits.max_shared_bytes,
                              .copies = core->bodies,
                              .all = core->segments,
                              .device = core->limits.shared_device,
                              .all_on_device = core->segments_on_device };

  session->offer = tps_sharing_offer_find (fd, limits.max_bytes);
  if (session->offer == TPS_SHARING_OFFERED)
    session->segments = tps_segment_registry_new (&limits);
}

/* The user of a peer on a Unix socket, as it was when it connected. */
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
  show_user (session, fd);
  session->link.data = session;
  offer_sharing (session, fd);
  session->connection = tps_connection_new (io->loop, fd, &options, &events, session);
  tps_connection_set_channel (session->connection, channel);
  tps_connection_set_counters (session->connection, io->core->counts.received_bytes,
                               io->core->counts.sent_bytes);
  tps_connection_set_max_queued (session->connection, limits->max_queued_bytes, io->core->replies);
  session->id = tps_session_list_add (&io->core->sessions, session);
  tps_loop_post (io->loop, start_session, session);
}

static const gchar *
get_protocol_name (TpsProtocolKind protocol)
{
  if (protocol == 0)
    return NULL;
  return protocol == TPS_PROTOCOL_COMPACT ? "compact" : "binary";
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
  tps_mutex_lock (&session->lock);
  info->protocol = get_protocol_name (session->protocol);
  info->is_framed = session->framed;
  info->principal = tps_principal_ref (tps_identity_get_principal (&session->identity));
  info->n_calls = session->n_calls;
  info->n_in_flight = session->calls.length;
  tps_mutex_unlock (&session->lock);
}

void
tps_session_check_progress (TpsSession *session, gint64 now_ns)
{
  tps_connection_check_progress (session->connection, now_ns, &session->core->limits.patience);
}

void
tps_session_close_when_sent (TpsSession *session)
{
  tps_connection_close_when_sent (session->connection);
}

void
tps_session_close (TpsSession *session)
{
  tps_connection_close (session->connection);
}
