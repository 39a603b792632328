/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/sharing_offer.h"

#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/error.h"

static const struct
{
  TpsErrorCode code;
  const gchar *why;
} refusals[] = {
  [TPS_SHARING_SWITCHED_OFF] = { TPS_ERROR_UNAVAILABLE,
                                 "shared memory is disabled on this server" },
  [TPS_SHARING_NOT_LOCAL] = { TPS_ERROR_UNAVAILABLE,
                              "shared memory is offered over Unix sockets only, and this "
                              "connection is none" },
  [TPS_SHARING_OTHER_USER] = { TPS_ERROR_PERMISSION_DENIED,
                               "shared memory is offered to processes of the server's user only" },
};

static gboolean
is_local (gint fd)
{
  gint domain;
  socklen_t n_bytes = sizeof domain;

  return getsockopt (fd, SOL_SOCKET, SO_DOMAIN, &domain, &n_bytes) == 0 && domain == AF_UNIX;
}

/* Returns TRUE if the peer had the same user as this process when it connected. */
static gboolean
is_same_user (gint fd)
{
  struct ucred peer;
  socklen_t n_bytes = sizeof peer;

  return getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &n_bytes) == 0 && peer.uid == geteuid ();
}

TpsSharingOffer
tps_sharing_offer_find (gint fd, gsize max_bytes)
{
  if (max_bytes == 0)
    return TPS_SHARING_SWITCHED_OFF;
  if (!is_local (fd))
    return TPS_SHARING_NOT_LOCAL;
  return is_same_user (fd) ? TPS_SHARING_OFFERED : TPS_SHARING_OTHER_USER;
}

void
tps_sharing_offer_refuse (TpsSharingOffer offer, GError **error)
{
  g_set_error_literal (error, TPS_ERROR, refusals[offer].code, refusals[offer].why);
}
