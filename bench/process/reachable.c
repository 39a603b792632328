/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/reachable.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/error.h"

/* Connecting a datagram socket picks the route, and with it the local address. */
static gboolean
find_source (const struct addrinfo *target, struct sockaddr_storage *source, socklen_t *length)
{
  gint fd = socket (target->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  gboolean ok;

  if (fd < 0)
    return FALSE;
  ok = connect (fd, target->ai_addr, target->ai_addrlen) == 0
       && getsockname (fd, (struct sockaddr *) source, length) == 0;
  close (fd);
  return ok;
}

gchar *
tps_reachable_address (const gchar *host, GError **error)
{
  struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
  struct addrinfo *found = NULL;
  struct sockaddr_storage source;
  socklen_t length = sizeof source;
  gchar text[NI_MAXHOST];
  gint rc = getaddrinfo (host, "9", &hints, &found);

  if (rc != 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "cannot resolve %s: %s", host,
                   gai_strerror (rc));
      return NULL;
    }
  if (!find_source (found, &source, &length)
      || getnameinfo ((struct sockaddr *) &source, length, text, sizeof text, NULL, 0,
                      NI_NUMERICHOST)
             != 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "no way to %s: %s", host,
                   g_strerror (errno));
      freeaddrinfo (found);
      return NULL;
    }
  freeaddrinfo (found);
  return g_strdup (text);
}
