/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/connection.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/net/connection_private.h"
#include "plugin/net/descriptors.h"
#include "runtime/base/error.h"

/* ---- events of the loop --------------------------------------------------------------------- */

gboolean
tps_connection_is_queue_full (const TpsConnection *connection)
{
  gsize n_bytes = connection->n_queued
                  + (gsize) connection->queue.length * TPS_CONNECTION_WRITER_BYTES;

  return n_bytes > 0
         && (n_bytes > connection->max_queued
             || n_bytes > tps_budget_get_free (connection->replies));
}

gboolean
tps_connection_is_reading_allowed (const TpsConnection *connection)
{
  return !connection->opening && !connection->paused && !connection->at_end
         && !connection->receive_blocked && !connection->close_when_sent
         && !connection->close_posted && !connection->dead
         && !tps_connection_is_queue_full (connection);
}

/* Must be called with the lock held. */
static void
modify_watch (TpsConnection *connection, guint32 interest)
{
  GError *error = NULL;

  connection->interest = interest;
  if (!tps_loop_modify_watch (connection->loop, connection->watch, interest, &error))
    tps_connection_post_close (connection, error);
}

void
tps_connection_update_interest (TpsConnection *connection)
{
  gboolean allowed = tps_connection_is_reading_allowed (connection);
  gboolean read = allowed && !connection->has_leftover;
  gboolean write = (connection->blocked && !connection->needs_input) || connection->receive_blocked;
  guint32 interest = (read ? (guint32) EPOLLIN : 0)
                     | (connection->half_closed ? 0 : (guint32) EPOLLRDHUP)
                     | (write ? (guint32) EPOLLOUT : 0);

  if (connection->opening)
    interest = connection->opening_interest;
  atomic_store_explicit (&connection->may_read, read, memory_order_relaxed);
  if (connection->watch == NULL)
    return;
  if (interest != connection->interest)
    modify_watch (connection, interest);
  if (allowed && connection->has_leftover && !connection->continue_posted)
    {
      connection->continue_posted = TRUE;
      tps_loop_post (connection->loop, tps_connection_continue_reading,
                     tps_connection_ref (connection));
    }
}

/* ---- closing -------------------------------------------------------------------------------- */

void
tps_connection_drop_socket (TpsConnection *connection)
{
  TpsWriter *out;

  while ((out = tps_connection_pop_writer (&connection->queue)) != NULL)
    tps_writer_free (out);
  connection->n_queued = 0;
  if (connection->channel->ops->free != NULL)
    connection->channel->ops->free (connection->channel, connection->fd);
  connection->channel = &tps_plain_channel;
  /* The buffer may contain descriptors that the kernel could not refuse. */
  if (connection->takes_descriptors && connection->events.descriptor == NULL)
    tps_descriptors_close_socket (connection->fd);
  else
    close (connection->fd);
  connection->fd = -1;
}

static void
tear_down (TpsConnection *connection, const GError *error)
{
  if (connection->gone)
    return;
  connection->gone = TRUE;
  tps_mutex_lock (&connection->lock);
  connection->dead = TRUE;
  if (connection->watch != NULL)
    tps_loop_remove_watch (connection->loop, connection->watch);
  connection->watch = NULL;
  tps_connection_update_interest (connection);
  if (connection->sending)
    shutdown (connection->fd, SHUT_RDWR); /* the sending thread then drops the socket */
  else
    tps_connection_drop_socket (connection);
  tps_mutex_unlock (&connection->lock);

  /* A partial message is freed now. Calls that still run keep the connection alive, but not the
   * memory of the message. */
  g_clear_pointer (&connection->scanner, tps_scanner_free);
  connection->events.closed (connection, error, connection->user_data);
  if (connection->started)
    tps_connection_unref (connection);
}

static void
run_close (gpointer data)
{
  g_autoptr (TpsConnection) connection = data;

  tear_down (connection, connection->close_error);
}

void
tps_connection_post_close (TpsConnection *connection, GError *error)
{
  if (connection->dead || connection->close_posted)
    {
      g_clear_error (&error);
      return;
    }
  connection->close_posted = TRUE;
  connection->close_error = error;
  tps_connection_update_interest (connection);
  tps_loop_post (connection->loop, run_close, tps_connection_ref (connection));
}

GError *
tps_connection_lost_error (const gchar *doing, gint code)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "connection lost while %s: %s", doing,
                      g_strerror (code));
}

