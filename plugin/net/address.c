/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "plugin/net/descriptors.h"
#include "runtime/base/error.h"
#include "runtime/machine/tuning.h"

#define LISTEN_BACKLOG 1024
#define MAX_LOCK_ATTEMPTS 500
#define LOCK_PAUSE_US 10000
#define NEXT_ADDRESS_MS 1000 /* timeout for one address of a host with several */

typedef struct
{
  struct sockaddr_storage bytes;
  socklen_t n_bytes;
} SocketAddress;

static gboolean
refuse_address (const gchar *text, const gchar *problem, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "address \"%s\": %s; expected HOST:PORT, [IPV6]:PORT or unix:PATH", text,
                   problem);
}

static gboolean
parse_unix (const gchar *text, const gchar *path, TpsAddress *address, GError **error)
{
  const struct sockaddr_un *limit = NULL;

  if (*path == '\0')
    return refuse_address (text, "the path is empty", error);
  if (strlen (path) >= sizeof limit->sun_path)
    return refuse_address (text, "the path is longer than 107 bytes, the limit of a Unix socket",
                           error);
  address->path = g_strdup (path);
  return TRUE;
}

gboolean
tps_address_parse (const gchar *text, TpsAddress *address, GError **error)
{
  const gchar *colon;
  guint64 port;
  gsize n_bytes;

  memset (address, 0, sizeof *address);
  if (g_str_has_prefix (text, "unix:"))
    return parse_unix (text, text + strlen ("unix:"), address, error);
  colon = strrchr (text, ':');
  if (colon == NULL)
    return refuse_address (text, "there is no port", error);
  if (!g_ascii_string_to_unsigned (colon + 1, 10, 0, G_MAXUINT16, &port, NULL))
    return refuse_address (text, "the port is not a number from 0 to 65535", error);
  address->port = (guint16) port;
  /* The host is everything before the last colon; an IPv6 host must be in brackets. */
  n_bytes = (gsize) (colon - text);
  if (text[0] == '[')
    {
      if (n_bytes < 3 || text[n_bytes - 1] != ']')
        return refuse_address (text, "the bracket of the IPv6 host is not closed", error);
      address->host = g_strndup (text + 1, n_bytes - 2);
      return TRUE;
    }
  if (memchr (text, ':', n_bytes) != NULL)
    return refuse_address (text, "an IPv6 host must be in brackets", error);
  address->host = g_strndup (text, n_bytes);
  return TRUE;
}

void
tps_address_clear (TpsAddress *address)
{
  g_clear_pointer (&address->path, g_free);
  g_clear_pointer (&address->host, g_free);
  address->port = 0;
}

gchar *
tps_address_to_string (const TpsAddress *address)
{
  const gchar *host = address->host;

  if (address->path != NULL)
    return g_strconcat ("unix:", address->path, NULL);
  if (host == NULL || *host == '\0')
    host = "127.0.0.1";
  return g_strdup_printf (strchr (host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
                          (guint) address->port);
}

/* ---- addresses of the system ---------------------------------------------------------------- */

static gboolean
fill_numeric (const gchar *host, guint16 port, SocketAddress *to)
{
  struct sockaddr_in *v4 = (struct sockaddr_in *) &to->bytes;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *) &to->bytes;

  memset (to, 0, sizeof *to);
  if (*host == '\0' || strcmp (host, "localhost") == 0)
    host = "127.0.0.1";
  if (inet_pton (AF_INET, host, &v4->sin_addr) == 1)
    {
      v4->sin_family = AF_INET;
      v4->sin_port = htons (port);
      to->n_bytes = sizeof *v4;
      return TRUE;
    }
  if (inet_pton (AF_INET6, host, &v6->sin6_addr) == 1)
    {
      v6->sin6_family = AF_INET6;
      v6->sin6_port = htons (port);
      to->n_bytes = sizeof *v6;
      return TRUE;
    }
  return FALSE;
}

/* Returns the addresses from the resolver, in its order. The caller owns the array. NULL = none. */
static GArray *
look_up (const TpsAddress *address, GError **error)
{
  struct addrinfo hints = { .ai_family = AF_UNSPEC,
                            .ai_socktype = SOCK_STREAM,
                            .ai_flags = AI_NUMERICSERV };
  struct addrinfo *found = NULL;
  GArray *all;
  gchar port[8];
  gint rc;

  g_snprintf (port, sizeof port, "%u", (guint) address->port);
  rc = getaddrinfo (address->host, port, &hints, &found);
  if (rc != 0)
    return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT, "host \"%s\" cannot be resolved: %s",
                          address->host, gai_strerror (rc));
  all = g_array_new (FALSE, FALSE, sizeof (SocketAddress));
  for (const struct addrinfo *item = found; item != NULL; item = item->ai_next)
    {
      SocketAddress to = { .n_bytes = item->ai_addrlen };

      memcpy (&to.bytes, item->ai_addr, item->ai_addrlen);
      g_array_append_val (all, to);
    }
  freeaddrinfo (found);
  return all;
}

