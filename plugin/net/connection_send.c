/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sending, from any thread. Writers are queued. One thread at a time (`sending`) passes batches of
 * them to the channel, with the lock released. A writer with a file descriptor begins a batch,
 * because a descriptor is sent with the first byte of a system call. If the socket is full, the
 * remaining bytes wait for EPOLLOUT. While the loop's thread delivers the messages of one chunk,
 * the connection is corked, so that their replies are sent together. */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "plugin/net/connection_private.h"

#define BATCH_PIECES 64

/* Room for one descriptor, with the alignment that the kernel requires. */
typedef union
{
  struct cmsghdr header;
  guint8 bytes[CMSG_SPACE (sizeof (gint))];
} OneDescriptor;

/* Attaches the descriptor of the first writer. It is sent with the first byte of the writer, so
 * only the first batch with bytes of this writer carries it. */
static void
attach_descriptor (TpsConnection *connection, struct msghdr *message, OneDescriptor *room)
{
  gint fd = connection->queue.head != NULL && connection->n_first_sent == 0
                ? tps_writer_get_descriptor (connection->queue.head->data)
                : -1;

  if (fd < 0)
    return;
  memset (room, 0, sizeof *room);
  message->msg_control = room;
  message->msg_controllen = sizeof *room;
  room->header.cmsg_level = SOL_SOCKET;
  room->header.cmsg_type = SCM_RIGHTS;
  room->header.cmsg_len = CMSG_LEN (sizeof fd);
  memcpy (CMSG_DATA (&room->header), &fd, sizeof fd);
}

/* Advances the position in the first writer past its sent pieces. The position is stored, because a
 * message may have very many pieces. */
static void
skip_sent_pieces (TpsConnection *connection)
{
  const struct iovec *pieces;
  guint n_pieces;

  if (connection->queue.head == NULL)
    return;
  pieces = tps_writer_get_pieces (connection->queue.head->data, &n_pieces, NULL);
  while (connection->first_piece < n_pieces
         && connection->n_before_piece + pieces[connection->first_piece].iov_len
                <= connection->n_first_sent)
    connection->n_before_piece += pieces[connection->first_piece++].iov_len;
}

/* Collects unsent pieces of the first writers in the queue, and returns their number. A writer with
 * a descriptor begins a batch. */
static guint
gather (TpsConnection *connection, struct iovec *pieces)
{
  gsize n_skip;
  guint n_pieces = 0;

  skip_sent_pieces (connection);
  n_skip = connection->n_first_sent - connection->n_before_piece;
  for (const GList *item = connection->queue.head; item != NULL; item = item->next)
    {
      guint n_more;
      const struct iovec *more = tps_writer_get_pieces (item->data, &n_more, NULL);
      gboolean is_first = item == connection->queue.head;

      if (!is_first && tps_writer_get_descriptor (item->data) >= 0)
        break;
      for (guint i = is_first ? connection->first_piece : 0; i < n_more; i++)
        {
          gsize skipped = MIN (n_skip, more[i].iov_len);

          n_skip -= skipped;
          if (skipped == more[i].iov_len)
            continue;
          if (n_pieces == BATCH_PIECES)
            return n_pieces;
          pieces[n_pieces].iov_base = (guint8 *) more[i].iov_base + skipped;
          pieces[n_pieces++].iov_len = more[i].iov_len - skipped;
        }
    }
  return n_pieces;
}

/* Counts `n_bytes` as sent, and moves completely sent writers from the queue to `sent`. */
static void
consume (TpsConnection *connection, gsize n_bytes, GQueue *sent)
{
  connection->n_queued -= n_bytes;
  connection->n_sent += n_bytes;
  tps_counter_add (connection->sent_bytes, n_bytes);
  n_bytes += connection->n_first_sent;
  while (connection->queue.head != NULL)
    {
      gsize n_writer;
      guint n_pieces;

      tps_writer_get_pieces (connection->queue.head->data, &n_pieces, &n_writer);
      if (n_bytes < n_writer)
        break;
      n_bytes -= n_writer;
      g_queue_push_tail_link (sent, g_queue_pop_head_link (&connection->queue));
      connection->first_piece = 0;
      connection->n_before_piece = 0;
    }
  connection->n_first_sent = n_bytes;
}

static void
free_sent (GQueue *sent)
{
  TpsWriter *out;

  while ((out = tps_connection_pop_writer (sent)) != NULL)
    tps_writer_free (out);
}