GError *
tps_connection_channel_error (TpsConnection *connection, const gchar *doing, gint code)
{
  TpsNetChannel *channel = connection->channel;

  if (code != EPROTO || channel->ops->get_failure == NULL)
    return tps_connection_lost_error (doing, code);
  return g_error_new (TPS_ERROR, TPS_ERROR_PROTOCOL, "the encrypted connection failed: %s",
                      channel->ops->get_failure (channel));
}

/* ---- creation and release ------------------------------------------------------------------- */

TpsConnection *
tps_connection_new (TpsLoop *loop, gint fd, const TpsScannerOptions *options,
                    const TpsConnectionEvents *events, gpointer user_data)
{
  TpsConnection *connection = g_new0 (TpsConnection, 1);

  tps_refcount_init (&connection->refcount);
  tps_mutex_init (&connection->lock);
  g_queue_init (&connection->queue);
  atomic_init (&connection->may_read, TRUE);
  connection->loop = loop;
  connection->fd = fd;
  connection->channel = &tps_plain_channel;
  connection->events = *events;
  connection->user_data = user_data;
  connection->scanner = tps_scanner_new (options);
  connection->max_queued = G_MAXSIZE;
  connection->takes_descriptors = events->descriptor != NULL || !tps_descriptors_refuse (fd);
  return connection;
}

TpsConnection *
tps_connection_ref (TpsConnection *connection)
{
  tps_refcount_inc (&connection->refcount);
  return connection;
}

void
tps_connection_unref (TpsConnection *connection)
{
  if (!tps_refcount_dec (&connection->refcount))
    return;
  if (connection->fd >= 0)
    tps_connection_drop_socket (connection);
  g_clear_error (&connection->close_error);
  g_clear_pointer (&connection->scanner, tps_scanner_free);
  g_clear_pointer (&connection->leftover, g_byte_array_unref);
  tps_budget_unref (connection->replies);
  tps_mutex_clear (&connection->lock);
  g_free (connection);
}

void
tps_connection_set_channel (TpsConnection *connection, TpsNetChannel *channel)
{
  connection->channel = channel;
}

void
tps_connection_start (TpsConnection *connection)
{
  GError *error = NULL;
  gboolean opens;

  if (connection->gone)
    return;
  connection->started = TRUE;
  tps_connection_ref (connection);
  tps_mutex_lock (&connection->lock);
  connection->opening = tps_connection_must_open (connection);
  connection->opening_interest = EPOLLIN;
  connection->interest = connection->opening ? EPOLLIN : EPOLLIN | EPOLLRDHUP;
  connection->watch = tps_loop_add_watch (connection->loop, connection->fd, connection->interest,
                                          tps_connection_on_ready, connection, &error);
  if (connection->watch != NULL)
    tps_connection_update_interest (connection);
  else
    tps_connection_post_close (connection, error);
  opens = connection->opening;
  tps_mutex_unlock (&connection->lock);
  if (opens)
    tps_connection_go_on_opening (connection, 0);
}

gsize
tps_connection_get_n_bytes_queued (TpsConnection *connection)
{
  gsize n_bytes;

  tps_mutex_lock (&connection->lock);
  n_bytes = connection->n_queued;
  tps_mutex_unlock (&connection->lock);
  return n_bytes;
}

void
tps_connection_get_traffic (TpsConnection *connection, TpsConnectionTraffic *traffic)
{
  traffic->n_received_bytes = atomic_load_explicit (&connection->n_received_bytes,
                                                    memory_order_relaxed);
  tps_mutex_lock (&connection->lock);
  traffic->n_sent_bytes = connection->n_sent;
  traffic->n_queued_bytes = connection->n_queued;
  traffic->is_encrypted = connection->channel->encrypts;
  traffic->is_half_closed = connection->half_closed;
  tps_mutex_unlock (&connection->lock);
}

void
tps_connection_set_counters (TpsConnection *connection, TpsCounter *received_bytes,
                             TpsCounter *sent_bytes)
{
  connection->received_bytes = received_bytes;
  connection->sent_bytes = sent_bytes;
}

void
tps_connection_set_max_queued (TpsConnection *connection, gsize n_bytes, TpsBudget *replies)
{
  tps_mutex_lock (&connection->lock);
  tps_budget_unref (connection->replies);
  connection->replies = tps_budget_ref (replies);
  connection->max_queued = n_bytes;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
}

