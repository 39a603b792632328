/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The transport of a connection's bytes through its socket: the plain channel below, or one that
 * encrypts (plugin/net/tls). A channel with `recognize`, which chooses the final channel, or with
 * `shake_hands`, which is called until DONE or FAILED, must be opened first (connection.c). Until
 * then, `receive` and `send` are not called. */

#pragma once

#include <sys/socket.h>

#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsNetChannel TpsNetChannel;

typedef enum
{
  TPS_HANDSHAKE_FAILED,
  TPS_HANDSHAKE_DONE,
  TPS_HANDSHAKE_NEEDS_INPUT, /* continue when the socket is readable */
  TPS_HANDSHAKE_NEEDS_OUTPUT,
} TpsHandshake;

typedef struct
{
  /* Receives as recvmsg(): the number of bytes; 0 if the peer sends no more; -1 with errno. After
   * fewer bytes than requested, the socket is empty, or `has_unread` is set. Never blocks. Thread:
   * the loop's. */
  gssize (*receive) (TpsNetChannel *channel, gint fd, struct msghdr *message);
  /* Sends as sendmsg(). After fewer bytes than requested, the caller must wait until the socket is
   * writable. After EAGAIN, the next call must begin with the same bytes. Never blocks. Thread: one
   * at a time, also while another receives. */
  gssize (*send) (TpsNetChannel *channel, gint fd, const struct msghdr *message);
  /* Optional. Reads the first bytes of the peer and leaves them in the socket. Returns the final
   * channel, which the caller owns; NULL without an error if no byte has come yet. Errors: the
   * connection must be closed. Never blocks. Thread: the loop's. */
  TpsNetChannel *(*recognize) (TpsNetChannel *channel, gint fd, GError **error);
  /* Optional. Performs one step of the handshake; `error` is set if it FAILED. Never blocks, but
   * may compute for milliseconds. Thread: one of `workers`, or the loop's if there are none. */
  TpsHandshake (*shake_hands) (TpsNetChannel *channel, gint fd, GError **error);
  /* Returns the reason why `receive` or `send` failed with EPROTO: static text. Required if they
   * use EPROTO. Thread: any. */
  const gchar *(*get_failure) (TpsNetChannel *channel);
  /* Optional. Returns the name in the peer's certificate, borrowed; NULL = none. Must not be called
   * before the handshake is done. */
  const gchar *(*get_peer_name) (TpsNetChannel *channel);
  /* Frees the channel. The socket is still open, but no other thread uses it any more. Must not
   * block. NULL = all connections share the channel, and it is not freed. */
  void (*free) (TpsNetChannel *channel, gint fd);
} TpsNetChannelOps;

/* The base of every channel. A field that a function sets belongs to the thread that calls the
 * function. */
struct TpsNetChannel
{
  const TpsNetChannelOps *ops;
  /* For `shake_hands`; borrowed; must be freed before the loop; NULL = none. */
  TpsWorkerPool *workers;
  gboolean may_idle; /* the peer may delay its first byte indefinitely */
  gboolean encrypts; /* valid when the channel is open */

  /* Set by `receive` and by the last step of the handshake: */
  gboolean has_unread; /* the channel has read bytes that `receive` has not returned */
  /* Set by `receive`: */
  gboolean receive_needs_output; /* EAGAIN means that the socket must be writable first */
  gsize cost;                    /* cost in addition to the system call, in scanned bytes */
  /* Set by `send`; only with `shake_hands`: */
  gboolean send_needs_input; /* EAGAIN means that the channel must receive first */
};

/* The plain channel, which calls recvmsg() and sendmsg(). It has no state, and all unencrypted
 * connections share it. */
extern TpsNetChannel tps_plain_channel;

static inline gsize
tps_net_count_bytes (const struct msghdr *message)
{
  gsize n_bytes = 0;

  for (gsize i = 0; i < message->msg_iovlen; i++)
    n_bytes += message->msg_iov[i].iov_len;
  return n_bytes;
}

G_END_DECLS
