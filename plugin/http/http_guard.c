/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/http_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define MAX_HOST 255

/* Copies the host of "HOST", "HOST:PORT", "[IPv6]" or "[IPv6]:PORT", without brackets. FALSE: the
 * text has a different form. */
static gboolean
split_host (const gchar *text, gchar host[MAX_HOST + 1])
{
  const gchar *end = text[0] == '[' ? strchr (text, ']') : strchr (text, ':');
  const gchar *begin = text[0] == '[' ? text + 1 : text;
  const gchar *port;
  gsize n;

  if (text[0] == '[' && end == NULL)
    return FALSE;
  if (end == NULL)
    end = text + strlen (text);
  port = text[0] == '[' ? end + 1 : end;
  if (*port == ':')
    port++;
  else if (*port != '\0')
    return FALSE;
  n = (gsize) (end - begin);
  if (n == 0 || n > MAX_HOST || strlen (port) > 5 || strspn (port, "0123456789") != strlen (port))
    return FALSE;
  memcpy (host, begin, n);
  host[n] = '\0';
  return TRUE;
}

static gboolean
is_ip_address (const gchar *host)
{
  guint8 address[16];

  return inet_pton (AF_INET, host, address) == 1 || inet_pton (AF_INET6, host, address) == 1;
}

gboolean
tps_http_guard_accepts_host (const gchar *host, const gchar *const *names)
{
  gchar name[MAX_HOST + 1];

  if (!split_host (host, name))
    return FALSE;
  if (is_ip_address (name) || g_ascii_strcasecmp (name, "localhost") == 0)
    return TRUE;
  for (; names != NULL && *names != NULL; names++)
    if (g_ascii_strcasecmp (name, *names) == 0)
      return TRUE;
  return FALSE;
}

gboolean
tps_http_guard_is_same_origin (const gchar *origin, const gchar *host)
{
  const gchar *scheme_end = strstr (origin, "://");

  return scheme_end != NULL && g_ascii_strcasecmp (scheme_end + strlen ("://"), host) == 0;
}

gboolean
tps_http_guard_is_local (const struct sockaddr_storage *peer)
{
  const struct sockaddr_in *v4 = (const struct sockaddr_in *) peer;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) peer;

  switch (peer->ss_family)
    {
    case AF_UNIX:
      return TRUE;
    case AF_INET:
      return (ntohl (v4->sin_addr.s_addr) >> 24) == 127;
    case AF_INET6:
      return IN6_IS_ADDR_LOOPBACK (&v6->sin6_addr)
             || (IN6_IS_ADDR_V4MAPPED (&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
    default:
      return FALSE;
    }
}

const gchar *
tps_http_guard_find_token (const gchar *authorization)
{
  static const gchar scheme[] = "Bearer ";
  const gchar *token;

  if (authorization == NULL || g_ascii_strncasecmp (authorization, scheme, sizeof scheme - 1) != 0)
    return NULL;
  token = authorization + sizeof scheme - 1;
  token += strspn (token, " ");
  return *token != '\0' ? token : NULL;
}
