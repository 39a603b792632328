/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A message comes in -> it is entered at the end of `calls` -> the dispatcher runs its handler -> finish_call(), now or later, on
 * any thread -> its answer is sent as soon as no earlier call stands in its way -> the call leaves the list.
 *
 * A call stands in the way of a later one when both have the same sequence id, or the connection does not frame: such a peer
 * takes the next answer for that of its oldest call. It stays in the list while its answer is being handed to the socket, so
 * that two threads cannot change the order.
 *
 * With slices of shared memory in its arguments a call is answered when these are let go of too: its answer gives them back.
 *
 * Too many calls: the connection is not read until half of them have been answered.
 */

#include "plugin/server/session.h"

#include "plugin/server/message_faults.h"
#include "plugin/server/sharing_offer.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/trace.h"

static TpsTraceEvent connection_ended = TPS_TRACE_EVENT ("connection_ended", TPS_TRACE_DEBUG);
static TpsTraceEvent connection_lost = TPS_TRACE_EVENT ("connection_lost", TPS_TRACE_INFO);
static TpsTraceEvent half_closed_refused = TPS_TRACE_EVENT ("half_closed_refused", TPS_TRACE_INFO);
static TpsTraceEvent connection_closed = TPS_TRACE_EVENT ("connection_closed", TPS_TRACE_WARNING);

#define SMALL_REPLY_BYTES ((gsize) 64 << 10)

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
  guint
      n_awaited; /* of what the answer waits for: the reply, and that slices of shared memory are let go of */
  CallState state;
  TpsWriter *reply;
  gchar *name; /* of the method, where faults are made; else NULL */
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
  TpsSharingOffer offer;
  TpsSegmentRegistry *segments;   /* NULL: not offered */
  TpsJobQueue *jobs[TPS_N_LANES]; /* of calls, on the server's workers */
  atomic_bool closed;
  gboolean half_closed; /* counted as such; the loop's thread only */

  TpsMutex lock;  /* guards everything below; taken before the connection's */
  GQueue calls;   /* of Call, in order of arrival */
  gsize n_unsent; /* bytes of replies that wait for earlier ones */
  gboolean framed;
  gboolean paused;
  gboolean ended; /* no call will come: the connection closes with the last answer */
};

static void
session_unref (TpsSession *session)
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

static void
enter_call (TpsSession *session, Call *call, gboolean framed)
{
  const TpsServerLimits *limits = &session->core->limits;

  atomic_fetch_add (&session->core->n_calls, 1);
  tps_refcount_inc (&session->refcount);
  tps_mutex_lock (&session->lock);
  session->framed = framed;
  g_queue_push_tail_link (&session->calls, &call->link);
  if (session->calls.length >= limits->max_in_flight && !session->paused)
    {
      session->paused = TRUE;
      tps_connection_pause (session->connection);
    }
  tps_mutex_unlock (&session->lock);
}

/* With the lock held. */
static void
leave_call (TpsSession *session, Call *call)
{
  g_queue_unlink (&session->calls, &call->link);
  g_free (call->name);
  tps_magazine_put (&call_magazine, &call_depot, call);
  if (session->paused && session->calls.length <= session->core->limits.max_in_flight / 2)
    {
      session->paused = FALSE;
      tps_connection_resume (session->connection);
    }
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

/* With the lock held, released meanwhile: sends what may be sent now. The number of calls that left. */
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
      session_unref (session);
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

/* Connections that do not read must not take all that there is for replies. When more than half of it is taken, a connection
 * with unread replies may add a part of what is left, and the last eighth is for small first replies. */
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
  .may_wait = may_wait,
  .is_wanted = is_wanted,
  .run_on_worker = run_on_worker,
  .get_segments = get_segments,
  .get_connection = get_connection,
  .finish = finish_call,
};

/* ---- events of the connection --------------------------------------------------------------- */

static void
on_message (TpsConnection *connection, TpsMessage *message, gpointer data)
{
  TpsSession *session = data;
  TpsServerCore *core = session->core;
  gboolean stopping = atomic_load_explicit (&core->stopping, memory_order_relaxed);
  Call *call = call_new (session, message);

  if (session->segments != NULL)
    message->sharing = tps_segment_registry_receive (session->segments, on_slices_released, call);
  call->n_awaited = message->sharing != NULL ? 2 : 1;
  enter_call (session, call, message->framed);
  tps_dispatcher_handle (core->dispatcher, message, stopping ? core->stopping_error : NULL,
                         &carrier_ops, call);
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

/* Calls that have not begun are cancelled, calls that wait in a service end. While stopping the services end all waiting
 * calls themselves, and may be gone. */
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
  end_calls (session);
  trace_end (session, error);
  tps_gauge_add (session->core->counts.open, -1);
  end_sharing (session);
  if (session->half_closed)
    atomic_fetch_sub (&session->core->n_half_closed, 1);
  g_queue_unlink (&session->io->sessions, &session->link);
  tps_server_core_drop (session->core, &session->core->n_connections);
  session_unref (session);
}

/* The place of the connection is free for others. So that this does not multiply connections without a bound, those beyond a
 * limit close now. */
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
  session->link.data = session;
  offer_sharing (session, fd);
  session->connection = tps_connection_new (io->loop, fd, &options, &events, session);
  tps_connection_set_channel (session->connection, channel);
  tps_connection_set_max_queued (session->connection, limits->max_queued_bytes, io->core->replies);
  tps_loop_post (io->loop, start_session, session);
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
