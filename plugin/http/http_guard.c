/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/http_guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define MAX_HOST 255

/* ---- size of a request ---------------------------------------------------------------------- */

/* Returns the size of the head with its empty line; 0 = there is no empty line. */
static gsize
find_head (const gchar *bytes, gsize n_bytes)
{
  const gchar *end = bytes + n_bytes;

  for (const gchar *at = memchr (bytes, '\n', n_bytes); at != NULL;
       at = memchr (at + 1, '\n', (gsize) (end - at - 1)))
    {
      gsize n_rest = (gsize) (end - at);

      if (n_rest >= 2 && at[1] == '\n')
        return (gsize) (at - bytes) + 2;
      if (n_rest >= 3 && at[1] == '\r' && at[2] == '\n')
        return (gsize) (at - bytes) + 3;
    }
  return 0;
}

static gboolean
is_field (const gchar *line, const gchar *name)
{
  return g_ascii_strncasecmp (line, name, strlen (name)) == 0;
}

/* Adds the value of a field Content-Length to `n_body`, which is -1 before the first such field. */
static guint
add_length (const gchar *value, gint64 *n_body)
{
  const gchar *digits = value + strspn (value, " \t");
  gsize n_digits = strspn (digits, "0123456789");
  const gchar *rest = digits + n_digits;

  if (*n_body >= 0 || n_digits == 0 || rest[strspn (rest, " \t\r")] != '\n')
    return 400;
  *n_body = g_ascii_strtoll (digits, NULL, 10);
  return *n_body <= TPS_HTTP_MAX_BODY_BYTES ? 200 : 413;
}

/* Checks the lines of a complete `head`, which may be followed by other bytes. A chunked body is
 * refused because its size is unknown. */
static guint
examine_lines (const gchar *head, gsize n_head, gint64 *n_body)
{
  guint status = 200, n_lines = 0;

  *n_body = -1;
  for (const gchar *line = head; status == 200 && line < head + n_head;
       line = strchr (line, '\n') + 1)
    if (++n_lines > TPS_HTTP_MAX_LINES)
      status = 431;
    else if (*line == ' ' || *line == '\t') /* the line continues the line before it */
      status = 400;
    else if (is_field (line, "Transfer-Encoding:"))
      status = 411;
    else if (is_field (line, "Content-Length:"))
      status = add_length (line + strlen ("Content-Length:"), n_body);
  return status;
}

guint
tps_http_guard_examine (const gchar *bytes, gsize n_bytes, gsize *n_request)
{
  gsize n_head = find_head (bytes, MIN (n_bytes, TPS_HTTP_MAX_HEAD_BYTES));
  gint64 n_body;
  guint status;

  if (n_bytes > 0 && (*bytes == '\r' || *bytes == '\n'))
    return 400;
  if (n_head == 0)
    return n_bytes < TPS_HTTP_MAX_HEAD_BYTES ? 0 : 431;
  if (memchr (bytes, '\0', n_head) != NULL
      || g_strstr_len (bytes, (gssize) strcspn (bytes, "\n"), "%00") != NULL)
    return 400;
  status = examine_lines (bytes, n_head, &n_body);
  *n_request = n_head + (gsize) MAX (n_body, 0);
  if (status == 200 && n_bytes < *n_request)
    return 0;
  return status == 200 && memchr (bytes, '\0', *n_request) != NULL ? 400 : status;
}

/* ---- headers -------------------------------------------------------------------------------- */

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

gboolean
tps_http_guard_accepts_host (const gchar *host, const gchar *const *names)
{
  gchar name[MAX_HOST + 1];
  guint8 address[16];

  if (!split_host (host, name))
    return FALSE;
  if (inet_pton (AF_INET, name, address) == 1 || inet_pton (AF_INET6, name, address) == 1
      || g_ascii_strcasecmp (name, "localhost") == 0)
    return TRUE;
  for (; names != NULL && *names != NULL; names++)
    if (g_ascii_strcasecmp (name, *names) == 0)
      return TRUE;
  return FALSE;
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
