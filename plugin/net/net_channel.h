/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How the bytes of a connection pass through its socket. A connection has one channel: the plain one below, which is the
 * socket itself, or one that encrypts.
 */

#pragma once

#include <sys/socket.h>

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsNetChannel TpsNetChannel;

typedef struct
{
  /* Receives into the pieces of `message` and sets its control data and flags, as recvmsg() does. Returns the number of
   * bytes; 0: the peer sends no more; -1 with errno. Fewer bytes than asked for: the socket is empty, or `has_unread` is set.
   * Never blocks. Loop thread. */
  gssize (*receive) (TpsNetChannel *channel, gint fd, struct msghdr *message);
  /* Sends the pieces of `message` and its control data, as sendmsg() does. Returns the number of bytes or -1 with errno. Fewer
   * bytes than asked for: the caller must wait until the socket is writable. After EAGAIN the next call must begin with the
   * same bytes. Never blocks. Thread: one at a time. */
  gssize (*send) (TpsNetChannel *channel, gint fd, const struct msghdr *message);
  /* Frees the channel. The socket is still open, and not used any more by other threads. Must not block. NULL: the channel
   * is nobody's. */
  void (*free) (TpsNetChannel *channel, gint fd);
} TpsNetChannelOps;

/* The beginning of every channel. */
struct TpsNetChannel
{
  const TpsNetChannelOps *ops;
  /* Set by `receive`, for the loop's thread. */
  gboolean has_unread; /* the channel has taken bytes from the socket that it has not handed out */
  gsize cost; /* of the last `receive`, beside that of the system call; as bytes for the scanner */
};

/* recvmsg() and sendmsg(). It has no state: all plain connections share it. */
extern TpsNetChannel tps_plain_channel;

G_END_DECLS
