/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How a connection whose channel must negotiate is opened, from its start to its first byte of
 * data:
 *
 *   recognize     Runs on the loop when the first byte has come. It chooses the final channel.
 *   shake_hands   Runs on a worker, because a step of a handshake computes for longer than a turn
 *                 of the loop may take. The loop then waits for the socket and starts the next
 *                 step, until the connection is open.
 *
 * While a worker uses the channel, `sending` is set. The socket then stays open, and the loop does
 * not watch it. */

#include <errno.h>
#include <sys/epoll.h>

#include "plugin/net/connection_private.h"

static void
fail_opening (TpsConnection *connection, GError *error)
{
  tps_mutex_lock (&connection->lock);
  tps_connection_post_close (connection, error);
  tps_mutex_unlock (&connection->lock);
}

/* Opens the connection and sends the queued writers. Bytes that came after the handshake are in the
 * channel or in the socket. */
static void
be_open (TpsConnection *connection)
{
  tps_mutex_lock (&connection->lock);
  connection->opening = FALSE;
  connection->has_leftover = connection->channel->has_unread;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
  tps_connection_on_writable (connection);
}

/* ---- handshake ------------------------------------------------------------------------------ */

typedef struct
{
  TpsConnection *connection; /* a reference */
  TpsHandshake result;
  GError *error;
} Step;

static void
finish_step (gpointer data)
{
  g_autofree Step *step = data;
  g_autoptr (TpsConnection) connection = step->connection;
  gboolean is_gone;

  tps_mutex_lock (&connection->lock);
  connection->opening_interest = step->result == TPS_HANDSHAKE_NEEDS_INPUT    ? (guint32) EPOLLIN
                                 : step->result == TPS_HANDSHAKE_NEEDS_OUTPUT ? (guint32) EPOLLOUT
                                                                              : 0;
  tps_connection_end_sending (connection);
  is_gone = connection->dead || connection->close_posted;
  tps_mutex_unlock (&connection->lock);
  if (is_gone)
    g_clear_error (&step->error);
  else if (step->result == TPS_HANDSHAKE_FAILED)
    fail_opening (connection, g_steal_pointer (&step->error));
  else if (step->result == TPS_HANDSHAKE_DONE)
    be_open (connection);
}

static void
run_step (Step *step)
{
  TpsNetChannel *channel = step->connection->channel;

  step->result = channel->ops->shake_hands (channel, step->connection->fd, &step->error);
}

static void
run_step_on_worker (gpointer data)
{
  Step *step = data;

  run_step (step);
  tps_loop_post (step->connection->loop, finish_step, step);
}

static void
shake_hands (TpsConnection *connection)
{
  TpsWorkerPool *workers = connection->channel->workers;
  Step *step;

  tps_mutex_lock (&connection->lock);
  if (connection->sending || connection->dead || connection->close_posted)
    {
      tps_mutex_unlock (&connection->lock);
      return;
    }
  connection->sending = TRUE;
  connection->opening_interest = 0;
  if (workers != NULL)
    tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);

  step = g_new0 (Step, 1);
  step->connection = tps_connection_ref (connection);
  if (workers != NULL)
    {
      tps_worker_pool_submit (workers, run_step_on_worker, step);
      return;
    }
  run_step (step);
  finish_step (step);
}

/* ---- first byte ----------------------------------------------------------------------------- */

/* Chooses the final channel. Returns FALSE if it is not known yet, or if the recognition failed. */
static gboolean
recognize (TpsConnection *connection)
{
  GError *error = NULL;
  TpsNetChannel *channel = connection->channel->ops->recognize (connection->channel, connection->fd,
                                                                &error);

  if (error != NULL)
    fail_opening (connection, error);
  if (channel == NULL)
    return FALSE;
  tps_mutex_lock (&connection->lock);
  connection->channel = channel;
  tps_mutex_unlock (&connection->lock);
  return TRUE;
}

void
tps_connection_go_on_opening (TpsConnection *connection, guint32 epoll_events)
{
  if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0)
    {
      fail_opening (connection, tps_connection_lost_error ("opening", ECONNRESET));
      return;
    }
  if (connection->channel->ops->recognize != NULL && !recognize (connection))
    return;
  if (connection->channel->ops->shake_hands != NULL)
    shake_hands (connection);
  else
    be_open (connection);
}

const gchar *
tps_connection_get_peer_name (TpsConnection *connection)
{
  const TpsNetChannelOps *ops = connection->channel->ops;

  return ops->get_peer_name != NULL ? ops->get_peer_name (connection->channel) : NULL;
}

gboolean
tps_connection_must_open (const TpsConnection *connection)
{
  return connection->channel->ops->recognize != NULL
         || connection->channel->ops->shake_hands != NULL;
}
