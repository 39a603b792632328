/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/session.h"

#include "plugin/server/session_private.h"

TpsSession *
tps_session_new (TpsIoThread *io, const gchar *peer)
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

void
tps_session_set_paused (TpsSession *session, gboolean paused)
{
  session->paused = paused;
  if (paused)
    tps_connection_pause (session->connection);
  else
    tps_connection_resume (session->connection);
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
