/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/limits/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/base/error.h"

typedef union
{
  struct sockaddr any;
  struct sockaddr_in in;
  struct sockaddr_un un;
} Address;

/* Returns the length of the address; 0 if `text` is not an address. */
static socklen_t
parse (const gchar *text, Address *address)
{
  const gchar *path = text + strlen ("unix:");

  memset (address, 0, sizeof *address);
  if (g_str_has_prefix (text, "unix:") && strlen (path) < sizeof address->un.sun_path)
    {
      address->un.sun_family = AF_UNIX;
      memcpy (address->un.sun_path, path, strlen (path) + 1);
      return sizeof address->un;
    }
  if (!g_str_has_prefix (text, "127.0.0.1:"))
    return 0;
  address->in.sin_family = AF_INET;
  address->in.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  address->in.sin_port = htons ((guint16) g_ascii_strtoull (strrchr (text, ':') + 1, NULL, 10));
  return sizeof address->in;
}

static gint
fail (gint fd, const gchar *doing, const gchar *address, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "cannot %s %s: %s", doing, address,
               g_strerror (errno));
  if (fd >= 0)
    close (fd);
  return -1;
}

/* The buffer of a Unix socket: the maximum of `unix_buffer_bytes` in runtime/machine/tuning.c. If
 * the second-level cache is smaller than 1 MiB, the plugin's buffer is smaller. */
#define UNIX_BUFFER_BYTES (256 << 10)

/* Sets the same options that the plugin sets for its sockets, so that the comparison covers only
 * their use. A socket that BBR paces would not be a limit. Neither would a Unix socket with the
 * buffer of the kernel, which is smaller than the best size of a send. Errors are ignored, because
 * not every kind of socket has every option. */
static void
tune (gint fd)
{
  static const gchar unpaced[] = "reno";
  gint on = 1, buffer_bytes = UNIX_BUFFER_BYTES, family = 0;
  socklen_t n_bytes = sizeof family;

  setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt (fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1);
  if (getsockopt (fd, SOL_SOCKET, SO_DOMAIN, &family, &n_bytes) == 0 && family == AF_UNIX
      && setsockopt (fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof buffer_bytes) != 0)
    setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
}

gint
tps_stream_listen (const gchar *address, gchar **bound, GError **error)
{
  Address parsed;
  socklen_t length = parse (address, &parsed);
  gint fd = socket (parsed.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0 || bind (fd, &parsed.any, length) != 0 || listen (fd, 128) != 0
      || getsockname (fd, &parsed.any, &length) != 0)
    return fail (fd, "listen on", address, error);
  *bound = parsed.any.sa_family == AF_UNIX
               ? g_strdup (address)
               : g_strdup_printf ("127.0.0.1:%u", ntohs (parsed.in.sin_port));
  return fd;
}

gint
tps_stream_accept (gint listener)
{
  gint fd = accept4 (listener, NULL, NULL, SOCK_CLOEXEC);

  if (fd >= 0)
    tune (fd);
  return fd;
}

gint
tps_stream_connect (const gchar *address, GError **error)
{
  Address parsed;
  socklen_t length = parse (address, &parsed);
  gint fd = socket (parsed.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0 || connect (fd, &parsed.any, length) != 0)
    return fail (fd, "connect to", address, error);
  tune (fd);
  return fd;
}

gboolean
tps_stream_send_all (gint fd, gconstpointer data, gsize n_bytes)
{
  const guint8 *at = data;

  while (n_bytes > 0)
    {
      gssize n = send (fd, at, n_bytes, MSG_NOSIGNAL);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      at += n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

gboolean
tps_stream_receive_all (gint fd, gpointer data, gsize n_bytes)
{
  guint8 *at = data;

  while (n_bytes > 0)
    {
      gssize n = recv (fd, at, n_bytes, 0);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return FALSE;
      at += n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}
