/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/reachable.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/error.h"

/* Finds the local address of packets to `target`. connect() on a datagram socket selects the route,
 * and with it the local address, without sending a packet. */
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
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "no route to %s: %s", host,
                   g_strerror (errno));
      freeaddrinfo (found);
      return NULL;
    }
  freeaddrinfo (found);
  return g_strdup (text);
}

/* Returns the numeric address without the port; NULL on failure. The caller owns the result. */
static gchar *
to_text (const struct sockaddr *address, socklen_t length)
{
  gchar text[NI_MAXHOST];

  return getnameinfo (address, length, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0
             ? g_strdup (text)
             : NULL;
}

gchar *
tps_reachable_resolve (const gchar *host)
{
  struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
  struct addrinfo *found = NULL;
  gchar *text;

  if (getaddrinfo (host, NULL, &hints, &found) != 0)
    return NULL;
  text = to_text (found->ai_addr, found->ai_addrlen);
  freeaddrinfo (found);
  return text;
}

gboolean
tps_reachable_is_loopback (const gchar *address)
{
  struct in_addr v4;
  struct in6_addr v6;

  if (inet_pton (AF_INET, address, &v4) == 1)
    return ntohl (v4.s_addr) >> 24 == IN_LOOPBACKNET;
  return inet_pton (AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK (&v6);
}

gboolean
tps_reachable_is_here (const gchar *address)
{
  struct addrinfo hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST };
  struct addrinfo *found = NULL;
  gboolean is_here = FALSE;
  gint fd;

  if (getaddrinfo (address, NULL, &hints, &found) != 0)
    return FALSE;
  fd = socket (found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd >= 0)
    {
      is_here = bind (fd, found->ai_addr, found->ai_addrlen) == 0;
      close (fd);
    }
  freeaddrinfo (found);
  return is_here;
}

static gboolean
is_worth_listing (const struct ifaddrs *at)
{
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) (gconstpointer) at->ifa_addr;

  if (at->ifa_addr == NULL || (at->ifa_flags & IFF_LOOPBACK) != 0)
    return FALSE;
  return at->ifa_addr->sa_family == AF_INET
         || (at->ifa_addr->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL (&v6->sin6_addr));
}

gchar *
tps_reachable_list (void)
{
  GString *text = g_string_new (NULL);
  struct ifaddrs *all = NULL;

  if (getifaddrs (&all) != 0)
    return g_string_free (text, FALSE);
  for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next)
    {
      g_autofree gchar *address = NULL;

      if (!is_worth_listing (at))
        continue;
      address = to_text (at->ifa_addr, at->ifa_addr->sa_family == AF_INET
                                           ? sizeof (struct sockaddr_in)
                                           : sizeof (struct sockaddr_in6));
      if (address != NULL)
        g_string_append_printf (text, "%s%s", text->len > 0 ? ", " : "", address);
    }
  freeifaddrs (all);
  return g_string_free (text, FALSE);
}
