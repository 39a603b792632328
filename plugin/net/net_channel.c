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
