/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reception, on the loop's thread. The channel receives into the body that the scanner needs, and
 * then into a small chunk for the bytes after the body. Without a body, it receives only into the
 * chunk. A short read means that the socket is empty, so the reception of a small call costs one
 * system call. If reading must stop, the rest of the chunk is kept in `leftover`. */

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "plugin/net/connection_private.h"
#include "plugin/net/descriptors.h"
#include "runtime/base/error.h"

#define CHUNK_BYTES 4096
#define MAX_LINGERED 32 /* per turn of the loop, because the loop's timers wait meanwhile */
/* The most descriptors that are received with one recvmsg(), so that a peer cannot use up the
 * process's descriptors. */
#define MAX_DESCRIPTORS 16

static void
fail_receiving (TpsConnection *connection, GError *error)
{
  tps_mutex_lock (&connection->lock);
  tps_connection_post_close (connection, error);
  tps_mutex_unlock (&connection->lock);
}

static void
hand_out (TpsConnection *connection)
{
  TpsMessage *message;

  while ((message = tps_scanner_take (connection->scanner)) != NULL)
    {
      connection->n_received += TPS_CONNECTION_MIN_PROGRESS_BYTES;
      connection->n_turn_messages++;
      message->received_ns = tps_loop_get_event_ns (connection->loop);
      connection->events.message (connection, message, connection->user_data);
    }
}

static void
keep_leftover (TpsConnection *connection, const guint8 *bytes, gsize n_bytes)
{
  if (connection->leftover == NULL)
    connection->leftover = g_byte_array_new ();
  g_byte_array_append (connection->leftover, bytes, (guint) n_bytes);
  tps_mutex_lock (&connection->lock);
  connection->has_leftover = TRUE;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
}

static void
begin_turn (TpsConnection *connection)
{
  connection->n_turn_bytes = 0;
  connection->n_turn_messages = 0;
  connection->n_turn_scanned = 0;
  connection->n_next_look = TPS_CONNECTION_LOOK_MESSAGES;
  connection->n_next_look_bytes = TPS_CONNECTION_LOOK_BYTES;
  connection->turn_began_ns = 0;
}

/* Returns TRUE if the messages of this turn, or the bytes of a long message, have used up the time
 * of the connection. The clock is read only now and then. */
static gboolean
is_late (TpsConnection *connection)
{
  gint64 now_ns;

  if (G_LIKELY (connection->n_turn_messages < connection->n_next_look
                && connection->n_turn_scanned < connection->n_next_look_bytes))
    return FALSE;
  now_ns = tps_clock_now_ns ();
  if (connection->turn_began_ns == 0)
    connection->turn_began_ns = now_ns;
  else if (now_ns - connection->turn_began_ns >= TPS_CONNECTION_FAIR_NS)
    return TRUE;
  connection->n_next_look = connection->n_turn_messages + TPS_CONNECTION_LOOK_MESSAGES;
  connection->n_next_look_bytes = connection->n_turn_scanned + TPS_CONNECTION_LOOK_BYTES;
  return FALSE;
}

static void
feed (TpsConnection *connection, const guint8 *bytes, gsize n_bytes)
{
  GError *error = NULL;
  gsize n_consumed;

  while (n_bytes > 0)
    {
      if (!tps_connection_may_read (connection) || is_late (connection))
        {
          keep_leftover (connection, bytes, n_bytes);
          return;
        }
      if (!tps_scanner_feed (connection->scanner, bytes, n_bytes, &n_consumed, &error))
        {
          fail_receiving (connection, error);
          return;
        }
      bytes += n_consumed;
      n_bytes -= n_consumed;
      connection->n_turn_scanned += n_consumed;
      hand_out (connection);
    }
}

static void
feed_corked (TpsConnection *connection, const guint8 *bytes, gsize n_bytes)
{
  if (n_bytes == 0)
    return;
  connection->corked = TRUE;
  feed (connection, bytes, n_bytes);
  tps_connection_uncork (connection);
}

/* Records that the peer sends no more. It may still receive. */
static void
note_half_closed (TpsConnection *connection)
{
  gboolean is_news;

  tps_mutex_lock (&connection->lock);
  is_news = !connection->half_closed;
  connection->half_closed = TRUE;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
  if (is_news && connection->events.half_closed != NULL)
    connection->events.half_closed (connection, connection->user_data);
}

static void
on_end (TpsConnection *connection)
{
  note_half_closed (connection);
  if (!tps_scanner_is_idle (connection->scanner))
    {
      fail_receiving (connection, g_error_new_literal (
                                      TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                                      "the peer closed the connection in the middle of a message"));
      return;
    }
  tps_mutex_lock (&connection->lock);
  connection->at_end = TRUE;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
  if (connection->events.ended != NULL)
    connection->events.ended (connection, connection->user_data);
  else
    tps_connection_close_when_sent (connection);
}

