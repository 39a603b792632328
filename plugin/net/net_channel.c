/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/net_channel.h"

static gssize
receive (TpsNetChannel *channel, gint fd, struct msghdr *message)
{
  return recvmsg (fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

static gssize
send_pieces (TpsNetChannel *channel, gint fd, const struct msghdr *message)
{
  return sendmsg (fd, message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static const TpsNetChannelOps ops = { .receive = receive, .send = send_pieces };

TpsNetChannel tps_plain_channel = { .ops = &ops };

gsize
tps_net_count_bytes (const struct msghdr *message)
{
  gsize n_bytes = 0;

  for (gsize i = 0; i < message->msg_iovlen; i++)
    n_bytes += message->msg_iov[i].iov_len;
  return n_bytes;
}
