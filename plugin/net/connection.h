/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A socket on a loop that receives messages through the scanner and sends finished messages
 * (TpsWriter) with scatter-gather I/O, for server and client. Only the loop's thread receives. Any
 * thread may send as much as the socket takes; the loop sends the rest. */

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
  /* Called with a received file descriptor (Unix sockets; close-on-exec), owned by the callee, in
   * the order of the peer, each before the message whose bytes carried it. NULL = none are
   * expected: the kernel refuses them, or one closes the connection (PROTOCOL), as do more than 16
   * in one system call. Thread: the loop's. */
  void (*descriptor) (TpsConnection *connection, gint fd, gpointer user_data);
  /* Called at most once, when the peer will send no more (a peer that is gone may be noticed only
   * by sending). It may still receive, and earlier bytes may be unread. NULL = not wanted. Thread:
   * the loop's. */
  void (*half_closed) (TpsConnection *connection, gpointer user_data);
  /* Called at most once after `half_closed` and `message` for all messages. The callee must close
   * the connection when all calls are answered (tps_connection_close_when_sent()). NULL: it closes
   * at once. Thread: the loop's. */
  void (*ended) (TpsConnection *connection, gpointer user_data);
} TpsConnectionEvents;

/* Creates a connection and takes ownership of `fd`, which must be connected and non-blocking. No
 * event occurs before tps_connection_start(). The caller owns a reference. */
TpsConnection *tps_connection_new (TpsLoop *loop, gint fd, const TpsScannerOptions *options,
                                   const TpsConnectionEvents *events, gpointer user_data);
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

void tps_connection_get_traffic (TpsConnection *connection, TpsConnectionTraffic *traffic);

/* Sets counters of received and sent bytes, which must outlive the connection; NULL = none. Must be
 * called before tps_connection_start(). */
void tps_connection_set_counters (TpsConnection *connection, TpsCounter *received_bytes,
                                  TpsCounter *sent_bytes);

/* Limits the queue of unsent bytes: while it exceeds `n_bytes` or the free bytes of `replies` (a
 * reference is taken; may be NULL), the connection is not read. Each queued writer counts 16 KiB
 * more than its bytes. Initially no limit. Thread: any. */
void tps_connection_set_max_queued (TpsConnection *connection, gsize n_bytes, TpsBudget *replies);

/* The longest times without progress. */
typedef struct
{
  gint64 moving_ns;      /* while a partial message or the queue hardly moves */
  gint64 half_closed_ns; /* after a half-close, while no byte is sent to the peer */
  gint64 opening_ns;     /* until the channel is open; 0 = moving_ns */
} TpsConnectionPatience;

/* Closes the connection (CONNECTION_LOST) if it has made no progress for one of the times in
 * `patience`, because partial messages hold memory. Must be called at least four times within the
 * shortest of them. Thread: the loop's. */
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