/* Waits until the socket is writable, because an encrypted channel must send to its peer before it
 * can continue. */
static void
await_output (TpsConnection *connection)
{
  tps_mutex_lock (&connection->lock);
  connection->receive_blocked = TRUE;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
}

/* Handles the result of a reception. Returns FALSE if it produced no bytes. */
static gboolean
received_any (TpsConnection *connection, gssize n_bytes, gint code)
{
  if (n_bytes > 0)
    return TRUE;
  if (n_bytes == 0)
    on_end (connection);
  else if (code != EAGAIN && code != EWOULDBLOCK && code != EINTR)
    fail_receiving (connection, tps_connection_channel_error (connection, "receiving", code));
  else if (connection->channel->receive_needs_output)
    await_output (connection);
  return FALSE;
}

/* Room for the descriptors of one recvmsg(), with the alignment that the kernel requires. The room
 * suffices for every message. Otherwise, the kernel would close the remaining descriptors in this
 * thread, which may block (descriptors.h). */
typedef union
{
  struct cmsghdr header;
  guint8 bytes[CMSG_SPACE (TPS_DESCRIPTORS_MAX * sizeof (gint))];
} Descriptors;

static gsize
list_descriptors (struct msghdr *message, gint *fds)
{
  gsize n = 0;

  for (struct cmsghdr *at = CMSG_FIRSTHDR (message); at != NULL; at = CMSG_NXTHDR (message, at))
    if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS)
      for (gsize i = 0; CMSG_LEN ((i + 1) * sizeof *fds) <= at->cmsg_len; i++)
        memcpy (&fds[n++], CMSG_DATA (at) + i * sizeof *fds, sizeof *fds);
  return n;
}

static GError *
new_descriptor_error (const TpsConnection *connection)
{
  if (connection->events.descriptor == NULL)
    return g_error_new_literal (TPS_ERROR, TPS_ERROR_PROTOCOL,
                                "the peer sent unexpected file descriptors");
  return g_error_new (TPS_ERROR, TPS_ERROR_PROTOCOL,
                      "the peer sent more than %d file descriptors at once, or this process has "
                      "reached its limit of open files (ulimit -n)",
                      MAX_DESCRIPTORS);
}

/* Delivers the received descriptors. Returns FALSE, and discards all of them, if no descriptor is
 * expected, if there are too many, or if some were cut off. */
static gboolean
take_descriptors (TpsConnection *connection, struct msghdr *message)
{
  gint fds[TPS_DESCRIPTORS_MAX];
  gboolean truncated = (message->msg_flags & MSG_CTRUNC) != 0;
  gsize n;

  if (message->msg_control == NULL || (message->msg_controllen == 0 && !truncated))
    return TRUE;
  n = list_descriptors (message, fds);
  if (truncated || n > MAX_DESCRIPTORS || (n > 0 && connection->events.descriptor == NULL))
    {
      tps_descriptors_discard (fds, n);
      fail_receiving (connection, new_descriptor_error (connection));
      return FALSE;
    }
  for (gsize i = 0; i < n; i++)
    connection->events.descriptor (connection, fds[i], connection->user_data);
  return TRUE;
}

static void
count_received (TpsConnection *connection, guint64 n_bytes)
{
  guint64 n_before = atomic_load_explicit (&connection->n_received_bytes, memory_order_relaxed);

  atomic_store_explicit (&connection->n_received_bytes, n_before + n_bytes, memory_order_relaxed);
  tps_counter_add (connection->received_bytes, n_bytes);
  connection->n_received += n_bytes;
}

/* Clears received bytes that contained a secret. Beyond the bytes just received, the buffer may
 * still hold earlier bytes of the message, so the whole buffer is cleared. */
static void
forget (TpsConnection *connection, guint8 *bytes, gsize n_bytes)
{
  if (G_LIKELY (!atomic_load_explicit (&connection->forgets, memory_order_relaxed)))
    return;
  atomic_store_explicit (&connection->forgets, FALSE, memory_order_relaxed);
  explicit_bzero (bytes, n_bytes);
}

/* Receives once. Returns 0 if nothing more can be received now: the socket is empty, also after a
 * reception that did not fill all memory, or the reception has ended. Otherwise returns the number
 * of bytes. */
