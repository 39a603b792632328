/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state that the files of a connection share. Private to them.
 *
 *   connection.c           events of the loop, closing, pausing, stalls
 *   connection_open.c      from the start to an open channel
 *   connection_send.c      queued writers, gathered into sendmsg(), corked
 *   connection_receive.c   reception into bodies; delivery of messages and descriptors
 *
 * Every close ends in tear_down(), which runs once on the loop's thread. It closes the descriptor.
 * If another thread is sending, that thread closes the descriptor when it has finished.
 */

#pragma once

#include <stdatomic.h>

#include "plugin/net/connection.h"
#include "plugin/net/net_channel.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

/* Limit of the bytes that a connection receives or sends in one turn of the loop. */
#define TPS_CONNECTION_FAIR_BYTES ((gsize) 8 << 20)
#define TPS_CONNECTION_FAIR_MESSAGES 256
/* Time limit of a connection in one turn, because messages and scanned bytes may be costly. It
 * bounds the delay that a connection causes to the other connections of its loop. The clock is read
 * after every second message, after every 16 KiB that the scanner processes, and after every 512
 * KiB of bodies. */
#define TPS_CONNECTION_FAIR_NS ((gint64) 200000)
#define TPS_CONNECTION_LOOK_MESSAGES 2
#define TPS_CONNECTION_LOOK_BYTES ((gsize) 16 << 10)
#define TPS_CONNECTION_BODY_COST 32 /* body bytes that take as long as one scanned byte */

/* The charge of a queued writer in addition to its bytes. It limits the number of small replies
 * that are queued for a peer that does not read them: about four thousand with a limit of 64
 * MiB. */
#define TPS_CONNECTION_WRITER_BYTES ((gsize) 16 << 10)

/* A connection is stalled if it moves fewer bytes than this within the time limit, so a slow
 * trickle of bytes cannot hold memory. A large body or queue must move by at least its size divided
 * by TPS_CONNECTION_MIN_PROGRESS_PART. */
#define TPS_CONNECTION_MIN_PROGRESS_BYTES 1024
#define TPS_CONNECTION_MIN_PROGRESS_PART 64

/* A position, and the time at which it last changed. */
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

  /* Only used on the loop's thread: */
  TpsScanner *scanner;
  GByteArray *leftover; /* NULL = none */
  guint64 n_received;   /* plus TPS_CONNECTION_MIN_PROGRESS_BYTES for every message */
  gsize n_turn_bytes;   /* received in this turn of the loop */
  guint n_turn_messages;
  /* bytes of the turn that the scanner processed, plus a share of those of bodies */
  gsize n_turn_scanned;
  guint n_next_look;       /* the clock is read again when n_turn_messages is this */
  gsize n_next_look_bytes; /* the clock is read again when n_turn_scanned is this */
  gint64 turn_began_ns;    /* 0 = the clock has not been read yet */
  TpsProgress receive_progress;
  TpsProgress send_progress;
  TpsProgress half_closed_progress;
  TpsProgress opening_progress;
  gboolean started;
  gboolean gone;
  gboolean corked;
  gboolean takes_descriptors; /* descriptors are expected, or the kernel cannot refuse them */

  atomic_ullong n_received_bytes; /* only changed by the loop's thread */
  atomic_bool forgets;            /* the received bytes contain a secret */
  atomic_bool may_read;           /* set under the lock, see tps_connection_update_interest() */

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

/* ---- connection.c --------------------------------------------------------------------------- */

/* Watches the socket for the events that the current state needs, and posts the processing of
 * leftover bytes, which precedes reads of the socket. Must be called, with the lock held, after
 * every change of the state that the lock guards. */
void tps_connection_update_interest (TpsConnection *connection);

/* Returns TRUE if received bytes may be processed now. The lock must be held. */
gboolean tps_connection_is_reading_allowed (const TpsConnection *connection);

/* Returns TRUE if the queue exceeds its limit or the free bytes of `replies`. The lock must be
 * held. */
gboolean tps_connection_is_queue_full (const TpsConnection *connection);

/* Returns TRUE if the socket may be read now; a snapshot. Thread: any. */
static inline gboolean
tps_connection_may_read (TpsConnection *connection)
{
  return atomic_load_explicit (&connection->may_read, memory_order_relaxed);
}

/* Posts the closing of the connection to the loop. Takes ownership of `error`; only the error of
 * the first call is reported. The lock must be held. */
void tps_connection_post_close (TpsConnection *connection, GError *error);

/* Returns the error CONNECTION_LOST, "connection lost while `doing`: …", with the text of `code`
 * (an errno). The caller owns the error. */
GError *tps_connection_lost_error (const gchar *doing, gint code);

/* As tps_connection_lost_error(), for a failure of the channel. If `code` is EPROTO and the channel
 * has a reason, the error is PROTOCOL, with that reason. */
GError *tps_connection_channel_error (TpsConnection *connection, const gchar *doing, gint code);

/* Removes the first writer from the queue and returns it; NULL = the queue is empty. The caller
 * owns the writer. */
static inline TpsWriter *
tps_connection_pop_writer (GQueue *queue)
{
  GList *link = g_queue_pop_head_link (queue);

  return link != NULL ? link->data : NULL;
}

/* Closes the socket and frees the queued writers, whose release functions must not call back. The
 * lock must be held, and no thread may be sending. */
void tps_connection_drop_socket (TpsConnection *connection);

/* ---- connection_open.c ---------------------------------------------------------------------- */

/* Returns TRUE if the channel must be opened before it can be used. */
gboolean tps_connection_must_open (const TpsConnection *connection);

/* Performs the next step of opening the channel, after the start or after the event for which the
 * channel waited. Thread: the loop's. */
void tps_connection_go_on_opening (TpsConnection *connection, guint32 epoll_events);

/* ---- connection_send.c ---------------------------------------------------------------------- */

/* Clears `sending`, which a thread sets while it uses the socket without the lock. If the
 * connection was torn down meanwhile, drops the socket. The lock must be held. */
void tps_connection_end_sending (TpsConnection *connection);

/* Sends queued writers, because the socket is writable. Thread: the loop's. */
void tps_connection_on_writable (TpsConnection *connection);

/* Ends the corking of the connection and sends the queued writers. The loop's thread corks the
 * connection while it processes a received chunk, so replies are only queued meanwhile. Thread: the
 * loop's. */
void tps_connection_uncork (TpsConnection *connection);

/* ---- connection_receive.c ------------------------------------------------------------------- */

/* The callback of the watch; `data` is the connection. Thread: the loop's. */
void tps_connection_on_ready (guint32 epoll_events, gpointer data);

/* Processes leftover bytes. Is posted to the loop; `data` is a reference to the connection, which
 * the function releases. */
void tps_connection_continue_reading (gpointer data);

G_END_DECLS
