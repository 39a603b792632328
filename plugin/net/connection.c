/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Receiving, on the loop's thread: recvmsg() into the body the scanner asks for, with a small chunk behind it for what
 * follows; without a body, into the chunk alone. A short read means the socket is empty, so a small call costs one system
 * call to receive. What the chunk still holds when reading is to stop is kept in `leftover`.
 *
 * Sending, on any thread: writers are queued; one thread at a time (`sending`) takes batches of them to sendmsg() with
 * the lock released. A writer with a file descriptor begins a batch, since a descriptor goes with the first byte of the
 * system call that sends it. What the socket does not take waits for EPOLLOUT. While the loop's thread hands out the messages of one
 * chunk it is corked, so that their answers leave together.
 *
 * The end, on the loop's thread: tear_down(), once, whoever asked for it. The descriptor is closed there, or by the thread that
 * is just sending.
 */

#include "plugin/net/connection.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/sync.h"

#define CHUNK_BYTES 4096
#define FAIR_BYTES ((gsize) 8 << 20) /* read or send at most so much before others get their turn */
#define BATCH_PIECES 64
#define MAX_DESCRIPTORS 16 /* with one recvmsg(): a flood of them must not use up the process's */
#define MIN_PROGRESS_BYTES \
  1024 /* less within the patience is a stall: a trickle must not hold memory */

/* How far something had come when it was last seen to move. */
typedef struct
{
  guint64 mark;
  gint64 since_ns;
} Progress;

struct TpsConnection
{
  TpsRefcount refcount;
  TpsLoop *loop;
  TpsConnectionEvents events;
  gpointer user_data;

  /* The loop's thread only. */
  TpsScanner *scanner;
  GByteArray *leftover;
  guint64 n_received; /* counts MIN_PROGRESS_BYTES more for every message */
  Progress receive_progress;
  Progress send_progress;
  gboolean started;
  gboolean gone;
  gboolean corked;

  atomic_bool may_read; /* set under the lock, see update_interest() */

  TpsMutex lock; /* guards everything below */
  gint fd;
  TpsWatch *watch;
  guint32 interest;
  gboolean paused;
  gboolean at_end; /* the peer sends no more */
  gboolean has_leftover;
  gboolean continue_posted;
  gboolean sending;
  gboolean blocked; /* the socket is full */
  gboolean close_when_sent;
  gboolean close_posted;
  gboolean dead;
  GError *close_error;
  GQueue queue; /* of TpsWriter, the first of them sent up to `n_first_sent` */
  gsize n_first_sent;
  gsize n_queued;
  gsize max_queued;
  guint64 n_sent;
};

/* ---- what the loop waits for ---------------------------------------------------------------- */

static void continue_reading (gpointer data);

static gboolean
is_reading_allowed (const TpsConnection *connection)
{
  return !connection->paused && !connection->at_end && !connection->close_when_sent
         && !connection->close_posted && !connection->dead
         && connection->n_queued <= connection->max_queued;
}

/* With the lock held, whenever something above has changed. What is left over comes before what the socket has. */
static void
update_interest (TpsConnection *connection)
{
  gboolean allowed = is_reading_allowed (connection);
  gboolean read = allowed && !connection->has_leftover;
  guint32 interest = (read ? (guint32) EPOLLIN : 0)
                     | (connection->blocked ? (guint32) EPOLLOUT : 0);

  atomic_store_explicit (&connection->may_read, read, memory_order_relaxed);
  if (connection->watch == NULL)
    return;
  if (interest != connection->interest)
    tps_loop_modify_watch (connection->loop, connection->watch, interest);
  connection->interest = interest;
  if (allowed && connection->has_leftover && !connection->continue_posted)
    {
      connection->continue_posted = TRUE;
      tps_loop_post (connection->loop, continue_reading, tps_connection_ref (connection));
    }
}

static gboolean
may_read (TpsConnection *connection)
{
  return atomic_load_explicit (&connection->may_read, memory_order_relaxed);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* With the lock held, and nobody sending. Frees the writers: what they release must not call back. */
static void
drop_socket (TpsConnection *connection)
{
  TpsWriter *out;

  while ((out = g_queue_pop_head (&connection->queue)) != NULL)
    tps_writer_free (out);
  connection->n_queued = 0;
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
  update_interest (connection);
  if (connection->sending)
    shutdown (connection->fd, SHUT_RDWR);
  else
    drop_socket (connection);
  tps_mutex_unlock (&connection->lock);

  /* Half a message goes now: calls that still run keep the connection, but not its memory. */
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

/* With the lock held. Takes over `error`; the first one counts. */
static void
post_close (TpsConnection *connection, GError *error)
{
  if (connection->dead || connection->close_posted)
    {
      g_clear_error (&error);
      return;
    }
  connection->close_posted = TRUE;
  connection->close_error = error;
  update_interest (connection);
  tps_loop_post (connection->loop, run_close, tps_connection_ref (connection));
}

static GError *
lost_error (const gchar *doing, gint code)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "connection lost while %s: %s", doing,
                      g_strerror (code));
}

