/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/message_faults.h"
#include "plugin/server/session_private.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"

static TpsTraceEvent connection_ended = TPS_TRACE_EVENT ("connection_ended", TPS_TRACE_DEBUG);
static TpsTraceEvent connection_lost = TPS_TRACE_EVENT ("connection_lost", TPS_TRACE_INFO);
static TpsTraceEvent half_closed_refused = TPS_TRACE_EVENT ("half_closed_refused", TPS_TRACE_INFO);
static TpsTraceEvent connection_closed = TPS_TRACE_EVENT ("connection_closed", TPS_TRACE_WARNING);

/* ---- messages ------------------------------------------------------------------------------- */

static void
on_message (TpsConnection *connection, TpsMessage *message, gpointer data)
{
  TpsSession *session = data;
  TpsServerCore *core = session->core;
  gboolean stopping = atomic_load_explicit (&core->stopping, memory_order_relaxed);
  g_autoptr (GError) error = NULL;
  TpsSessionCall *call = tps_session_enter_call (session, message, &error);
  const GError *refuse = error == NULL && stopping ? core->stopping_error : error;

  tps_dispatcher_handle (core->dispatcher, message, refuse, &tps_session_carrier_ops, call);
}

static void
on_message_with_faults (TpsConnection *connection, TpsMessage *message, gpointer data)
{
  const TpsSession *session = data;

  tps_message_faults_receive (session->core->faults, connection, message, on_message, data);
}

/* ---- end ------------------------------------------------------------------------------------ */

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

/* Cancels calls that no worker has begun, and ends calls that are pending in a service. If the
 * server is stopping, the services end their pending calls themselves, and may have been freed. */
static void
end_calls (TpsSession *session)
{
  TpsServerCore *core = session->core;

  for (guint lane = 0; lane < TPS_N_LANES; lane++)
    tps_job_queue_cancel (session->jobs[lane]);
  if (!atomic_load (&core->stopping))
    tps_dispatcher_connection_closed (core->dispatcher, session);
}

/* A connection is lost if its peer is gone. It is closed if this server ends it because of invalid
 * messages or unread replies. */
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

  tps_mutex_lock (&session->lock);
  atomic_store (&session->closed, TRUE);
  tps_mutex_unlock (&session->lock);
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

  tps_mutex_lock (&session->lock);
  session->ended = TRUE;
  if (session->calls.length == 0)
    tps_connection_close_when_sent (connection);
  tps_mutex_unlock (&session->lock);
}

/* ---- beginning ------------------------------------------------------------------------------ */

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
                              .device_for_lookups_only = core->limits.device_for_lookups_only,
                              .all_on_device = core->segments_on_device,
                              .common = core->common_segments };

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
  TpsSession *session = tps_session_new (io, peer);

  if (io->core->access != NULL)
    {
      options.choose_bodies = tps_session_choose_bodies;
      options.user_data = session;
    }
  tps_session_show_user (session, fd);
  offer_sharing (session, fd);
  session->connection = tps_connection_new (io->loop, fd, &options, &events, session);
  tps_connection_set_channel (session->connection, channel);
  tps_connection_set_counters (session->connection, io->core->counts.received_bytes,
                               io->core->counts.sent_bytes);
  tps_connection_set_max_queued (session->connection, limits->max_queued_bytes, io->core->replies);
  session->id = tps_session_list_add (&io->core->sessions, session);
  tps_loop_post (io->loop, start_session, session);
}
