/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How the bytes of a connection pass through its socket. A connection has one channel: the plain
 * one below, which is the socket itself, or one that encrypts (plugin/net/tls).
 *
 * A channel with `recognize` or `shake_hands` must be opened first (connection_open.c):
 * `recognize` chooses the channel that the connection goes on with, and `shake_hands` is called
 * until it is done. Until then neither `receive` nor `send` is called.
 */

#pragma once

#include <sys/socket.h>

#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsNetChannel TpsNetChannel;

typedef enum
{
  TPS_HANDSHAKE_FAILED,
  TPS_HANDSHAKE_DONE,
  TPS_HANDSHAKE_NEEDS_INPUT, /* goes on when the socket is readable */
  TPS_HANDSHAKE_NEEDS_OUTPUT,
} TpsHandshake;

typedef struct
{
  /* Receives into the pieces of `message` and sets its control data and flags, as recvmsg()
   * does. Returns the number of bytes; 0: the peer sends no more; -1 with errno. Fewer bytes
   * than asked for: the socket is empty, or `has_unread` is set. Never blocks. Loop thread. */
  gssize (*receive) (TpsNetChannel *channel, gint fd, struct msghdr *message);
  /* Sends the pieces of `message` and its control data, as sendmsg() does. Returns the number of
   * bytes or -1 with errno. Fewer bytes than asked for: the caller must wait until the socket is
   * writable. After EAGAIN the next call must begin with the same bytes. Never blocks. Thread:
   * one at a time, which may be another one than that of `receive`. */
  gssize (*send) (TpsNetChannel *channel, gint fd, const struct msghdr *message);
  /* Optional. Looks at the first bytes of the peer and leaves them in the socket. Returns the
   * channel to go on with, owned by the caller; NULL without an error: no byte has come. Never
   * blocks. Loop thread. */
  TpsNetChannel *(*recognize) (TpsNetChannel *channel, gint fd, GError **error);
  /* Optional. One step of the handshake; `error` is set if it FAILED. Never blocks, but may
   * compute for milliseconds. Thread: one of `workers`; the loop's if there are none. */
  TpsHandshake (*shake_hands) (TpsNetChannel *channel, gint fd, GError **error);
  /* Why `receive` or `send` failed with EPROTO: static text. Must be there if they do. Thread:
   * any. */
  const gchar *(*get_failure) (TpsNetChannel *channel);
  /* Optional. The name in the certificate that the peer has shown, borrowed; NULL = none. After
   * the handshake. */
  const gchar *(*get_peer_name) (TpsNetChannel *channel);
  /* Frees the channel. The socket is still open, and not used any more by other threads. Must
   * not block. NULL: the channel is not the connection's. */
  void (*free) (TpsNetChannel *channel, gint fd);
} TpsNetChannelOps;

/* The beginning of every channel. Fields that a function sets belong to the thread that has
 * called it. */
struct TpsNetChannel
{
  const TpsNetChannelOps *ops;
  TpsWorkerPool
      *workers;      /* of `shake_hands`; borrowed, must be freed before the loop; NULL = none */
  gboolean may_idle; /* before it is open: it has no deadline to be opened */
  gboolean encrypts; /* once it is open */

  /* By `receive` and the last step of the handshake. */
  gboolean has_unread; /* the channel has taken bytes from the socket that it has not handed out */
  /* By `receive`. */
  gboolean receive_needs_output; /* EAGAIN means that the socket must be writable first */
  gsize cost;                    /* beside that of the system call; as bytes for the scanner */
  /* By `send`. Never without `shake_hands`. */
  gboolean send_needs_input; /* EAGAIN means that something must be received first */
};

/* recvmsg() and sendmsg(). It has no state: all plain connections share it. */
extern TpsNetChannel tps_plain_channel;

G_END_DECLS
