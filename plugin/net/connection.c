/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/connection.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/net/descriptors.h"
#include "plugin/net/net_channel.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* Limit of the bytes that a connection receives or sends in one turn of the loop. */
#define FAIR_BYTES ((gsize) 8 << 20)
#define FAIR_MESSAGES 256
/* Time limit of a connection in one turn, because messages and scanned bytes may be costly. It
 * bounds the delay that a connection causes to the other connections of its loop. The clock is read
 * after every second message, after every 16 KiB that the scanner processes, and after every 512
 * KiB of bodies. */
#define FAIR_NS ((gint64) 200000)
#define LOOK_MESSAGES 2
#define LOOK_BYTES ((gsize) 16 << 10)
#define BODY_COST 32 /* body bytes that take as long as one scanned byte */

/* The charge of a queued writer in addition to its bytes. It limits the number of small replies
 * that are queued for a peer that does not read them: about four thousand with a limit of 64
 * MiB. */
#define WRITER_BYTES ((gsize) 16 << 10)

/* A connection is stalled if it moves fewer bytes than this within the time limit, so a slow
 * trickle of bytes cannot hold memory. A large body or queue must move by at least its size divided
 * by MIN_PROGRESS_PART. */
#define MIN_PROGRESS_BYTES 1024
#define MIN_PROGRESS_PART 64

/* A position, and the time at which it last changed. */
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
  TpsNetChannel *channel;
  TpsCounter *received_bytes, *sent_bytes; /* borrowed; NULL = none */

  /* Only used on the loop's thread: */
  TpsScanner *scanner;
  GByteArray *leftover; /* NULL = none */
  guint64 n_received;   /* plus MIN_PROGRESS_BYTES for every message */
  gsize n_turn_bytes;   /* received in this turn of the loop */
  guint n_turn_messages;
  /* bytes of the turn that the scanner processed, plus a share of those of bodies */
  gsize n_turn_scanned;
  guint n_next_look;       /* the clock is read again when n_turn_messages is this */
  gsize n_next_look_bytes; /* the clock is read again when n_turn_scanned is this */
  gint64 turn_began_ns;    /* 0 = the clock has not been read yet */
  Progress receive_progress;
  Progress send_progress;
  Progress half_closed_progress;
  Progress opening_progress;
  gboolean started;
  gboolean gone;
  gboolean corked;
  gboolean takes_descriptors; /* descriptors are expected, or the kernel cannot refuse them */

  atomic_ullong n_received_bytes; /* only changed by the loop's thread */
  atomic_bool forgets;            /* the received bytes contain a secret */
  atomic_bool may_read;           /* set under the lock, see update_interest() */

  TpsMutex lock; /* guards everything below */
  gint fd;
  TpsWatch *watch;
  guint32 interest;
  gboolean opening;         /* the channel is not open yet */
  guint32 opening_interest; /* events to wait for while `opening` is set */
  gboolean paused;
  gboolean half_closed;  /* the peer sends no more */
  gboolean at_end;       /* all bytes of the peer have been read */
  gboolean has_leftover; /* in `leftover`, or in the channel */
  gboolean continue_posted;
  gboolean sending;
  gboolean blocked;         /* nothing can be sent now */
  gboolean needs_input;     /* if blocked: because the channel must receive before it can send */
  gboolean receive_blocked; /* the channel must send before it can receive */
  gboolean close_when_sent;
  gboolean close_posted;
  gboolean dead;
  GError *close_error;
  GQueue queue; /* of TpsWriter by their own links; the first has been sent up to `n_first_sent` */
  gsize n_first_sent;
  /* position in the first writer: earlier pieces, of `n_before_piece` bytes, have been sent */
  guint first_piece;
  gsize n_before_piece;
  gsize n_queued;
  gsize max_queued;
  TpsBudget *replies; /* a reference; NULL = no limit */
  guint64 n_sent;
};

static void post_close (TpsConnection *connection, GError *error);
static void continue_reading (gpointer data);