/* ---- sending -------------------------------------------------------------------------------- */

/* Room for one descriptor, aligned as the kernel wants it. */
typedef union
{
  struct cmsghdr header;
  guint8 bytes[CMSG_SPACE (sizeof (gint))];
} OneDescriptor;

/* The descriptor of the writer at the head goes with its first byte, so with the first batch that carries any of it and
 * never again. */
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

/* The pieces of the writers at the head of the queue, without what has been sent. A writer with a descriptor begins a batch. */
static guint
gather (TpsConnection *connection, struct iovec *pieces)
{
  gsize n_skip = connection->n_first_sent;
  guint n_pieces = 0;

  for (const GList *item = connection->queue.head; item != NULL; item = item->next)
    {
      guint n_more;
      const struct iovec *more = tps_writer_get_pieces (item->data, &n_more, NULL);

      if (item != connection->queue.head && tps_writer_get_descriptor (item->data) >= 0)
        break;
      for (guint i = 0; i < n_more; i++)
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

/* Moves what has been sent completely from the queue to `sent`. */
static void
consume (TpsConnection *connection, gsize n_bytes, GQueue *sent)
{
  connection->n_queued -= n_bytes;
  connection->n_sent += n_bytes;
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
    }
  connection->n_first_sent = n_bytes;
}

static void
free_sent (GQueue *sent)
{
  TpsWriter *out;

  while ((out = g_queue_pop_head (sent)) != NULL)
    tps_writer_free (out);
}

static void
end_sending (TpsConnection *connection)
{
  connection->sending = FALSE;
  if (connection->dead)
    {
      drop_socket (connection);
      return;
    }
  update_interest (connection);
  if (connection->queue.head == NULL && connection->close_when_sent)
    post_close (connection, NULL);
}

/* One batch, the lock released meanwhile. FALSE when the socket takes no more. */
static gboolean
send_batch (TpsConnection *connection, GQueue *sent)
{
  struct iovec pieces[BATCH_PIECES];
  struct msghdr message = { .msg_iov = pieces, .msg_iovlen = gather (connection, pieces) };
  OneDescriptor room;
  gssize n_bytes;
  gint code;

  attach_descriptor (connection, &message, &room);
  tps_mutex_unlock (&connection->lock);
  free_sent (sent);
  n_bytes = sendmsg (connection->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  code = errno;
  tps_mutex_lock (&connection->lock);

  if (connection->dead)
    return FALSE;
  if (n_bytes >= 0)
    {
      consume (connection, (gsize) n_bytes, sent);
      return TRUE;
    }
  if (code == EAGAIN || code == EWOULDBLOCK)
    connection->blocked = TRUE;
  else if (code != EINTR)
    post_close (connection, lost_error ("sending", code));
  return code == EINTR;
}

/* With the lock held; released and taken again. */
static void
flush (TpsConnection *connection)
{
  GQueue sent = G_QUEUE_INIT;
  guint64 n_before;

  if (connection->sending || connection->blocked || connection->close_posted || connection->dead)
    return;
  connection->sending = TRUE;
  n_before = connection->n_sent;
  while (connection->queue.head != NULL && send_batch (connection, &sent))
    if (connection->n_sent - n_before >= FAIR_BYTES)
      {
        connection->blocked = TRUE; /* goes on from the loop */
        break;
      }
  end_sending (connection);
  if (sent.head == NULL)
    return;
  tps_mutex_unlock (&connection->lock);
  free_sent (&sent);
  tps_mutex_lock (&connection->lock);
}

void
tps_connection_send (TpsConnection *connection, TpsWriter *out)
{
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
  g_queue_push_tail (&connection->queue, out);
  connection->n_queued += n_bytes;
  if (connection->n_queued > connection->max_queued)
    update_interest (connection);
  if (!tps_loop_is_current (connection->loop) || !connection->corked)
    flush (connection);
  tps_mutex_unlock (&connection->lock);
}

static void
on_writable (TpsConnection *connection)
{
  tps_mutex_lock (&connection->lock);
  connection->blocked = FALSE;
  update_interest (connection);
  flush (connection);
  tps_mutex_unlock (&connection->lock);
}

/* What was queued under the cork leaves now. */
static void
uncork (TpsConnection *connection)
{
  connection->corked = FALSE;
  tps_mutex_lock (&connection->lock);
  flush (connection);
  tps_mutex_unlock (&connection->lock);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void
fail_receiving (TpsConnection *connection, GError *error)
{
  tps_mutex_lock (&connection->lock);
  post_close (connection, error);
  tps_mutex_unlock (&connection->lock);
}

static void
hand_out (TpsConnection *connection)
{
  TpsMessage *message;

  while ((message = tps_scanner_take (connection->scanner)) != NULL)
    {
      connection->n_received += MIN_PROGRESS_BYTES;
      connection->events.message (connection, message, connection->user_data);
    }
}

static void
keep_leftover (TpsConnection *connection, const guint8 *bytes, gsize n_bytes)
{
  g_byte_array_append (connection->leftover, bytes, (guint) n_bytes);
  tps_mutex_lock (&connection->lock);
  connection->has_leftover = TRUE;
  update_interest (connection);
  tps_mutex_unlock (&connection->lock);
}

static void
feed (TpsConnection *connection, const guint8 *bytes, gsize n_bytes)
{
  GError *error = NULL;
  gsize n_consumed;

  while (n_bytes > 0)
    {
      if (!may_read (connection))
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
  uncork (connection);
}

static void
on_end (TpsConnection *connection)
{
  GError *error = NULL;

  if (!tps_scanner_is_idle (connection->scanner))
    error = g_error_new_literal (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                                 "the peer closed the connection in the middle of a message");
  tps_mutex_lock (&connection->lock);
  connection->at_end = TRUE;
  if (error != NULL || connection->queue.head == NULL)
    post_close (connection, error);
  else
    connection->close_when_sent = TRUE;
  update_interest (connection);
  tps_mutex_unlock (&connection->lock);
}

/* FALSE when there is nothing to do with `n_bytes`: nothing came, or nothing will. */
static gboolean
received_any (TpsConnection *connection, gssize n_bytes, gint code)
{
  if (n_bytes > 0)
    return TRUE;
  if (n_bytes == 0)
    on_end (connection);
  else if (code != EAGAIN && code != EWOULDBLOCK && code != EINTR)
    fail_receiving (connection, lost_error ("receiving", code));
  return FALSE;
}

/* Room for the descriptors of one recvmsg(), aligned as the kernel wants it. */
typedef union
{
  struct cmsghdr header;
  guint8 bytes[CMSG_SPACE (MAX_DESCRIPTORS * sizeof (gint))];
} Descriptors;

static void
hand_out_descriptor (TpsConnection *connection, gint fd, gboolean complete)
{
  if (complete)
    connection->events.descriptor (connection, fd, connection->user_data);
  else
    close (fd);
}

/* FALSE when not all of them fit: there is no telling which are missing, so none is handed out. */
static gboolean
take_descriptors (TpsConnection *connection, struct msghdr *message)
{
  gboolean complete = (message->msg_flags & MSG_CTRUNC) == 0;
  gint fd;

  if (message->msg_control == NULL)
    return TRUE;
  for (struct cmsghdr *at = CMSG_FIRSTHDR (message); at != NULL; at = CMSG_NXTHDR (message, at))
    if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS)
      for (gsize i = 0; CMSG_LEN ((i + 1) * sizeof fd) <= at->cmsg_len; i++)
        {
          memcpy (&fd, CMSG_DATA (at) + i * sizeof fd, sizeof fd);
          hand_out_descriptor (connection, fd, complete);
        }
  if (!complete)
    fail_receiving (connection, g_error_new (TPS_ERROR, TPS_ERROR_PROTOCOL,
                                             "the peer sent more than %d file descriptors at once, "
                                             "or this process has no room for them",
                                             MAX_DESCRIPTORS));
  return complete;
}

/* One recvmsg(). Returns the bytes it brought, 0 when the socket is empty for now. */
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
  if (connection->events.descriptor != NULL)
    {
      message.msg_control = &room;
      message.msg_controllen = sizeof room;
    }
  n_bytes = recvmsg (connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (!received_any (connection, n_bytes, errno) || !take_descriptors (connection, &message))
    return 0;

  connection->n_received += (guint64) n_bytes;
  n_body = MIN (n_body, (gsize) n_bytes);
  if (n_body > 0 && !tps_scanner_body_received (connection->scanner, n_body, &error))
    {
      fail_receiving (connection, error);
      return 0;
    }
  hand_out (connection);
  feed_corked (connection, chunk, (gsize) n_bytes - n_body);
  return (gsize) n_bytes < n_asked ? 0 : (gsize) n_bytes;
}

static void
on_readable (TpsConnection *connection)
{
  gsize n_total = 0;
  gsize n_bytes;

  while (n_total < FAIR_BYTES && may_read (connection) && (n_bytes = receive (connection)) > 0)
    n_total += n_bytes;
}

static void
continue_reading (gpointer data)
{
  g_autoptr (TpsConnection) connection = data;
  g_autoptr (GByteArray) leftover = NULL;
  gboolean allowed;

  tps_mutex_lock (&connection->lock);
  connection->continue_posted = FALSE;
  allowed = is_reading_allowed (connection);
  if (allowed)
    connection->has_leftover = FALSE;
  update_interest (connection);
  tps_mutex_unlock (&connection->lock);
  if (!allowed)
    return;
  leftover = g_steal_pointer (&connection->leftover);
  connection->leftover = g_byte_array_new ();
  feed_corked (connection, leftover->data, leftover->len);
}

static void
on_ready (guint32 epoll_events, gpointer data)
{
  g_autoptr (TpsConnection) connection = tps_connection_ref (data);

  if ((epoll_events & EPOLLOUT) != 0)
    on_writable (connection);
  if (may_read (connection))
    on_readable (connection);
  else if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0)
    fail_receiving (connection, lost_error ("waiting", ECONNRESET));
}

/* ---- life ----------------------------------------------------------------------------------- */

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
  connection->events = *events;
  connection->user_data = user_data;
  connection->scanner = tps_scanner_new (options);
  connection->leftover = g_byte_array_new ();
  connection->max_queued = G_MAXSIZE;
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
    drop_socket (connection);
  g_clear_error (&connection->close_error);
  g_clear_pointer (&connection->scanner, tps_scanner_free);
  g_byte_array_unref (connection->leftover);
  tps_mutex_clear (&connection->lock);
  g_free (connection);
}

void
tps_connection_start (TpsConnection *connection)
{
  if (connection->gone)
    return;
  connection->started = TRUE;
  tps_connection_ref (connection);
  tps_mutex_lock (&connection->lock);
  connection->interest = EPOLLIN;
  connection->watch = tps_loop_add_watch (connection->loop, connection->fd, connection->interest,
                                          on_ready, connection);
  update_interest (connection);
  tps_mutex_unlock (&connection->lock);
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
tps_connection_set_max_queued (TpsConnection *connection, gsize n_bytes)
{
  tps_mutex_lock (&connection->lock);
  connection->max_queued = n_bytes;
  update_interest (connection);
  tps_mutex_unlock (&connection->lock);
}

static void
set_paused (TpsConnection *connection, gboolean paused)
{
  tps_mutex_lock (&connection->lock);
  connection->paused = paused;
  update_interest (connection);
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
  post_close (connection, NULL);
  tps_mutex_unlock (&connection->lock);
}

void
tps_connection_close_when_sent (TpsConnection *connection)
{
  tps_mutex_lock (&connection->lock);
  connection->close_when_sent = TRUE;
  if (connection->queue.head == NULL && !connection->sending)
    post_close (connection, NULL);
  tps_mutex_unlock (&connection->lock);
}

/* ---- stalls --------------------------------------------------------------------------------- */

static gboolean
is_stalled (Progress *progress, gboolean busy, guint64 position, gint64 now_ns, gint64 patience_ns)
{
  if (!busy || progress->since_ns == 0 || position - progress->mark >= MIN_PROGRESS_BYTES)
    {
      progress->mark = position;
      progress->since_ns = now_ns;
      return FALSE;
    }
  return now_ns - progress->since_ns >= patience_ns;
}

void
tps_connection_check_progress (TpsConnection *connection, gint64 now_ns, gint64 patience_ns)
{
  gboolean receiving = may_read (connection) && !tps_scanner_is_idle (connection->scanner);
  const gchar *what = NULL;

  tps_mutex_lock (&connection->lock);
  if (is_stalled (&connection->receive_progress, receiving, connection->n_received, now_ns,
                  patience_ns))
    what = "the peer does not go on with a message";
  if (is_stalled (&connection->send_progress, connection->queue.head != NULL, connection->n_sent,
                  now_ns, patience_ns))
    what = "the peer does not read";
  if (what != NULL)
    post_close (connection, g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                                         "%s: less than %d bytes in %.0f s", what,
                                         MIN_PROGRESS_BYTES, (gdouble) patience_ns / 1e9));
  tps_mutex_unlock (&connection->lock);
}
