/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/passed_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "plugin/net/descriptors.h"
#include "runtime/base/error.h"

static gboolean
refuse (gint fd, const gchar *problem, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "descriptor %d: %s", fd, problem);
  return FALSE;
}

/* Returns the value of a socket option; -1 = `fd` is not a socket. */
static gint
get_option (gint fd, gint option)
{
  gint value = 0;
  socklen_t n_bytes = sizeof value;

  return getsockopt (fd, SOL_SOCKET, option, &value, &n_bytes) == 0 ? value : -1;
}

static gchar *
host_to_text (gint family, gconstpointer host, in_port_t port)
{
  gchar text[INET6_ADDRSTRLEN] = "?";

  inet_ntop (family, host, text, sizeof text);
  return g_strdup_printf (family == AF_INET6 ? "[%s]:%u" : "%s:%u", text, (guint) ntohs (port));
}

/* The name of an abstract socket begins with a zero byte and may contain any bytes. */
static gchar *
unix_to_text (const struct sockaddr_un *un, socklen_t n_bytes)
{
  gsize n_path = n_bytes - MIN (n_bytes, offsetof (struct sockaddr_un, sun_path));
  g_autofree gchar *name = NULL;

  if (n_path == 0)
    return g_strdup ("unix:");
  if (un->sun_path[0] != '\0')
    return g_strdup_printf ("unix:%.*s", (gint) n_path, un->sun_path);
  name = g_utf8_make_valid (un->sun_path + 1, (gssize) n_path - 1);
  return g_strconcat ("unix:@", name, NULL);
}

/* Returns the address of the socket; NULL = it is neither a TCP nor a Unix socket. */
static gchar *
get_address (gint fd)
{
  struct sockaddr_storage bytes = { 0 };
  const struct sockaddr_in *v4 = (const struct sockaddr_in *) &bytes;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &bytes;
  socklen_t n_bytes = sizeof bytes;

  if (getsockname (fd, (struct sockaddr *) &bytes, &n_bytes) < 0)
    return NULL;
  switch (bytes.ss_family)
    {
    case AF_INET:
      return host_to_text (AF_INET, &v4->sin_addr, v4->sin_port);
    case AF_INET6:
      return host_to_text (AF_INET6, &v6->sin6_addr, v6->sin6_port);
    case AF_UNIX:
      return unix_to_text ((const struct sockaddr_un *) &bytes, n_bytes);
    default:
      return NULL;
    }
}

gboolean
tps_passed_socket_prepare (gint fd, gchar **address, GError **error)
{
  g_autofree gchar *text = NULL;
  gint flags = fcntl (fd, F_GETFL);

  if (flags < 0 || get_option (fd, SO_TYPE) != SOCK_STREAM)
    return refuse (fd, "not a stream socket; expected ListenStream= in the socket unit", error);
  if (get_option (fd, SO_ACCEPTCONN) != 1)
    return refuse (fd, "the socket does not listen; expected Accept=no in the socket unit", error);
  text = get_address (fd);
  if (text == NULL)
    return refuse (fd, "neither a TCP socket nor a Unix socket", error);
  if (fcntl (fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl (fd, F_SETFD, FD_CLOEXEC) < 0)
    return refuse (fd, g_strerror (errno), error);
  tps_descriptors_refuse (fd);
  *address = g_steal_pointer (&text);
  return TRUE;
}
