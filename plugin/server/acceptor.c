/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/acceptor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/net/address.h"
#include "plugin/net/descriptors.h"
#include "runtime/base/descriptor_table.h"
#include "runtime/base/error.h"
#include "runtime/base/trace.h"

#define MAX_ACCEPTS_PER_TURN 64
/* The pause after accept() has failed for lack of descriptors or memory. */
#define PAUSE_NS ((gint64) 100 * 1000000)

static TpsTraceEvent connection_accepted = TPS_TRACE_EVENT ("connection_accepted", TPS_TRACE_DEBUG);
static TpsTraceEvent connection_refused = TPS_TRACE_EVENT ("connection_refused", TPS_TRACE_WARNING);
static TpsTraceEvent accept_failed = TPS_TRACE_EVENT ("accept_failed", TPS_TRACE_ERROR);

typedef struct
{
  TpsAcceptor *acceptor;
  gint fd;
  TpsWatch *watch;
  /* The file of a Unix socket that must be removed; NULL = none. Its identity is stored, because
   * another server may have replaced the file. */
  gchar *path;
  dev_t device;
  ino_t inode;
} Listener;

struct TpsAcceptor
{
  GPtrArray *listeners; /* of Listener */
  GPtrArray *addresses; /* of gchar *, ended by NULL */
  TpsIoThread *io;
  guint n_io;

  /* Used only on the thread of the first loop. */
  guint next;
  guint64 resume_timer;
};

/* ---- accepting ------------------------------------------------------------------------------ */

static void
describe_peer (const struct sockaddr_storage *peer, gchar *text, gsize size)
{
  const struct sockaddr_in *v4 = (const struct sockaddr_in *) peer;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) peer;
  gchar host[INET6_ADDRSTRLEN] = "?";

  if (peer->ss_family == AF_INET)
    g_snprintf (text, size, "%s:%u", inet_ntop (AF_INET, &v4->sin_addr, host, sizeof host),
                (guint) ntohs (v4->sin_port));
  else if (peer->ss_family == AF_INET6)
    g_snprintf (text, size, "[%s]:%u", inet_ntop (AF_INET6, &v6->sin6_addr, host, sizeof host),
                (guint) ntohs (v6->sin6_port));
  else
    g_strlcpy (text, "unix peer", size);
}

static void
take_connection (TpsAcceptor *acceptor, gint fd, const struct sockaddr_storage *peer)
{
  TpsServerCore *core = acceptor->io[0].core;
  gchar text[INET6_ADDRSTRLEN + 16];
  gboolean has_descriptors;

  describe_peer (peer, text, sizeof text);
  has_descriptors = tps_descriptor_table_may_keep (fd, TPS_DESCRIPTOR_OF_PEER);
  if (!has_descriptors || tps_server_core_is_full (core))
    {
      tps_trace (&connection_refused, tps_field_text ("peer", text),
                 tps_field_uint ("max_connections", core->limits.max_connections),
                 tps_field_text ("reason", has_descriptors ? NULL : TPS_DESCRIPTORS_LACK));
      tps_counter_add (core->counts.refused, 1);
      tps_descriptors_close_socket (fd);
      return;
    }
  atomic_fetch_add (&core->n_connections, 1);
  tps_trace (&connection_accepted, tps_field_text ("peer", text));
  tps_counter_add (core->counts.accepted, 1);
  tps_gauge_add (core->counts.open, 1);
  tps_socket_tune (fd);
  tps_session_begin (&acceptor->io[acceptor->next++ % acceptor->n_io], fd, text,
                     core->tls != NULL && peer->ss_family != AF_UNIX
                         ? tps_tls_acceptor_get_channel (core->tls)
                         : &tps_plain_channel);
}

/* Sets the events of all listeners. Returns FALSE if at least one could not be changed. */
static gboolean
set_interest (TpsAcceptor *acceptor, guint32 epoll_events)
{
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < acceptor->listeners->len; i++)
    {
      Listener *listener = g_ptr_array_index (acceptor->listeners, i);

      if (!tps_loop_modify_watch (acceptor->io[0].loop, listener->watch, epoll_events,
                                  error == NULL ? &error : NULL)
          && error != NULL)
        tps_trace (&accept_failed, tps_field_text ("reason", error->message));
    }
  return error == NULL;
}

static void resume_accepting (gpointer data);

static void
resume_later (TpsAcceptor *acceptor)
{
  acceptor->resume_timer = tps_loop_add_timer (acceptor->io[0].loop, tps_clock_now_ns () + PAUSE_NS,
                                               resume_accepting, acceptor);
}

static void
resume_accepting (gpointer data)
{
  TpsAcceptor *acceptor = data;

  acceptor->resume_timer = 0;
  if (!set_interest (acceptor, EPOLLIN))
    resume_later (acceptor);
}