void
tps_connection_end_sending (TpsConnection *connection)
{
  connection->sending = FALSE;
  if (connection->dead)
    {
      tps_connection_drop_socket (connection);
      return;
    }
  tps_connection_update_interest (connection);
  if (connection->queue.head == NULL && connection->close_when_sent)
    tps_connection_post_close (connection, NULL);
}

static gsize
count_bytes (const struct msghdr *message)
{
  gsize n_bytes = 0;

  for (gsize i = 0; i < message->msg_iovlen; i++)
    n_bytes += message->msg_iov[i].iov_len;
  return n_bytes;
}

/* Sends one batch. The lock is released during the system call. Returns FALSE if the socket takes
 * no more bytes. If it took fewer bytes than it was given, it is full, and another attempt would
 * only cost a system call. */
static gboolean
send_batch (TpsConnection *connection, GQueue *sent)
{
  struct iovec pieces[BATCH_PIECES];
  struct msghdr message = { .msg_iov = pieces, .msg_iovlen = gather (connection, pieces) };
  OneDescriptor room;
  gsize n_asked;
  gssize n_bytes;
  gint code;

  n_asked = count_bytes (&message);
  attach_descriptor (connection, &message, &room);
  tps_mutex_unlock (&connection->lock);
  free_sent (sent);
  n_bytes = connection->channel->ops->send (connection->channel, connection->fd, &message);
  code = errno;
  tps_mutex_lock (&connection->lock);

  if (connection->dead)
    return FALSE;
  if (n_bytes >= 0)
    {
      consume (connection, (gsize) n_bytes, sent);
      connection->blocked = (gsize) n_bytes < n_asked;
      connection->needs_input = FALSE;
      return !connection->blocked;
    }
  if (code == EAGAIN || code == EWOULDBLOCK)
    {
      connection->blocked = TRUE;
      connection->needs_input = connection->channel->send_needs_input;
    }
  else if (code != EINTR)
    tps_connection_post_close (connection,
                               tps_connection_channel_error (connection, "sending", code));
  return code == EINTR;
}

/* Sends queued writers. Must be called with the lock held; it is released during each system call.
 * The caller must free `sent` without the lock. */
static void
flush (TpsConnection *connection, GQueue *sent)
{
  guint64 n_before;

  if (connection->sending || connection->blocked || connection->opening || connection->close_posted
      || connection->dead)
    return;
  connection->sending = TRUE;
  n_before = connection->n_sent;
  while (connection->queue.head != NULL && send_batch (connection, sent))
    if (connection->n_sent - n_before >= TPS_CONNECTION_FAIR_BYTES)
      {
        connection->blocked = TRUE; /* the loop continues when the socket is writable */
        break;
      }
  tps_connection_end_sending (connection);
}

void
tps_connection_send (TpsConnection *connection, TpsWriter *out)
{
  GQueue sent = G_QUEUE_INIT;
  gsize n_bytes;
  guint n_pieces;

  tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  tps_mutex_lock (&connection->lock);
  if (connection->dead || connection->close_posted)
    {
      tps_mutex_unlock (&connection->lock);
      tps_writer_free (out);
      return;
    }
  g_queue_push_tail_link (&connection->queue, tps_writer_get_link (out));
  tps_writer_queued (out);
  connection->n_queued += n_bytes;
  if (tps_connection_is_queue_full (connection))
    tps_connection_update_interest (connection);
  if (!tps_loop_is_current (connection->loop) || !connection->corked)
    flush (connection, &sent);
  tps_mutex_unlock (&connection->lock);
  free_sent (&sent);
}

void
tps_connection_on_writable (TpsConnection *connection)
{
  GQueue sent = G_QUEUE_INIT;

  tps_mutex_lock (&connection->lock);
  connection->blocked = FALSE;
  connection->receive_blocked = FALSE;
  flush (connection, &sent); /* also sets the events to wait for, mostly EPOLLOUT again */
  tps_mutex_unlock (&connection->lock);
  free_sent (&sent);
}

/* Sends the writers that were queued while the connection was corked. */
void
tps_connection_uncork (TpsConnection *connection)
{
  GQueue sent = G_QUEUE_INIT;

  connection->corked = FALSE;
  tps_mutex_lock (&connection->lock);
  flush (connection, &sent);
  tps_mutex_unlock (&connection->lock);
  free_sent (&sent);
}
