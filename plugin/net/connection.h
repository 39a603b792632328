/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A socket on a loop that receives messages through the scanner and sends writers by
 * scatter-gather. Both sides of the wire use it: the server for accepted sockets, the client for
 * its own.
 *
 * Only the loop's thread receives. Any thread may send: it tries at once, and the loop sends the
 * rest when the socket is writable again.
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
  /* Called with a received file descriptor (Unix sockets; close-on-exec), which the callee owns. It
   * is called before the message whose bytes carried the descriptor, in the order in which the peer
   * sent them, possibly before earlier messages. NULL = no descriptors are expected: the kernel
   * refuses them, or the connection is closed (PROTOCOL). The connection is also closed (PROTOCOL)
   * if a peer sends more than 16 with one system call. Thread: the loop's. */
  void (*descriptor) (TpsConnection *connection, gint fd, gpointer user_data);
  /* Called at most once when the peer will send no more: it has shut down its side, or it is gone,
   * which shows at the latest when something is sent. It may still receive, and earlier bytes may
   * still be unread. NULL = not wanted. Thread: the loop's. */
  void (*half_closed) (TpsConnection *connection, gpointer user_data);
  /* Called at most once after half_closed, when all messages of the peer have been handed out. The
   * callee must close the connection when all calls have been answered
   * (tps_connection_close_when_sent()). If `ended` is NULL, the connection closes at once. Thread:
   * the loop's. */
  void (*ended) (TpsConnection *connection, gpointer user_data);
} TpsConnectionEvents;

/* Creates a connection and takes ownership of `fd`, which must be connected and non-blocking. No
 * event comes before tps_connection_start(). */
TpsConnection *tps_connection_new (TpsLoop *loop, gint fd, const TpsScannerOptions *options,
                                   const TpsConnectionEvents *events, gpointer user_data);
TpsConnection *tps_connection_ref (TpsConnection *connection);
void tps_connection_unref (TpsConnection *connection);

/* Replaces the plain channel by `channel`, which the connection then owns. Must be called before
 * tps_connection_start(). Thread: any. */
void tps_connection_set_channel (TpsConnection *connection, TpsNetChannel *channel);

/* Returns the name in the peer's certificate; NULL = none. Borrowed while the connection is open.
 * Must be called after the first message. Thread: the loop's. */
const gchar *tps_connection_get_peer_name (TpsConnection *connection);

/* Starts to read. If the loop has no room for another descriptor, the connection closes
 * (RESOURCE_EXHAUSTED). Thread: the loop's. */
void tps_connection_start (TpsConnection *connection);

/* Queues a finished writer (after message_end), takes ownership of it, and sends as much as the
 * socket takes. Writers are sent in the order of these calls. If the connection is closed, they are
 * freed unsent. Thread: any. */
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

/* Limits the queue. The connection is not read while more than `n_bytes` are queued, or more than
 * are free in `replies` (a reference is taken; NULL = no budget). A peer that does not read its
 * replies then cannot send further calls. There is no limit initially. Thread: any. */
void tps_connection_set_max_queued (TpsConnection *connection, gsize n_bytes, TpsBudget *replies);

/* The longest times without progress. */
typedef struct
{
  gint64 moving_ns;      /* for a partial message or queued bytes that hardly move */
  gint64 half_closed_ns; /* after the peer's last byte, if nothing is sent to it either */
  gint64 opening_ns;     /* until the channel is open; 0 = moving_ns */
} TpsConnectionPatience;

/* Closes the connection (CONNECTION_LOST) if a time of `patience` has passed. Without this check, a
 * partial message could hold memory for ever, and a vanished peer could hold a connection for ever.
 * Must be called at least four times in the shortest of these times. Thread: the loop's. */
void tps_connection_check_progress (TpsConnection *connection, gint64 now_ns,
                                    const TpsConnectionPatience *patience);

/* Must be called when a received message contained a token. After the messages that were received
 * with it have been handed out, the connection clears the memory of their bytes. Thread: any. */
void tps_connection_forget_received (TpsConnection *connection);

/* Stops and resumes reading; the calls do not nest. If the loop's thread pauses, no message follows
 * after the return. Thread: any. */
void tps_connection_pause (TpsConnection *connection);
void tps_connection_resume (TpsConnection *connection);

/* Closes the connection at once, or when all queued bytes have been sent; `closed` follows on the
 * loop. Thread: any. */
void tps_connection_close (TpsConnection *connection);
void tps_connection_close_when_sent (TpsConnection *connection);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsConnection, tps_connection_unref)

G_END_DECLS