static void
on_connections (guint32 epoll_events, gpointer data)
{
  Listener *listener = data;

  for (guint i = 0; i < MAX_ACCEPTS_PER_TURN; i++)
    {
      struct sockaddr_storage peer = { 0 };
      socklen_t n_bytes = sizeof peer;
      gint fd = accept4 (listener->fd, (struct sockaddr *) &peer, &n_bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
      gint code = errno;

      if (fd >= 0)
        {
          take_connection (listener->acceptor, fd, &peer);
          continue;
        }
      if (code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM)
        {
          /* The connection stays in the backlog, so the socket stays readable. Without a pause, the
           * loop would retry accept() without end. */
          tps_trace (&accept_failed, tps_field_text ("reason", g_strerror (code)));
          if (listener->acceptor->resume_timer == 0)
            {
              set_interest (listener->acceptor, 0);
              resume_later (listener->acceptor);
            }
        }
      if (code != EINTR && code != ECONNABORTED)
        return;
    }
}

/* ---- listening ------------------------------------------------------------------------------ */

TpsAcceptor *
tps_acceptor_new (void)
{
  TpsAcceptor *acceptor = g_new0 (TpsAcceptor, 1);

  acceptor->listeners = g_ptr_array_new ();
  acceptor->addresses = g_ptr_array_new_with_free_func (g_free);
  g_ptr_array_add (acceptor->addresses, NULL);
  return acceptor;
}

static void
remember_file (Listener *listener, const gchar *path)
{
  struct stat status;

  if (path == NULL || lstat (path, &status) < 0)
    return;
  listener->path = g_strdup (path);
  listener->device = status.st_dev;
  listener->inode = status.st_ino;
}

/* Adds a listener. Takes ownership of `fd` and `bound`. `path` is the file of a Unix socket, which
 * is removed when the listener closes; NULL = no file is removed. */
static void
add_listener (TpsAcceptor *acceptor, gint fd, gchar *bound, const gchar *path)
{
  Listener *listener = g_new0 (Listener, 1);

  listener->acceptor = acceptor;
  listener->fd = fd;
  remember_file (listener, path);
  g_ptr_array_add (acceptor->listeners, listener);
  g_ptr_array_insert (acceptor->addresses, (gint) acceptor->addresses->len - 1, bound);
}

gboolean
tps_acceptor_listen (TpsAcceptor *acceptor, const gchar *text, GError **error)
{
  g_auto (TpsAddress) address = { NULL };
  gchar *bound = NULL;
  gint fd;

  if (!tps_address_parse (text, &address, error))
    return FALSE;
  fd = tps_address_listen (&address, &bound, error);
  if (fd < 0)
    return FALSE;
  add_listener (acceptor, fd, bound, address.path);
  return TRUE;
}

/* The file of a Unix socket belongs to the process that created it, so it is not removed here. */
gboolean
tps_acceptor_take_socket (TpsAcceptor *acceptor, gint fd, GError **error)
{
  gchar *address = NULL;

  if (!tps_passed_socket_prepare (fd, &address, error))
    return FALSE;
  add_listener (acceptor, fd, address, NULL);
  return TRUE;
}

const gchar *const *
tps_acceptor_get_addresses (TpsAcceptor *acceptor)
{
  return (const gchar *const *) acceptor->addresses->pdata;
}

static void
remove_watches (TpsAcceptor *acceptor)
{
  for (guint i = 0; i < acceptor->listeners->len; i++)
    {
      Listener *listener = g_ptr_array_index (acceptor->listeners, i);

      if (listener->watch != NULL)
        tps_loop_remove_watch (acceptor->io[0].loop, listener->watch);
      listener->watch = NULL;
    }
}

typedef struct
{
  TpsAcceptor *acceptor;
  GError *error;
} Start;

static void
start_on_loop (gpointer data)
{
  Start *start = data;
  TpsAcceptor *acceptor = start->acceptor;

  for (guint i = 0; start->error == NULL && i < acceptor->listeners->len; i++)
    {
      Listener *listener = g_ptr_array_index (acceptor->listeners, i);

      listener->watch = tps_loop_add_watch (acceptor->io[0].loop, listener->fd, EPOLLIN,
                                            on_connections, listener, &start->error);
    }
  if (start->error != NULL)
    remove_watches (acceptor);
}

gboolean
tps_acceptor_start (TpsAcceptor *acceptor, TpsIoThread *io, guint n_io, GError **error)
{
  Start start = { .acceptor = acceptor };

  acceptor->io = io;
  acceptor->n_io = n_io;
  tps_loop_call (io[0].loop, start_on_loop, &start);
  if (start.error == NULL)
    return TRUE;
  acceptor->io = NULL;
  g_propagate_error (error, start.error);
  return FALSE;
}

static void
close_listener (Listener *listener)
{
  struct stat status;

  if (listener->path != NULL && lstat (listener->path, &status) == 0
      && status.st_dev == listener->device && status.st_ino == listener->inode)
    unlink (listener->path);
  close (listener->fd);
  g_free (listener->path);
  g_free (listener);
}

static void
close_listeners (TpsAcceptor *acceptor)
{
  for (guint i = 0; i < acceptor->listeners->len; i++)
    close_listener (g_ptr_array_index (acceptor->listeners, i));
  g_ptr_array_set_size (acceptor->listeners, 0);
}

static void
stop_on_loop (gpointer data)
{
  TpsAcceptor *acceptor = data;
  TpsLoop *loop = acceptor->io[0].loop;

  if (acceptor->resume_timer != 0)
    tps_loop_cancel_timer (loop, acceptor->resume_timer);
  remove_watches (acceptor);
  close_listeners (acceptor);
}

void
tps_acceptor_stop (TpsAcceptor *acceptor)
{
  if (acceptor->io != NULL)
    tps_loop_call (acceptor->io[0].loop, stop_on_loop, acceptor);
  else
    close_listeners (acceptor);
  acceptor->io = NULL;
}

void
tps_acceptor_free (TpsAcceptor *acceptor)
{
  close_listeners (acceptor);
  g_ptr_array_unref (acceptor->listeners);
  g_ptr_array_unref (acceptor->addresses);
  g_free (acceptor);
}