/* Returns one or more addresses. The caller owns the array. NULL = none. */
static GArray *
resolve (const TpsAddress *address, GError **error)
{
  SocketAddress only = { 0 };
  struct sockaddr_un *un = (struct sockaddr_un *) &only.bytes;
  GArray *all;

  if (address->path != NULL)
    {
      un->sun_family = AF_UNIX;
      g_strlcpy (un->sun_path, address->path, sizeof un->sun_path);
      only.n_bytes = sizeof *un;
    }
  else if (!fill_numeric (address->host != NULL ? address->host : "", address->port, &only))
    return look_up (address, error);
  all = g_array_new (FALSE, FALSE, sizeof (SocketAddress));
  g_array_append_val (all, only);
  return all;
}

static const struct sockaddr *
as_sockaddr (const SocketAddress *address)
{
  return (const struct sockaddr *) &address->bytes;
}

static gint
open_socket (const SocketAddress *address)
{
  return socket (address->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static gboolean
is_loopback (const SocketAddress *address)
{
  const struct sockaddr_in *v4 = (const struct sockaddr_in *) &address->bytes;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &address->bytes;

  if (address->bytes.ss_family == AF_INET)
    return ntohl (v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
  if (address->bytes.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK (&v6->sin6_addr)
           || (IN6_IS_ADDR_V4MAPPED (&v6->sin6_addr)
               && v6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET);
  return address->bytes.ss_family == AF_UNIX;
}

gboolean
tps_address_is_local (const TpsAddress *address)
{
  g_autoptr (GArray) all = resolve (address, NULL);

  for (guint i = 0; all != NULL && i < all->len; i++)
    if (!is_loopback (&g_array_index (all, SocketAddress, i)))
      return FALSE;
  return all != NULL;
}

/* ---- listening ------------------------------------------------------------------------------ */

static gint
fail_listen (const TpsAddress *address, gint fd, const gchar *step, GError **error)
{
  gint code = errno;
  gboolean busy = code == EADDRINUSE || code == EMFILE || code == ENFILE;
  g_autofree gchar *text = tps_address_to_string (address);

  g_set_error (error, TPS_ERROR, busy ? TPS_ERROR_UNAVAILABLE : TPS_ERROR_INVALID_ARGUMENT,
               "cannot listen on %s: %s: %s", text, step, g_strerror (code));
  if (fd >= 0)
    close (fd);
  return -1;
}

/* Returns TRUE if a process listens on this socket. A full backlog (EAGAIN) also shows this. */
static gboolean
is_answered (const SocketAddress *socket_address)
{
  gint fd = open_socket (socket_address);
  gboolean refused;

  if (fd < 0)
    return TRUE;
  refused = connect (fd, as_sockaddr (socket_address), socket_address->n_bytes) < 0
            && errno == ECONNREFUSED;
  close (fd);
  return !refused;
}

/* Removes the socket of a process that has exited. FALSE: the path is not a stale socket, or it
 * could not be removed; errno is set. */
static gboolean
remove_stale (const TpsAddress *address, const SocketAddress *socket_address)
{
  struct stat status;

  if (lstat (address->path, &status) < 0)
    return errno == ENOENT;
  if (!S_ISSOCK (status.st_mode))
    {
      errno = EEXIST;
      return FALSE;
    }
  if (is_answered (socket_address))
    {
      errno = EADDRINUSE;
      return FALSE;
    }
  return unlink (address->path) == 0 || errno == ENOENT;
}

/* Locks the folder of the socket. Between bind() and listen(), a socket looks like the socket of a
 * server that has ended. If two servers start at the same time, the lock prevents each of them from
 * removing the socket of the other. Returns a descriptor whose close unlocks the folder. Returns -1
 * if the folder cannot be opened, or if another process keeps it locked; the socket is then created
 * without the lock. */
static gint
lock_folder (const TpsAddress *address)
{
  g_autofree gchar *folder = g_path_get_dirname (address->path);
  gint fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  if (fd < 0)
    return -1;
  for (guint i = 0; i < MAX_LOCK_ATTEMPTS; i++)
    {
      if (flock (fd, LOCK_EX | LOCK_NB) == 0)
        return fd;
      g_usleep (LOCK_PAUSE_US);
    }
  close (fd);
  return -1;
}

/* Creates the Unix socket. Should be called with the folder locked. The mode is set before
 * listen(), and thus before any client can connect. */
static gint
make_unix (const TpsAddress *address, const SocketAddress *socket_address, gint fd, GError **error)
{
  tps_descriptors_refuse (fd);
  if (!remove_stale (address, socket_address))
    return fail_listen (address, fd, "path", error);
  if (bind (fd, as_sockaddr (socket_address), socket_address->n_bytes) < 0)
    return fail_listen (address, fd, "bind", error);
  if (chmod (address->path, 0600) < 0 || listen (fd, LISTEN_BACKLOG) < 0)
    {
      gint code = errno;

      unlink (address->path);
      errno = code;
      return fail_listen (address, fd, "listen", error);
    }
  return fd;
}

static gint
listen_tcp (const TpsAddress *address, const SocketAddress *socket_address, gint fd, GError **error)
{
  gint on = 1;

  setsockopt (fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind (fd, as_sockaddr (socket_address), socket_address->n_bytes) < 0)
    return fail_listen (address, fd, "bind", error);
  if (listen (fd, LISTEN_BACKLOG) < 0)
    return fail_listen (address, fd, "listen", error);
  return fd;
}

/* Returns the address for clients: the host as given, and the actual port. */
static gchar *
bound_to_string (const TpsAddress *address, gint fd)
{
  TpsAddress bound = *address;
  SocketAddress actual = { .n_bytes = sizeof actual.bytes };

  if (address->path == NULL
      && getsockname (fd, (struct sockaddr *) &actual.bytes, &actual.n_bytes) == 0)
    bound.port = ntohs (actual.bytes.ss_family == AF_INET6
                            ? ((const struct sockaddr_in6 *) &actual.bytes)->sin6_port
                            : ((const struct sockaddr_in *) &actual.bytes)->sin_port);
  return tps_address_to_string (&bound);
}

gint
tps_address_listen (const TpsAddress *address, gchar **bound, GError **error)
{
  g_autoptr (GArray) all = resolve (address, error);
  const SocketAddress *first;
  gint fd;

  if (all == NULL)
    return -1;
  first = &g_array_index (all, SocketAddress, 0);
  fd = open_socket (first);
  if (fd < 0)
    return fail_listen (address, fd, "socket", error);
  if (address->path != NULL)
    {
      gint lock = lock_folder (address);

      fd = make_unix (address, first, fd, error);
      if (lock >= 0)
        close (lock);
    }
  else
    fd = listen_tcp (address, first, fd, error);
  if (fd >= 0 && bound != NULL)
    *bound = bound_to_string (address, fd);
  return fd;
}

/* ---- connecting ----------------------------------------------------------------------------- */

/* Compares the hosts without the ports. */
static gboolean
is_same_host (const SocketAddress *a, const SocketAddress *b)
{
  const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *) &a->bytes;
  const struct sockaddr_in6 *b6 = (const struct sockaddr_in6 *) &b->bytes;

  if (a->bytes.ss_family != b->bytes.ss_family)
    return FALSE;
  if (a->bytes.ss_family == AF_INET6)
    return IN6_ARE_ADDR_EQUAL (&a6->sin6_addr, &b6->sin6_addr);
  return ((const struct sockaddr_in *) &a->bytes)->sin_addr.s_addr
         == ((const struct sockaddr_in *) &b->bytes)->sin_addr.s_addr;
}

/* The buffer of a Unix socket should fit into the second-level cache, where its copies cost half as
 * much as in main memory. A smaller buffer would divide a large message into many short writes and
 * wake-ups. Without the privilege for SO_SNDBUFFORCE, the kernel limits the size to
 * net.core.wmem_max. */
void
tps_socket_tune (gint fd)
{
  gint on = 1;
  gint buffer_bytes = (gint) tps_tuning_get ()->unix_buffer_bytes;
  gint family = 0;
  socklen_t n_bytes = sizeof family;
  static const gchar unpaced[] = "reno";
  SocketAddress here = { .n_bytes = sizeof here.bytes };
  SocketAddress there = { .n_bytes = sizeof there.bytes };
  gint idle_s = 60, between_s = 15, n_unanswered = 8;
  guint unacknowledged_ms = 180000;

  if (getsockopt (fd, SOL_SOCKET, SO_DOMAIN, &family, &n_bytes) < 0)
    return;
  if (family == AF_UNIX)
    {
      if (setsockopt (fd, SOL_SOCKET, SO_SNDBUFFORCE, &buffer_bytes, sizeof buffer_bytes) < 0)
        setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
      return;
    }
  /* TCP tunes the sizes of its buffers itself unless a program sets them. */
  setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  /* Limits the time in which the failure of a host or a link remains unnoticed. Without these
   * options, the kernel keeps sent bytes in flight for a quarter of an hour, and keeps an idle
   * connection for two hours. The limit must exceed the time for which a busy peer may stop
   * reading. */
  setsockopt (fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt (fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt (fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt (fd, IPPROTO_TCP, TCP_KEEPCNT, &n_unanswered, sizeof n_unanswered);
  setsockopt (fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
  /* Connections within a host go through memory, so they share no link, and lose no packets. A
   * congestion control that paces (BBR) mistakes pauses of the other end for the limit of a link.
   * In measurements, 1 MiB took either 0.14 ms or 0.38 ms, unpredictably, and 64 MiB took 26 ms
   * instead of 12. Every kernel has "reno", and every process may choose it. */
  if (getsockname (fd, (struct sockaddr *) &here.bytes, &here.n_bytes) == 0
      && getpeername (fd, (struct sockaddr *) &there.bytes, &there.n_bytes) == 0
      && is_same_host (&here, &there))
    setsockopt (fd, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced - 1);
}

/* Returns a socket, or -1 with errno. */
static gint
begin_to_connect (const SocketAddress *to, gboolean *in_progress)
{
  gint fd = open_socket (to);
  gint code;

  if (fd < 0)
    return -1;
  *in_progress = connect (fd, as_sockaddr (to), to->n_bytes) < 0;
  if (!*in_progress || errno == EINPROGRESS)
    return fd;
  code = errno;
  close (fd);
  errno = code;
  return -1;
}

gint
tps_address_connect (const TpsAddress *address, gboolean *in_progress, GError **error)
{
  g_autoptr (GArray) all = resolve (address, error);
  gint fd = -1;

  if (all == NULL)
    return -1;
  for (guint i = 0; fd < 0 && i < all->len; i++)
    {
      gboolean is_last = i + 1 == all->len;
      struct pollfd poll_fd = { .events = POLLOUT };

      poll_fd.fd = fd = begin_to_connect (&g_array_index (all, SocketAddress, i), in_progress);
      /* The next address is tried if this one does not answer soon. */
      if (fd >= 0 && !is_last && *in_progress
          && (poll (&poll_fd, 1, NEXT_ADDRESS_MS) != 1 || !tps_socket_check (fd, "", NULL)))
        {
          close (fd);
          fd = -1;
        }
    }
  if (fd < 0)
    {
      gint code = errno;
      g_autofree gchar *text = tps_address_to_string (address);

      g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "cannot connect to %s: %s", text,
                   g_strerror (code));
      return -1;
    }
  tps_socket_tune (fd);
  return fd;
}

gboolean
tps_socket_check (gint fd, const gchar *where, GError **error)
{
  gint code = 0;
  socklen_t n_bytes = sizeof code;

  if (getsockopt (fd, SOL_SOCKET, SO_ERROR, &code, &n_bytes) < 0)
    code = errno;
  if (code == 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_CONNECTION_LOST, "%s: %s", where, g_strerror (code));
}

/* ---- sockets from another process ----------------------------------------------------------- */

static gboolean
refuse_passed (gint fd, const gchar *problem, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "descriptor %d: %s", fd, problem);
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
    return refuse_passed (fd, "not a stream socket; expected ListenStream= in the socket unit",
                          error);
  if (get_option (fd, SO_ACCEPTCONN) != 1)
    return refuse_passed (fd, "the socket does not listen; expected Accept=no in the socket unit",
                          error);
  text = get_address (fd);
  if (text == NULL)
    return refuse_passed (fd, "neither a TCP socket nor a Unix socket", error);
  if (fcntl (fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl (fd, F_SETFD, FD_CLOEXEC) < 0)
    return refuse_passed (fd, g_strerror (errno), error);
  tps_descriptors_refuse (fd);
  *address = g_steal_pointer (&text);
  return TRUE;
}
