/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A socket on a loop that receives messages through the scanner and sends writers by
 * scatter-gather. Both sides of the wire use it: the server for accepted sockets, the client for
 * its own.
 *
 * Reading happens on the loop's thread only. Sending: any thread tries at once; what the socket
 * does not take goes out from the loop when the socket is writable again.
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
  /* A message came in; it is the callee's. Loop thread. */
  void (*message) (TpsConnection *connection, TpsMessage *message, gpointer user_data);
  /* The connection is gone; exactly once, the last event. NULL = the peer closed between messages,
   * or we did. Loop thread. */
  void (*closed) (TpsConnection *connection, const GError *error, gpointer user_data);
  /* A file descriptor came (Unix sockets, close-on-exec); it is the callee's. Called before the
   * message whose bytes it came with, in the order in which the peer sent them; perhaps before
   * messages that were sent earlier. Loop thread. NULL = none is expected: the kernel refuses them,
   * or the connection is closed (PROTOCOL). A peer that sends more than 16 with one system call is
   * closed (PROTOCOL). */
  void (*descriptor) (TpsConnection *connection, gint fd, gpointer user_data);
  /* The peer sends no more, but may still receive: it has shut down its side, or it is gone, which
   * shows at the latest when something is sent. At most once; bytes that it has sent before may
   * still be unread. Loop thread. NULL = not wanted. */
  void (*half_closed) (TpsConnection *connection, gpointer user_data);
  /* After half_closed: all messages of the peer have been handed out. The callee closes the
   * connection when everything has been answered, see tps_connection_close_when_sent(). At most
   * once. Loop thread. NULL = the connection closes. */
  void (*ended) (TpsConnection *connection, gpointer user_data);
} TpsConnectionEvents;

/* Takes over `fd` (connected, non-blocking). No event comes before tps_connection_start(). */
TpsConnection *tps_connection_new (TpsLoop *loop, gint fd, const TpsScannerOptions *options,
                                   const TpsConnectionEvents *events, gpointer user_data);
TpsConnection *tps_connection_ref (TpsConnection *connection);
void tps_connection_unref (TpsConnection *connection);

/* Replaces the plain channel by `channel`, which the connection takes over. Before
 * tps_connection_start(). Thread: any. */
void tps_connection_set_channel (TpsConnection *connection, TpsNetChannel *channel);

/* The name in the certificate that the peer has shown; NULL = none. Borrowed while the connection
 * is open. Loop thread, after the first message. */
const gchar *tps_connection_get_peer_name (TpsConnection *connection);

/* Begins to read. If the loop has no room for another descriptor the connection closes
 * (RESOURCE_EXHAUSTED). Loop thread. */
void tps_connection_start (TpsConnection *connection);

/* Queues a finished writer (message_end was called) and takes it over; sends right away what the
 * socket takes. Writers go out in the order of the calls. After the connection is gone they are
 * freed unsent. Thread: any. */
void tps_connection_send (TpsConnection *connection, TpsWriter *out);

/* Bytes queued and not yet taken by the socket. Thread: any. */
gsize tps_connection_get_n_bytes_queued (TpsConnection *connection);

/* What has passed through the connection, before encryption, as it is at one moment. */
typedef struct
{
  guint64 n_received_bytes, n_sent_bytes;
  gsize n_queued_bytes; /* not yet taken by the socket */
  gboolean is_encrypted;
  gboolean is_half_closed; /* the peer sends no more */
} TpsConnectionTraffic;

/* Thread: any. */
void tps_connection_get_traffic (TpsConnection *connection, TpsConnectionTraffic *traffic);

/* Also counts received and sent bytes in these, which must outlive the connection; NULL = not.
 * Before tps_connection_start(). */
void tps_connection_set_counters (TpsConnection *connection, TpsCounter *received_bytes,
                                  TpsCounter *sent_bytes);

/* While more than `n_bytes` are queued, or more than are free in `replies` (a reference is taken;
 * NULL = no budget), the connection is not read, so that a peer that does not read its answers
 * cannot ask for more. No limit at first. Thread: any. */
void tps_connection_set_max_queued (TpsConnection *connection, gsize n_bytes, TpsBudget *replies);

/* How long a connection may stay without progress. */
typedef struct
{
  gint64
      moving_ns; /* a message is under way, or bytes are queued, and next to none of them moves */
  gint64 half_closed_ns; /* the peer sends no more, and nothing is sent to it either */
  gint64 opening_ns;     /* the channel is being opened, and must be open by then; 0 = moving_ns */
} TpsConnectionPatience;

/* Closes the connection (CONNECTION_LOST) if the patience is at an end: half a message must not
 * hold memory for ever, nor a peer that has left without a word a connection. Must be called at
 * least four times in each patience. Loop thread. */
void tps_connection_check_progress (TpsConnection *connection, gint64 now_ns,
                                    const TpsConnectionPatience *patience);

/* Stops and resumes reading; calls do not nest. From the loop's thread no message comes after pause
 * has returned. Thread: any. */
void tps_connection_pause (TpsConnection *connection);
void tps_connection_resume (TpsConnection *connection);

/* Closes now, or when everything queued has been sent; `closed` follows on the loop. Thread:
 * any. */
void tps_connection_close (TpsConnection *connection);
void tps_connection_close_when_sent (TpsConnection *connection);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsConnection, tps_connection_unref)

G_END_DECLS
