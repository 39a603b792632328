/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A socket on a loop that receives messages through the scanner and sends finished messages
 * (TpsWriter) with scatter-gather I/O. Both sides of the wire use it: the server for accepted
 * sockets, the client for its own.
 *
 * Only the loop's thread receives. Any thread may send: the calling thread sends as much as the
 * socket takes, and the loop sends the rest when the socket is writable again.
 */

#pragma once

#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"
#include "plugin/net/loop.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

typedef struct TpsConnection TpsConnection;
typedef struct TpsNetChannel TpsNetChannel; /* net_channel.h */

typedef struct
{
  /* Called with a received message, which the callee owns. Thread: the loop's. */
  void (*message) (TpsConnection *connection, TpsMessage *message, gpointer user_data);
  /* Called exactly once, as the last event, when the connection is closed. `error` is NULL if the
   * peer closed it between messages, or if this side closed it. Thread: the loop's. */
  void (*closed) (TpsConnection *connection, const GError *error, gpointer user_data);
  /* Called with a received file descriptor (Unix sockets; close-on-exec), which the callee owns.
   * Descriptors come in the order in which the peer sent them, each before the message whose bytes
   * carried it, and possibly before earlier messages. NULL = no descriptors are expected: the
   * kernel refuses them, or a received descriptor closes the connection (PROTOCOL). More than 16
   * descriptors in one system call of the peer also close the connection (PROTOCOL). Thread: the
   * loop's. */
  void (*descriptor) (TpsConnection *connection, gint fd, gpointer user_data);
  /* Called at most once, when the peer will send no more: the peer has shut down its side, or is
   * gone. A peer that is gone may be noticed only when something is sent to it. The peer may still
   * receive, and bytes that it sent earlier may still be unread. NULL = not wanted. Thread: the
   * loop's. */
  void (*half_closed) (TpsConnection *connection, gpointer user_data);
  /* Called at most once after `half_closed`, when `message` has been called for all messages of the
   * peer. The callee must close the connection when all calls have been answered
   * (tps_connection_close_when_sent()). If `ended` is NULL, the connection closes at once. Thread:
   * the loop's. */
  void (*ended) (TpsConnection *connection, gpointer user_data);
} TpsConnectionEvents;

/* Creates a connection and takes ownership of `fd`, which must be connected and non-blocking. No
 * event occurs before tps_connection_start(). The caller owns a reference. */
TpsConnection *tps_connection_new (TpsLoop *loop, gint fd, const TpsScannerOptions *options,
                                   const TpsConnectionEvents *events, gpointer user_data);

/* Take and release a reference. Thread: any. */
TpsConnection *tps_connection_ref (TpsConnection *connection);
void tps_connection_unref (TpsConnection *connection);

/* Replaces the plain channel by `channel`, which the connection then owns. Must be called before
 * tps_connection_start(). Thread: any. */
void tps_connection_set_channel (TpsConnection *connection, TpsNetChannel *channel);

/* Returns the name in the peer's certificate; NULL if there is none. Borrowed while the connection
 * is open. Must be called after the first message. Thread: the loop's. */
const gchar *tps_connection_get_peer_name (TpsConnection *connection);

/* Starts to read. If the loop cannot watch another descriptor, the connection closes
 * (RESOURCE_EXHAUSTED). Thread: the loop's. */
void tps_connection_start (TpsConnection *connection);

/* Queues a finished writer (after message_end), takes ownership of the writer, and sends as much as
 * the socket takes. Writers are sent in the order of these calls. When the connection closes,
 * unsent writers are freed. Thread: any. */
void tps_connection_send (TpsConnection *connection, TpsWriter *out);

/* Returns the number of queued bytes that the socket has not taken. Thread: any. */
gsize tps_connection_get_n_bytes_queued (TpsConnection *connection);

/* The traffic of a connection at one point in time, before encryption. */
typedef struct
{
  guint64 n_received_bytes, n_sent_bytes;
  gsize n_queued_bytes; /* not taken by the socket yet */
  gboolean is_encrypted;
  gboolean is_half_closed; /* the peer sends no more */
} TpsConnectionTraffic;

/* Fills in `traffic`. Thread: any. */
void tps_connection_get_traffic (TpsConnection *connection, TpsConnectionTraffic *traffic);

/* Sets counters of received and sent bytes, which must outlive the connection; NULL = none. Must be
 * called before tps_connection_start(). */
void tps_connection_set_counters (TpsConnection *connection, TpsCounter *received_bytes,
                                  TpsCounter *sent_bytes);

/* Limits the queue of unsent bytes. While the queue exceeds `n_bytes` or the free bytes of
 * `replies` (a reference is taken; NULL = no budget), the connection is not read, so a peer that
 * does not read its replies cannot send further calls. Each queued writer counts as 16 KiB more
 * than its bytes. There is no limit initially. Thread: any. */
void tps_connection_set_max_queued (TpsConnection *connection, gsize n_bytes, TpsBudget *replies);

/* The longest times without progress. */
typedef struct
{
  gint64 moving_ns;      /* while a partial message or the queue hardly moves */
  gint64 half_closed_ns; /* after a half-close, while no byte is sent to the peer */
  gint64 opening_ns;     /* until the channel is open; 0 = moving_ns */
} TpsConnectionPatience;

/* Closes the connection (CONNECTION_LOST) if it has made no progress for one of the times in
 * `patience`. Without this check, a partial message could hold memory for ever, and a vanished peer
 * could hold a connection for ever. Must be called at least four times within the shortest of these
 * times. Thread: the loop's. */
void tps_connection_check_progress (TpsConnection *connection, gint64 now_ns,
                                    const TpsConnectionPatience *patience);

/* Must be called when a received message contained a token. The connection clears the memory of the
 * received bytes after it has delivered the messages in them. Thread: any. */
void tps_connection_forget_received (TpsConnection *connection);

/* Stop and resume reading; the calls do not nest. If pause() is called on the loop's thread, no
 * message is delivered after it returns. Thread: any. */
void tps_connection_pause (TpsConnection *connection);
void tps_connection_resume (TpsConnection *connection);

/* Close the connection at once, or when all queued bytes have been sent. `closed` is called later
 * on the loop's thread. Thread: any. */
void tps_connection_close (TpsConnection *connection);
void tps_connection_close_when_sent (TpsConnection *connection);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsConnection, tps_connection_unref)

G_END_DECLS
