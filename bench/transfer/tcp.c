/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/error.h"

static struct sockaddr_in
loopback (guint16 port)
{
  return (struct sockaddr_in) { .sin_family = AF_INET,
                                .sin_port = htons (port),
                                .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
}

static gint
fail (gint fd, const gchar *doing, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "cannot %s: %s", doing,
               g_strerror (errno));
  if (fd >= 0)
    close (fd);
  return -1;
}

static void
set_no_delay (gint fd)
{
  gint on = 1;

  setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

gint
tps_tcp_listen (guint16 *port, GError **error)
{
  struct sockaddr_in address = loopback (0);
  socklen_t length = sizeof address;
  gint fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0 || bind (fd, (struct sockaddr *) &address, length) != 0 || listen (fd, 64) != 0
      || getsockname (fd, (struct sockaddr *) &address, &length) != 0)
    return fail (fd, "listen on loopback", error);
  *port = ntohs (address.sin_port);
  return fd;
}

gint
tps_tcp_accept (gint listener)
{
  gint fd = accept4 (listener, NULL, NULL, SOCK_CLOEXEC);

  if (fd >= 0)
    set_no_delay (fd);
  return fd;
}

gint
tps_tcp_connect (guint16 port, GError **error)
{
  struct sockaddr_in address = loopback (port);
  gint fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (fd < 0 || connect (fd, (struct sockaddr *) &address, sizeof address) != 0)
    return fail (fd, "connect to loopback", error);
  set_no_delay (fd);
  return fd;
}

gboolean
tps_tcp_send_all (gint fd, gconstpointer data, gsize n_bytes)
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
tps_tcp_receive_all (gint fd, gpointer data, gsize n_bytes)
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
