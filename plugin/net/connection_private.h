/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the files of a connection share; nobody else includes this.
 *
 *   connection.c           what the loop waits for, the end, pausing, stalls
 *   connection_open.c      from the start to an open channel
 *   connection_send.c      writers queued, gathered into sendmsg(), corked
 *   connection_receive.c   received into bodies, messages and descriptors handed out
 *
 * The end, on the loop's thread: tear_down(), once, whoever asked for it. The descriptor is closed
 * there, or by the thread that is just sending.
 */

#pragma once

#include <stdatomic.h>

#include "plugin/net/connection.h"
#include "plugin/net/net_channel.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

/* Read or send at most so much before others get their turn. */
#define TPS_CONNECTION_FAIR_BYTES ((gsize) 8 << 20)
#define TPS_CONNECTION_FAIR_MESSAGES 256
/* The same as time: messages may be costly, and so may bytes that the scanner walks over. A
 * connection waits at most so long for each of the others of its loop. The clock is read after
 * every second message, after every 16 KiB that go through the scanner, and after every 512 KiB of
 * bodies. */
#define TPS_CONNECTION_FAIR_NS ((gint64) 200000)
#define TPS_CONNECTION_LOOK_MESSAGES 2
#define TPS_CONNECTION_LOOK_BYTES ((gsize) 16 << 10)
#define TPS_CONNECTION_BODY_COST 32 /* bytes of a body that take as long as one for the scanner */

/* What a queued writer counts beside its bytes: a connection that takes none of its replies is not
 * read when four thousand small ones wait. */
#define TPS_CONNECTION_WRITER_BYTES ((gsize) 16 << 10)

/* Less within the patience is a stall: a trickle must not hold memory. Of what holds much of it,
 * one part of so many. */
#define TPS_CONNECTION_MIN_PROGRESS_BYTES 1024
#define TPS_CONNECTION_MIN_PROGRESS_PART 64

/* How far something had come when it was last seen to move. */
typedef struct
{
  guint64 mark;
  gint64 since_ns;
} TpsProgress;

struct TpsConnection
{
  TpsRefcount refcount;
  TpsLoop *loop;
  TpsConnectionEvents events;
  gpointer user_data;
  TpsNetChannel *channel;
  TpsCounter *received_bytes, *sent_bytes; /* borrowed; NULL = none */

  /* The loop's thread only. */
  TpsScanner *scanner;
  GByteArray *leftover; /* NULL = none */
  guint64 n_received;   /* counts TPS_CONNECTION_MIN_PROGRESS_BYTES more for every message */
  gsize n_turn_bytes;   /* received in this turn of the loop */
  guint n_turn_messages;
  /* bytes of the turn that went through the scanner, and a part of those of bodies */
  gsize n_turn_scanned;
  guint n_next_look;       /* messages of the turn after which the clock is read */
  gsize n_next_look_bytes; /* the same in scanned bytes */
  gint64 turn_began_ns;    /* 0 = it has not been looked at yet */
  TpsProgress receive_progress;
  TpsProgress send_progress;
  TpsProgress half_closed_progress;
  TpsProgress opening_progress;
  gboolean started;
  gboolean gone;
  gboolean corked;
  gboolean
      takes_descriptors; /* those that are expected, or those that the kernel does not refuse */

  atomic_ullong n_received_bytes; /* changed by the loop's thread alone */
  atomic_bool may_read;           /* set under the lock, see tps_connection_update_interest() */

  TpsMutex lock; /* guards everything below */
  gint fd;
  TpsWatch *watch;
  guint32 interest;
  gboolean opening;         /* the channel is not open yet */
  guint32 opening_interest; /* the events that the loop waits for meanwhile */
  gboolean paused;
  gboolean half_closed;  /* the peer sends no more */
  gboolean at_end;       /* and all that it has sent has been read */
  gboolean has_leftover; /* in `leftover`, or in the channel */
  gboolean continue_posted;
  gboolean sending;
  gboolean blocked;         /* the socket is full, or: */
  gboolean needs_input;     /* nothing can be sent before something has been received */
  gboolean receive_blocked; /* nothing can be received before the socket is writable */
  gboolean close_when_sent;
  gboolean close_posted;
  gboolean dead;
  GError *close_error;
  GQueue queue; /* of TpsWriter by their own links, the first of them sent up to `n_first_sent` */
  gsize n_first_sent;
  /* of the first writer: those before it, of `n_before_piece` bytes, have been sent */
  guint first_piece;
  gsize n_before_piece;
  gsize n_queued;
  gsize max_queued;
  TpsBudget *replies; /* a reference; NULL = without a limit */
  guint64 n_sent;
};

/* ---- connection.c --------------------------------------------------------------------------- */

/* With the lock held, whenever something that it guards has changed. What is left over comes before
 * what the socket has. */
void tps_connection_update_interest (TpsConnection *connection);

/* With the lock held. */
gboolean tps_connection_is_reading_allowed (const TpsConnection *connection);

/* With the lock held. */
gboolean tps_connection_is_queue_full (const TpsConnection *connection);

static inline gboolean
tps_connection_may_read (TpsConnection *connection)
{
  return atomic_load_explicit (&connection->may_read, memory_order_relaxed);
}

/* With the lock held. Takes over `error`; the first one counts. */
void tps_connection_post_close (TpsConnection *connection, GError *error);

/* "connection lost while `doing`: …" */
GError *tps_connection_lost_error (const gchar *doing, gint code);

/* The same for a failure of the channel, which may know more. */
GError *tps_connection_channel_error (TpsConnection *connection, const gchar *doing, gint code);

/* NULL: the queue is empty. */
static inline TpsWriter *
tps_connection_pop_writer (GQueue *queue)
{
  GList *link = g_queue_pop_head_link (queue);

  return link != NULL ? link->data : NULL;
}

/* With the lock held, and nobody sending. Frees the writers: what they release must not call
 * back. */
void tps_connection_drop_socket (TpsConnection *connection);

/* ---- connection_open.c ---------------------------------------------------------------------- */

gboolean tps_connection_must_open (const TpsConnection *connection);

/* The start has come, or the event that it waited for. The loop's thread. */
void tps_connection_go_on_opening (TpsConnection *connection, guint32 epoll_events);

/* ---- connection_send.c ---------------------------------------------------------------------- */

/* With the lock held: the end of the time in which `sending` was set, and the socket used
 * without the lock. */
void tps_connection_end_sending (TpsConnection *connection);

/* The loop's thread. */
void tps_connection_on_writable (TpsConnection *connection);

/* While the loop's thread works through what came in, what it answers is queued; uncork sends
 * it. */
void tps_connection_uncork (TpsConnection *connection);

/* ---- connection_receive.c ------------------------------------------------------------------- */

/* The watch's function. */
void tps_connection_on_ready (guint32 epoll_events, gpointer data);

/* Posted; takes over a reference. Goes on with what was left over. */
void tps_connection_continue_reading (gpointer data);

G_END_DECLS