static gsize
receive (TpsConnection *connection)
{
  guint8 chunk[CHUNK_BYTES];
  struct iovec pieces[2];
  Descriptors room;
  struct msghdr message = { .msg_iov = pieces };
  GError *error = NULL;
  guint8 *dest = NULL;
  gsize n_body = 0;
  gsize n_asked;
  gssize n_bytes;

  if (tps_scanner_get_body (connection->scanner, &dest, &n_body))
    pieces[message.msg_iovlen++] = (struct iovec) { .iov_base = dest, .iov_len = n_body };
  pieces[message.msg_iovlen++] = (struct iovec) { .iov_base = chunk, .iov_len = sizeof chunk };
  n_asked = n_body + sizeof chunk;
  if (connection->takes_descriptors)
    {
      message.msg_control = &room;
      message.msg_controllen = sizeof room;
    }
  n_bytes = connection->channel->ops->receive (connection->channel, connection->fd, &message);
  if (!received_any (connection, n_bytes, errno) || !take_descriptors (connection, &message))
    return 0;

  count_received (connection, (guint64) n_bytes);
  connection->n_turn_bytes += (gsize) n_bytes;
  n_body = MIN (n_body, (gsize) n_bytes);
  connection->n_turn_scanned += n_body / TPS_CONNECTION_BODY_COST + connection->channel->cost;
  if (n_body > 0 && !tps_scanner_body_received (connection->scanner, n_body, &error))
    {
      fail_receiving (connection, error);
      return 0;
    }
  hand_out (connection);
  feed_corked (connection, chunk, (gsize) n_bytes - n_body);
  forget (connection, chunk, sizeof chunk);
  return (gsize) n_bytes < n_asked ? 0 : (gsize) n_bytes;
}

/* Returns TRUE if other connections of the loop must get their turn. */
static gboolean
is_others_turn (TpsConnection *connection)
{
  return connection->n_turn_bytes >= TPS_CONNECTION_FAIR_BYTES
         || connection->n_turn_messages >= TPS_CONNECTION_FAIR_MESSAGES || is_late (connection);
}

static void
receive_all (TpsConnection *connection)
{
  while (!is_others_turn (connection) && tps_connection_may_read (connection))
    if (receive (connection) == 0)
      return;
}

/* Yields to the peer if it waits for this core, and checks for its next message. A sleep and a
 * wake-up cost more than a check without result. Returns FALSE if nothing came. */
static gboolean
linger (TpsConnection *connection)
{
  guint64 n_before = connection->n_received;

  if (is_others_turn (connection) || !tps_connection_may_read (connection)
      || !tps_loop_expects_more (connection->loop) || !tps_scanner_is_idle (connection->scanner))
    return FALSE;
  tps_loop_yield (connection->loop);
  receive_all (connection);
  return connection->n_received != n_before;
}

/* Marks bytes that the channel has already taken from the socket as leftover, because the socket
 * does not become readable for them. */
static void
keep_unread (TpsConnection *connection)
{
  if (G_LIKELY (!connection->channel->has_unread))
    return;
  tps_mutex_lock (&connection->lock);
  connection->has_leftover = TRUE;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
}

/* Resumes sending, if it has waited for received bytes. */
static void
send_after_input (TpsConnection *connection)
{
  gboolean waits;

  if (G_LIKELY (connection->channel->ops->shake_hands == NULL))
    return;
  tps_mutex_lock (&connection->lock);
  waits = connection->needs_input;
  connection->needs_input = FALSE;
  tps_mutex_unlock (&connection->lock);
  if (waits)
    tps_connection_on_writable (connection);
}

static void
on_readable (TpsConnection *connection)
{
  guint n_lingered = 0;

  begin_turn (connection);
  receive_all (connection);
  while (n_lingered < MAX_LINGERED && linger (connection))
    n_lingered++;
  send_after_input (connection);
  keep_unread (connection);
}

void
tps_connection_continue_reading (gpointer data)
{
  g_autoptr (TpsConnection) connection = data;
  g_autoptr (GByteArray) leftover = NULL;
  gboolean allowed;

  tps_mutex_lock (&connection->lock);
  connection->continue_posted = FALSE;
  allowed = tps_connection_is_reading_allowed (connection);
  if (allowed)
    connection->has_leftover = FALSE;
  tps_connection_update_interest (connection);
  tps_mutex_unlock (&connection->lock);
  if (!allowed)
    return;
  leftover = g_steal_pointer (&connection->leftover);
  begin_turn (connection);
  if (leftover != NULL)
    {
      feed_corked (connection, leftover->data, leftover->len);
      forget (connection, leftover->data, leftover->len);
    }
  if (connection->channel->has_unread)
    receive_all (connection);
  keep_unread (connection);
}

void
tps_connection_on_ready (guint32 epoll_events, gpointer data)
{
  g_autoptr (TpsConnection) connection = tps_connection_ref (data);

  if (connection->opening)
    {
      tps_connection_go_on_opening (connection, epoll_events);
      return;
    }
  if ((epoll_events & EPOLLOUT) != 0)
    tps_connection_on_writable (connection);
  if (epoll_events == EPOLLOUT)
    return; /* not readable: a check would cost a system call for each piece that is sent */
  if (tps_connection_may_read (connection))
    on_readable (connection);
  else if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0)
    fail_receiving (connection, tps_connection_lost_error ("waiting", ECONNRESET));
  else if ((epoll_events & EPOLLRDHUP) != 0)
    note_half_closed (connection);
}