/* ---- the plain channel ----------------------------------------------------------------------- */

static gssize
receive_plain (TpsNetChannel *channel, gint fd, struct msghdr *message)
{
  return recvmsg (fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

static gssize
send_plain (TpsNetChannel *channel, gint fd, const struct msghdr *message)
{
  return sendmsg (fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static const TpsNetChannelOps plain_ops = { .receive = receive_plain, .send = send_plain };

TpsNetChannel tps_plain_channel = { .ops = &plain_ops };

/* ---- interest in events --------------------------------------------------------------------- */

/* Returns TRUE if the socket may be read now; a snapshot. Thread: any. */
static gboolean
may_read (TpsConnection *connection)
{
  return atomic_load_explicit (&connection->may_read, memory_order_relaxed);
}

/* Returns TRUE if the queue exceeds its limit or the free bytes of `replies`. The lock must be
 * held. */
static gboolean
is_queue_full (const TpsConnection *connection)
{
  gsize n_bytes = connection->n_queued + (gsize) connection->queue.length * WRITER_BYTES;

  return n_bytes > 0
         && (n_bytes > connection->max_queued
             || n_bytes > tps_budget_get_free (connection->replies));
}

/* Returns TRUE if received bytes may be processed now. The lock must be held. */
static gboolean
is_reading_allowed (const TpsConnection *connection)
{
  return !connection->opening && !connection->paused && !connection->at_end
         && !connection->receive_blocked && !connection->close_when_sent
         && !connection->close_posted && !connection->dead && !is_queue_full (connection);
}

/* Watches the socket for the events that the current state needs, and posts the processing of
 * leftover bytes, which precedes reads of the socket. Must be called, with the lock held, after
 * every change of the state that the lock guards. */
static void
update_interest (TpsConnection *connection)
{
  gboolean allowed = is_reading_allowed (connection);
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
    {
      GError *error = NULL;

      connection->interest = interest;
      if (!tps_loop_modify_watch (connection->loop, connection->watch, interest, &error))
        post_close (connection, error);
    }
  if (allowed && connection->has_leftover && !connection->continue_posted)
    {
      connection->continue_posted = TRUE;
      tps_loop_post (connection->loop, continue_reading, tps_connection_ref (connection));
    }
}

/* ---- closing -------------------------------------------------------------------------------- */

static void
free_writers (GQueue *queue)
{
  GList *link;

  while ((link = g_queue_pop_head_link (queue)) != NULL)
    tps_writer_free (link->data);
}

/* Closes the socket and frees the queued writers, whose release functions must not call back.
 * The lock must be held, and no thread may be sending. */
static void
drop_socket (TpsConnection *connection)
{
  free_writers (&connection->queue);
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

/* Every close ends here, once, on the loop's thread. If a thread is sending, that thread closes the
 * descriptor. `data` is a reference to the connection. */
static void
tear_down (gpointer data)
{
  g_autoptr (TpsConnection) connection = data;

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
    shutdown (connection->fd, SHUT_RDWR); /* the sending thread then drops the socket */
  else
    drop_socket (connection);
  tps_mutex_unlock (&connection->lock);

  /* A partial message is freed now. Calls that still run keep the connection alive, but not the
   * memory of the message. */
  g_clear_pointer (&connection->scanner, tps_scanner_free);
  connection->events.closed (connection, connection->close_error, connection->user_data);
  if (connection->started)
    tps_connection_unref (connection);
}

/* Posts the closing of the connection to the loop. Takes ownership of `error`; only the error of
 * the first call is reported. The lock must be held. */
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
  tps_loop_post (connection->loop, tear_down, tps_connection_ref (connection));
}

/* As post_close(), without the lock. */
static void
fail (TpsConnection *connection, GError *error)
{
  TPS_LOCK_SCOPE (&connection->lock);
  post_close (connection, error);
}

/* Returns the error CONNECTION_LOST, "connection lost while `doing`: …", with the text of `code`
 * (an errno). The caller owns the error. */
static GError *
lost_error (const gchar *doing, gint code)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "connection lost while %s: %s", doing,
                      g_strerror (code));
}

/* As lost_error(), for a failure of the channel. If `code` is EPROTO and the channel has a
 * reason, the error is PROTOCOL, with that reason. */
static GError *
channel_error (TpsConnection *connection, const gchar *doing, gint code)
{
  TpsNetChannel *channel = connection->channel;

  if (code != EPROTO || channel->ops->get_failure == NULL)
    return lost_error (doing, code);
  return g_error_new (TPS_ERROR, TPS_ERROR_PROTOCOL, "the encrypted connection failed: %s",
                      channel->ops->get_failure (channel));
}

/* ---- sending -------------------------------------------------------------------------------- */

/* Sending, from any thread. Writers are queued. One thread at a time (`sending`) passes batches of
 * them to the channel, with the lock released. A writer with a file descriptor begins a batch,
 * because a descriptor is sent with the first byte of a system call. If the socket is full, the
 * remaining bytes wait for EPOLLOUT. While the loop's thread delivers the messages of one chunk,
 * the connection is corked, so that their replies are sent together. */

#define BATCH_PIECES 64

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

/* Clears `sending`, which a thread sets while it uses the socket without the lock. If the
 * connection was torn down meanwhile, drops the socket. The lock must be held. */
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

/* Sends one batch. The lock is released during the system call. Returns FALSE if the socket takes
 * no more bytes. If it took fewer bytes than it was given, it is full, and another attempt would
 * only cost a system call. */
static gboolean
send_batch (TpsConnection *connection, GQueue *sent)
{
  struct iovec pieces[BATCH_PIECES];
  struct msghdr message = { .msg_iov = pieces, .msg_iovlen = gather (connection, pieces) };
  TpsDescriptorRoom room;
  gsize n_asked = tps_net_count_bytes (&message);
  gssize n_bytes;
  gint code, fd = -1;

  /* A descriptor is sent with the first byte of its writer, so only the first batch with bytes of
   * this writer carries it. */
  if (connection->queue.head != NULL && connection->n_first_sent == 0)
    fd = tps_writer_get_descriptor (connection->queue.head->data);
  if (fd >= 0)
    tps_descriptors_attach (fd, &message, &room);
  tps_mutex_unlock (&connection->lock);
  free_writers (sent);
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
    post_close (connection, channel_error (connection, "sending", code));
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
    if (connection->n_sent - n_before >= FAIR_BYTES)
      {
        connection->blocked = TRUE; /* the loop continues when the socket is writable */
        break;
      }
  end_sending (connection);
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
  if (is_queue_full (connection))
    update_interest (connection);
  if (!tps_loop_is_current (connection->loop) || !connection->corked)
    flush (connection, &sent);
  tps_mutex_unlock (&connection->lock);
  free_writers (&sent);
}

/* Sends queued writers, because the socket is writable. Thread: the loop's. */
static void
on_writable (TpsConnection *connection)
{
  GQueue sent = G_QUEUE_INIT;

  tps_mutex_lock (&connection->lock);
  connection->blocked = FALSE;
  connection->receive_blocked = FALSE;
  flush (connection, &sent); /* also sets the events to wait for, mostly EPOLLOUT again */
  tps_mutex_unlock (&connection->lock);
  free_writers (&sent);
}

/* ---- opening -------------------------------------------------------------------------------- */

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

/* Opens the connection and sends the queued writers. Bytes that came after the handshake are in the
 * channel or in the socket. */
static void
be_open (TpsConnection *connection)
{
  tps_mutex_lock (&connection->lock);
  connection->opening = FALSE;
  connection->has_leftover = connection->channel->has_unread;
  update_interest (connection);
  tps_mutex_unlock (&connection->lock);
  on_writable (connection);
}

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
  end_sending (connection);
  is_gone = connection->dead || connection->close_posted;
  tps_mutex_unlock (&connection->lock);
  if (is_gone)
    g_clear_error (&step->error);
  else if (step->result == TPS_HANDSHAKE_FAILED)
    fail (connection, g_steal_pointer (&step->error));
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
    update_interest (connection);
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

/* Chooses the final channel. Returns FALSE if it is not known yet, or if the recognition failed. */
static gboolean
recognize (TpsConnection *connection)
{
  GError *error = NULL;
  TpsNetChannel *channel = connection->channel->ops->recognize (connection->channel, connection->fd,
                                                                &error);

  if (error != NULL)
    fail (connection, error);
  if (channel == NULL)
    return FALSE;
  TPS_LOCK_SCOPE (&connection->lock);
  connection->channel = channel;
  return TRUE;
}

/* Performs the next step of opening the channel, after the start or after the event for which
 * the channel waited. Thread: the loop's. */
static void
go_on_opening (TpsConnection *connection, guint32 epoll_events)
{
  if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0)
    {
      fail (connection, lost_error ("opening", ECONNRESET));
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

/* ---- reception ------------------------------------------------------------------------------ */

/* Reception, on the loop's thread. The channel receives into the body that the scanner needs, and
 * then into a small chunk for the bytes after the body. Without a body, it receives only into the
 * chunk. A short read means that the socket is empty, so the reception of a small call costs one
 * system call. If reading must stop, the rest of the chunk is kept in `leftover`. */

#define CHUNK_BYTES 4096
#define MAX_LINGERED 32 /* per turn of the loop, because the loop's timers wait meanwhile */
/* The most descriptors that are received with one recvmsg(), so that a peer cannot use up the
 * process's descriptors. */
#define MAX_DESCRIPTORS 16

static void
hand_out (TpsConnection *connection)
{
  TpsMessage *message;

  while ((message = tps_scanner_take (connection->scanner)) != NULL)
    {
      connection->n_received += MIN_PROGRESS_BYTES;
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
  TPS_LOCK_SCOPE (&connection->lock);
  connection->has_leftover = TRUE;
  update_interest (connection);
}

static void
begin_turn (TpsConnection *connection)
{
  connection->n_turn_bytes = 0;
  connection->n_turn_messages = 0;
  connection->n_turn_scanned = 0;
  connection->n_next_look = LOOK_MESSAGES;
  connection->n_next_look_bytes = LOOK_BYTES;
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
  else if (now_ns - connection->turn_began_ns >= FAIR_NS)
    return TRUE;
  connection->n_next_look = connection->n_turn_messages + LOOK_MESSAGES;
  connection->n_next_look_bytes = connection->n_turn_scanned + LOOK_BYTES;
  return FALSE;
}

static void
feed (TpsConnection *connection, const guint8 *bytes, gsize n_bytes)
{
  GError *error = NULL;
  gsize n_consumed;

  while (n_bytes > 0)
    {
      if (!may_read (connection) || is_late (connection))
        {
          keep_leftover (connection, bytes, n_bytes);
          return;
        }
      if (!tps_scanner_feed (connection->scanner, bytes, n_bytes, &n_consumed, &error))
        {
          fail (connection, error);
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
  GQueue sent = G_QUEUE_INIT;

  if (n_bytes == 0)
    return;
  connection->corked = TRUE; /* so replies are only queued meanwhile */
  feed (connection, bytes, n_bytes);
  connection->corked = FALSE;
  tps_mutex_lock (&connection->lock);
  flush (connection, &sent);
  tps_mutex_unlock (&connection->lock);
  free_writers (&sent);
}

/* Records that the peer sends no more. It may still receive. */
static void
note_half_closed (TpsConnection *connection)
{
  gboolean is_news;

  tps_mutex_lock (&connection->lock);
  is_news = !connection->half_closed;
  connection->half_closed = TRUE;
  update_interest (connection);
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
      fail (connection,
            g_error_new_literal (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                                 "the peer closed the connection in the middle of a message"));
      return;
    }
  tps_mutex_lock (&connection->lock);
  connection->at_end = TRUE;
  update_interest (connection);
  tps_mutex_unlock (&connection->lock);
  if (connection->events.ended != NULL)
    connection->events.ended (connection, connection->user_data);
  else
    tps_connection_close_when_sent (connection);
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
    fail (connection, channel_error (connection, "receiving", code));
  else if (connection->channel->receive_needs_output)
    {
      TPS_LOCK_SCOPE (&connection->lock);
      connection->receive_blocked = TRUE;
      update_interest (connection);
    }
  return FALSE;
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
  n = tps_descriptors_list (message, fds);
  if (truncated || n > MAX_DESCRIPTORS || (n > 0 && connection->events.descriptor == NULL))
    {
      tps_descriptors_discard (fds, n);
      fail (connection, new_descriptor_error (connection));
      return FALSE;
    }
  for (gsize i = 0; i < n; i++)
    connection->events.descriptor (connection, fds[i], connection->user_data);
  return TRUE;
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
  TpsDescriptorRoom room;
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

  atomic_store_explicit (&connection->n_received_bytes,
                         atomic_load_explicit (&connection->n_received_bytes, memory_order_relaxed)
                             + (guint64) n_bytes,
                         memory_order_relaxed);
  tps_counter_add (connection->received_bytes, (guint64) n_bytes);
  connection->n_received += (guint64) n_bytes;
  connection->n_turn_bytes += (gsize) n_bytes;
  n_body = MIN (n_body, (gsize) n_bytes);
  connection->n_turn_scanned += n_body / BODY_COST + connection->channel->cost;
  if (n_body > 0 && !tps_scanner_body_received (connection->scanner, n_body, &error))
    {
      fail (connection, error);
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
  return connection->n_turn_bytes >= FAIR_BYTES || connection->n_turn_messages >= FAIR_MESSAGES
         || is_late (connection);
}

static void
receive_all (TpsConnection *connection)
{
  while (!is_others_turn (connection) && may_read (connection))
    if (receive (connection) == 0)
      return;
}

/* Yields to the peer if it waits for this core, and checks for its next message. A sleep and a
 * wake-up cost more than a check without result. Returns FALSE if nothing came. */
static gboolean
linger (TpsConnection *connection)
{
  guint64 n_before = connection->n_received;

  if (is_others_turn (connection) || !may_read (connection)
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
  TPS_LOCK_SCOPE (&connection->lock);
  connection->has_leftover = TRUE;
  update_interest (connection);
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
    on_writable (connection);
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

/* Processes leftover bytes. Is posted to the loop; `data` is a reference to the connection,
 * which the function releases. */
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

/* The callback of the watch; `data` is the connection. Thread: the loop's. */
static void
on_ready (guint32 epoll_events, gpointer data)
{
  g_autoptr (TpsConnection) connection = tps_connection_ref (data);

  if (connection->opening)
    {
      go_on_opening (connection, epoll_events);
      return;
    }
  if ((epoll_events & EPOLLOUT) != 0)
    on_writable (connection);
  if (epoll_events == EPOLLOUT)
    return; /* not readable: a check would cost a system call for each piece that is sent */
  if (may_read (connection))
    on_readable (connection);
  else if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0)
    fail (connection, lost_error ("waiting", ECONNRESET));
  else if ((epoll_events & EPOLLRDHUP) != 0)
    note_half_closed (connection);
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

TPS_DEFINE_REF (TpsConnection, tps_connection)

void
tps_connection_unref (TpsConnection *connection)
{
  if (!tps_refcount_dec (&connection->refcount))
    return;
  if (connection->fd >= 0)
    drop_socket (connection);
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
  const TpsNetChannelOps *ops = connection->channel->ops;
  GError *error = NULL;
  gboolean opens;

  if (connection->gone)
    return;
  connection->started = TRUE;
  tps_connection_ref (connection);
  tps_mutex_lock (&connection->lock);
  connection->opening = ops->recognize != NULL || ops->shake_hands != NULL;
  connection->opening_interest = EPOLLIN;
  connection->interest = connection->opening ? EPOLLIN : EPOLLIN | EPOLLRDHUP;
  connection->watch = tps_loop_add_watch (connection->loop, connection->fd, connection->interest,
                                          on_ready, connection, &error);
  if (connection->watch != NULL)
    update_interest (connection);
  else
    post_close (connection, error);
  opens = connection->opening;
  tps_mutex_unlock (&connection->lock);
  if (opens)
    go_on_opening (connection, 0);
}

gsize
tps_connection_get_n_bytes_queued (TpsConnection *connection)
{
  TPS_LOCK_SCOPE (&connection->lock);
  return connection->n_queued;
}

void
tps_connection_get_traffic (TpsConnection *connection, TpsConnectionTraffic *traffic)
{
  traffic->n_received_bytes = atomic_load_explicit (&connection->n_received_bytes,
                                                    memory_order_relaxed);
  TPS_LOCK_SCOPE (&connection->lock);
  traffic->n_sent_bytes = connection->n_sent;
  traffic->n_queued_bytes = connection->n_queued;
  traffic->is_encrypted = connection->channel->encrypts;
  traffic->is_half_closed = connection->half_closed;
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
  TPS_LOCK_SCOPE (&connection->lock);
  tps_budget_unref (connection->replies);
  connection->replies = tps_budget_ref (replies);
  connection->max_queued = n_bytes;
  update_interest (connection);
}

void
tps_connection_forget_received (TpsConnection *connection)
{
  atomic_store_explicit (&connection->forgets, TRUE, memory_order_relaxed);
}

static void
set_paused (TpsConnection *connection, gboolean paused)
{
  TPS_LOCK_SCOPE (&connection->lock);
  connection->paused = paused;
  update_interest (connection);
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
  TPS_LOCK_SCOPE (&connection->lock);
  post_close (connection, NULL);
}

void
tps_connection_close_when_sent (TpsConnection *connection)
{
  TPS_LOCK_SCOPE (&connection->lock);
  connection->close_when_sent = TRUE;
  if (connection->queue.head == NULL && !connection->sending)
    post_close (connection, NULL);
}

/* ---- stalls --------------------------------------------------------------------------------- */

/* Returns the progress, in bytes, that is required while `n_bytes` still have to arrive or to be
 * sent. */
static guint64
get_min_progress (gsize n_bytes)
{
  return MAX (MIN_PROGRESS_BYTES, n_bytes / MIN_PROGRESS_PART);
}

/* Returns TRUE if `position` has not advanced by `min_progress` for `patience_ns`. Time counts only
 * while the connection is busy. */
static gboolean
is_stalled (Progress *progress, gboolean busy, guint64 position, guint64 min_progress,
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
  post_close (connection, g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                                       "%s: expected %" G_GUINT64_FORMAT " or more bytes in %.0f s",
                                       stall, min_progress, (gdouble) patience_ns / 1e9));
}

void
tps_connection_check_progress (TpsConnection *connection, gint64 now_ns,
                               const TpsConnectionPatience *patience)
{
  gint64 patience_ns = patience->moving_ns;
  gint64 opening_ns = patience->opening_ns > 0 ? patience->opening_ns : patience_ns;
  gboolean receiving = may_read (connection) && !tps_scanner_is_idle (connection->scanner);
  guint64 min_received, min_sent;
  gsize n_missing = 0;
  guint8 *dest;

  if (receiving && !tps_scanner_get_body (connection->scanner, &dest, &n_missing))
    n_missing = 0;
  min_received = get_min_progress (n_missing);
  TPS_LOCK_SCOPE (&connection->lock);
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
    post_close (connection, g_error_new (TPS_ERROR, TPS_ERROR_CONNECTION_LOST,
                                         "the TLS handshake was not complete after %.0f s",
                                         (gdouble) opening_ns / 1e9));
}
