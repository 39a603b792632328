/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The calls of a session. When a message arrives, its call is entered at the end of `calls`, and
 * the dispatcher runs the handler. tps_session_finish_call() is called at once or later, on any
 * thread. The reply is sent as soon as no earlier call blocks it, and then the call leaves the
 * list.
 *
 * A call blocks a later call if both have the same sequence id, or if the connection is not framed:
 * the peer of such a connection assigns each reply to its oldest call. A call stays in the list
 * while its reply is passed to the socket, so that two threads cannot change the order.
 *
 * If the arguments of a call contain slices of shared memory, the reply also waits until the slices
 * are released, because the reply returns them to the client.
 *
 * At the limit of calls, the connection is not read until half of the calls have been answered. */

#include "plugin/server/message_faults.h"
#include "plugin/server/session_private.h"
#include "runtime/base/magazine.h"

static TpsDepot call_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine call_magazine;

/* ---- order ---------------------------------------------------------------------------------- */

static gboolean
blocks (const TpsSession *session, const TpsSessionCall *earlier, const TpsSessionCall *later)
{
  return earlier->ordered && later->ordered && (!session->framed || earlier->seqid == later->seqid);
}

static gboolean
is_next (const TpsSession *session, const TpsSessionCall *call)
{
  for (const GList *item = session->calls.head; item != &call->link; item = item->next)
    if (blocks (session, item->data, call))
      return FALSE;
  return TRUE;
}

static TpsSessionCall *
find_sendable (const TpsSession *session)
{
  for (const GList *item = session->calls.head; item != NULL; item = item->next)
    {
      TpsSessionCall *call = item->data;

      if (call->state == TPS_SESSION_CALL_ANSWERED && is_next (session, call))
        return call;
    }
  return NULL;
}

/* ---- replies -------------------------------------------------------------------------------- */

/* Removes a call whose reply has been sent. If the peer sends no more requests, the last call
 * closes the connection. The lock must be held. */
static void
leave_call (TpsSession *session, TpsSessionCall *call)
{
  g_queue_unlink (&session->calls, &call->link);
  g_free (call->name);
  g_clear_pointer (&call->grant, tps_grant_unref);
  tps_magazine_put (&call_magazine, &call_depot, call);
  if (session->calls.length <= session->core->limits.max_in_flight / 2)
    session->crowded = FALSE;
  tps_session_update_reading (session);
  if (session->ended && session->calls.length == 0)
    tps_connection_close_when_sent (session->connection);
}

static gsize
count_reply (const TpsSessionCall *call)
{
  gsize n_bytes = 0;
  guint n_pieces;

  if (call->reply != NULL)
    tps_writer_get_pieces (call->reply, &n_pieces, &n_bytes);
  return n_bytes;
}

static void
send_reply (TpsSession *session, const TpsSessionCall *call)
{
  TpsServerCore *core = session->core;

  if (core->faults == NULL)
    tps_connection_send (session->connection, call->reply);
  else
    tps_message_faults_send (core->faults, session->connection, call->name, call->reply,
                             core->workers);
}

/* Sends all replies that no call blocks. Returns the number of calls that have left the list. The
 * lock must be held; it is released during each send. */
static guint
send_replies (TpsSession *session)
{
  guint n_left = 0;
  TpsSessionCall *call;

  while ((call = find_sendable (session)) != NULL)
    {
      call->state = TPS_SESSION_CALL_SENDING;
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

/* Reports that one condition of the reply is met: its existence, or the release of the slices. The
 * lock must be held, and is released. */
static void
drop_awaited (TpsSessionCall *call)
{
  TpsSession *session = call->session;
  guint n_left = 0;

  if (--call->n_awaited == 0)
    {
      call->state = TPS_SESSION_CALL_ANSWERED;
      n_left = send_replies (session);
    }
  tps_mutex_unlock (&session->lock);
  for (; n_left > 0; n_left--)
    {
      tps_server_core_drop (session->core, &session->core->n_calls);
      tps_session_unref (session);
    }
}

void
tps_session_finish_call (gpointer carried, TpsWriter *reply)
{
  TpsSessionCall *call = carried;

  tps_mutex_lock (&call->session->lock);
  call->reply = reply;
  call->session->n_unsent += count_reply (call);
  call->ordered = call->ordered && reply != NULL;
  drop_awaited (call);
}

static void
on_slices_released (gpointer data)
{
  TpsSessionCall *call = data;

  tps_mutex_lock (&call->session->lock);
  drop_awaited (call);
}

/* ---- arrival -------------------------------------------------------------------------------- */

static TpsSessionCall *
call_new (TpsSession *session, const TpsMessage *message)
{
  TpsSessionCall *call = tps_magazine_take (&call_magazine, &call_depot);

  if (call == NULL)
    call = g_new (TpsSessionCall, 1);
  *call = (TpsSessionCall) {
    .session = session,
    .link = { .data = call },
    .seqid = message->seqid,
    .ordered = message->kind != TPS_MESSAGE_ONEWAY,
    .name = session->core->faults != NULL ? g_strdup (message->name) : NULL,
  };
  return call;
}

static void
enter (TpsSession *session, TpsSessionCall *call, const TpsMessage *message, GError **error)
{
  const TpsServerLimits *limits = &session->core->limits;

  atomic_fetch_add (&session->core->n_calls, 1);
  tps_refcount_inc (&session->refcount);
  tps_mutex_lock (&session->lock);
  call->grant = tps_session_identify (session, message, error);
  session->framed = message->framed;
  session->protocol = message->protocol;
  session->n_calls++;
  g_queue_push_tail_link (&session->calls, &call->link);
  if (session->calls.length >= limits->max_in_flight)
    session->crowded = TRUE;
  tps_session_update_reading (session);
  tps_mutex_unlock (&session->lock);
}

TpsSessionCall *
tps_session_enter_call (TpsSession *session, TpsMessage *message, GError **error)
{
  TpsSessionCall *call = call_new (session, message);

  if (session->segments != NULL)
    message->sharing = tps_segment_registry_receive (session->segments, on_slices_released, call);
  if (G_UNLIKELY (atomic_load_explicit (&session->has_context, memory_order_relaxed)))
    message->context = tps_session_dup_context (session);
  call->n_awaited = message->sharing != NULL ? 2 : 1;
  enter (session, call, message, error);
  return call;
}