void
tps_connection_forget_received (TpsConnection *connection)
{
  atomic_store_explicit (&connection->forgets, TRUE, memory_order_relaxed);
}

static void
set_paused (TpsConnection *connection, gboolean paused)
{
  tps_mutex_lock (&connection->lock);
  connection->paused = paused;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
}

void
tps_connection_pause (TpsConnection *connection)
{
  set_paused (connection, TRUE);
}

void
tps_connection_resume (TpsConnection *connection)
{
  set_paused (connection, FALSE);
}

void
tps_connection_close (TpsConnection *connection)
{
  tps_mutex_lock (&connection->lock);
  tps_connection_post_close (connection, NULL);
  tps_mutex_unlock (&connection->lock);
}

void
tps_connection_close_when_sent (TpsConnection *connection)
{
  tps_mutex_lock (&connection->lock);
  connection->close_when_sent = TRUE;
  if (connection->queue.head == NULL && !connection->sending)
    tps_connection_post_close (connection, NULL);
  tps_mutex_unlock (&connection->lock);
}

/* ---- stalls --------------------------------------------------------------------------------- */

/* Returns the progress, in bytes, that is required while `n_bytes` still have to arrive or to be
 * sent. */
static guint64
get_min_progress (gsize n_bytes)
{
  return MAX (TPS_CONNECTION_MIN_PROGRESS_BYTES, n_bytes / TPS_CONNECTION_MIN_PROGRESS_PART);
}

/* Returns TRUE if `position` has not advanced by `min_progress` for `patience_ns`. Time counts only
 * while the connection is busy. */
static gboolean
is_stalled (TpsProgress *progress, gboolean busy, guint64 position, guint64 min_progress,
            gint64 now_ns, gint64 patience_ns)
{
  if (!busy || progress->since_ns == 0 || position - progress->mark >= min_progress)
    {
      progress->mark = position;
      progress->since_ns = now_ns;
      return FALSE;
    }
  return now_ns - progress->since_ns >= patience_ns;
}

/* Must be called with the lock held. */
static void
close_stalled (TpsConnection *connection, const gchar *stall, guint64 min_progress,
               gint64 patience_ns)
{
  tps_connection_post_close (
      connection, g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                               "%s: expected %" G_GUINT64_FORMAT " or more bytes in %.0f s", stall,
                               min_progress, (gdouble) patience_ns / 1e9));
}

void
tps_connection_check_progress (TpsConnection *connection, gint64 now_ns,
                               const TpsConnectionPatience *patience)
{
  gint64 patience_ns = patience->moving_ns;
  gint64 opening_ns = patience->opening_ns > 0 ? patience->opening_ns : patience_ns;
  gboolean receiving = tps_connection_may_read (connection)
                       && !tps_scanner_is_idle (connection->scanner);
  guint64 min_received, min_sent;
  gsize n_missing = 0;
  guint8 *dest;

  if (receiving && !tps_scanner_get_body (connection->scanner, &dest, &n_missing))
    n_missing = 0;
  min_received = get_min_progress (n_missing);
  tps_mutex_lock (&connection->lock);
  min_sent = get_min_progress (connection->n_queued);
  if (is_stalled (&connection->receive_progress, receiving, connection->n_received, min_received,
                  now_ns, patience_ns))
    close_stalled (connection, "the peer has stopped sending in the middle of a message",
                   min_received, patience_ns);
  if (is_stalled (&connection->send_progress, connection->queue.head != NULL, connection->n_sent,
                  min_sent, now_ns, patience_ns))
    close_stalled (connection, "the peer does not read", min_sent, patience_ns);
  if (is_stalled (&connection->half_closed_progress, connection->half_closed, connection->n_sent, 1,
                  now_ns, patience->half_closed_ns))
    close_stalled (connection, "the peer has stopped sending, and nothing was sent to it", 1,
                   patience->half_closed_ns);
  if (is_stalled (&connection->opening_progress,
                  connection->opening && !connection->channel->may_idle, 0, 1, now_ns, opening_ns))
    tps_connection_post_close (connection,
                               g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                                            "the TLS handshake was not complete after %.0f s",
                                            (gdouble) opening_ns / 1e9));
  tps_mutex_unlock (&connection->lock);
}
