/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/http_connections.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/http/http_guard.h"
#include "runtime/base/trace.h"

/* The memory that libsoup and GIO allocate for one connection: the head of a request (at most 64
 * KiB), its parsed fields, and streams. */
#define CONNECTION_BYTES ((gsize) 160 << 10)

/* The size of a socket's send buffer. The kernel would let it grow to some megabytes, enough for
 * the events of hours. A client that does not read would be detected too late. */
#define SEND_BUFFER_BYTES (128 << 10)

#define MESSAGE_KEY "thriftps-connection"

static TpsTraceEvent http_refused = TPS_TRACE_EVENT ("http_refused", TPS_TRACE_WARNING);
static TpsTraceEvent http_cut = TPS_TRACE_EVENT ("http_cut", TPS_TRACE_INFO);

struct TpsHttpConnections
{
  TpsHttpConnectionLimits limits;
  GQueue list;                 /* of TpsHttpConnection */
  TpsHttpConnection *starting; /* the connection that is being passed to libsoup */
  TpsGauge *open;
  guint n_streams;
  guint64 n_accepted, n_refused;
};

struct TpsHttpConnection
{
  TpsHttpConnections *all;
  GList link;
  GSocket *socket;
  SoupServerMessage *message; /* borrowed while libsoup uses it; otherwise NULL */
  gchar *peer;
  gboolean is_local;
  gboolean is_stream;
  TpsCharge charge;
  GSource *deadline; /* NULL = none */
};

/* ---- deadlines and end of connections ------------------------------------------------------- */

static void
clear_deadline (TpsHttpConnection *connection)
{
  if (connection->deadline == NULL)
    return;
  g_source_destroy (connection->deadline);
  g_clear_pointer (&connection->deadline, g_source_unref);
}

/* The message of an event stream is usually paused. It must be resumed, so that libsoup reads the
 * socket and detects its end. */
void
tps_http_connection_cut (TpsHttpConnection *connection)
{
  clear_deadline (connection);
  g_socket_shutdown (connection->socket, TRUE, TRUE, NULL);
  if (connection->is_stream && connection->message != NULL)
    soup_server_message_unpause (connection->message);
}

static gboolean
on_deadline (gpointer data)
{
  TpsHttpConnection *connection = data;

  tps_trace (&http_cut, tps_field_text ("peer", connection->peer));
  tps_http_connection_cut (connection);
  return G_SOURCE_REMOVE;
}

static void
set_deadline (TpsHttpConnection *connection, guint delay_ms)
{
  clear_deadline (connection);
  connection->deadline = g_timeout_source_new (delay_ms);
  g_source_set_callback (connection->deadline, on_deadline, connection, NULL);
  g_source_attach (connection->deadline, connection->all->limits.context);
}

static void
forget_message (gpointer data, GObject *message)
{
  ((TpsHttpConnection *) data)->message = NULL;
}

/* Frees the connection after libsoup has released its stream. */
static void
on_gone (gpointer data, GObject *stream)
{
  TpsHttpConnection *connection = data;
  TpsHttpConnections *all = connection->all;

  clear_deadline (connection);
  if (connection->message != NULL)
    g_object_weak_unref (G_OBJECT (connection->message), forget_message, connection);
  g_queue_unlink (&all->list, &connection->link);
  tps_gauge_add (all->open, -1);
  if (connection->is_stream)
    all->n_streams--;
  tps_charge_clear (&connection->charge);
  g_object_unref (connection->socket);
  g_free (connection->peer);
  g_free (connection);
}

/* ---- accepting ------------------------------------------------------------------------------ */

static void
refuse (TpsHttpConnections *connections, gint fd, const gchar *reason)
{
  static const gchar text[] = "HTTP/1.1 503 Service Unavailable\r\n"
                              "Retry-After: 1\r\n"
                              "Content-Length: 0\r\n"
                              "Connection: close\r\n\r\n";

  connections->n_refused++;
  tps_trace (&http_refused, tps_field_text ("reason", reason));
  if (send (fd, text, sizeof text - 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
    shutdown (fd, SHUT_WR);
  close (fd);
}

static gchar *
describe_peer (const struct sockaddr_storage *peer, socklen_t n_bytes)
{
  struct sockaddr_storage copy = *peer;
  g_autoptr (GSocketAddress) address = NULL;

  if (peer->ss_family == AF_UNIX)
    return g_strdup ("unix peer");
  address = g_socket_address_new_from_native (&copy, n_bytes);
  return address != NULL ? g_socket_connectable_to_string (G_SOCKET_CONNECTABLE (address))
                         : g_strdup ("?");
}

/* Passes the connection to libsoup, which emits "request-started" before this function returns. */
static void
serve (TpsHttpConnection *connection)
{
  TpsHttpConnections *all = connection->all;
  g_autoptr (GError) error = NULL;
  g_autoptr (GSocketConnection)
      stream = g_socket_connection_factory_create_connection (connection->socket);
  g_autoptr (GSocketAddress) local = g_socket_get_local_address (connection->socket, NULL);
  g_autoptr (GSocketAddress) remote = g_socket_get_remote_address (connection->socket, NULL);

  g_object_weak_ref (G_OBJECT (stream), on_gone, connection);
  all->starting = connection;
  soup_server_accept_iostream (all->limits.soup, G_IO_STREAM (stream), local, remote, &error);
  all->starting = NULL;
}

void
tps_http_connections_accept (TpsHttpConnections *connections, gint fd)
{
  struct sockaddr_storage peer = { 0 };
  socklen_t n_bytes = sizeof peer;
  TpsCharge charge = { connections->limits.budget, 0 };
  gint send_buffer = SEND_BUFFER_BYTES;
  g_autoptr (GError) error = NULL;
  TpsHttpConnection *connection;
  GSocket *socket;

  if (connections->list.length >= connections->limits.max_connections)
    {
      refuse (connections, fd, "too many connections");
      return;
    }
  if (!tps_charge_set (&charge, CONNECTION_BYTES, &error)
      || getpeername (fd, (struct sockaddr *) &peer, &n_bytes) < 0
      || (socket = g_socket_new_from_fd (fd, &error)) == NULL)
    {
      tps_charge_clear (&charge);
      refuse (connections, fd, error != NULL ? error->message : "the peer has disconnected");
      return;
    }
  connection = g_new0 (TpsHttpConnection, 1);
  connection->all = connections;
  connection->link.data = connection;
  connection->socket = socket;
  connection->peer = describe_peer (&peer, n_bytes);
  connection->is_local = tps_http_guard_is_local (&peer);
  connection->charge = charge;
  setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  connections->n_accepted++;
  g_queue_push_tail_link (&connections->list, &connection->link);
  tps_gauge_add (connections->open, 1);
  set_deadline (connection, connections->limits.request_ms);
  serve (connection);
}

static void
on_started (SoupServer *soup, SoupServerMessage *message, gpointer data)
{
  TpsHttpConnections *connections = data;
  TpsHttpConnection *connection = connections->starting;

  g_assert (connection != NULL && connection->message == NULL);
  connection->message = message;
  g_object_set_data (G_OBJECT (message), MESSAGE_KEY, connection);
  g_object_weak_ref (G_OBJECT (message), forget_message, connection);
}

/* ---- creation and release ------------------------------------------------------------------- */

static const TpsFamily open_connections = {
  .name = "http_connections",
  .help = "HTTP connections that are open, event streams included.",
  .kind = TPS_FAMILY_GAUGE,
};

TpsHttpConnections *
tps_http_connections_new (const TpsHttpConnectionLimits *limits)
{
  TpsHttpConnections *connections = g_new0 (TpsHttpConnections, 1);

  connections->limits = *limits;
  g_queue_init (&connections->list);
  connections->open = tps_counters_use_gauge (limits->counters, &open_connections, NULL, NULL);
  g_signal_connect (limits->soup, "request-started", G_CALLBACK (on_started), connections);
  return connections;
}

void
tps_http_connections_cut_all (TpsHttpConnections *connections)
{
  for (GList *item = connections->list.head, *next; item != NULL; item = next)
    {
      next = item->next;
      tps_http_connection_cut (item->data);
    }
}

void
tps_http_connections_free (TpsHttpConnections *connections)
{
  /* If libsoup still has a connection, on_gone() will use this structure, so it must leak. */
  if (connections->list.length == 0)
    g_free (connections);
}

void
tps_http_connections_get_counts (const TpsHttpConnections *connections,
                                 TpsHttpConnectionCounts *counts)
{
  *counts = (TpsHttpConnectionCounts) { .n_connections = connections->list.length,
                                        .n_streams = connections->n_streams,
                                        .n_accepted = connections->n_accepted,
                                        .n_refused = connections->n_refused };
}

/* ---- functions for one connection ----------------------------------------------------------- */

TpsHttpConnection *
tps_http_connection_of (SoupServerMessage *message)
{
  return g_object_get_data (G_OBJECT (message), MESSAGE_KEY);
}

const gchar *
tps_http_connection_get_peer (const TpsHttpConnection *connection)
{
  return connection->peer;
}

gboolean
tps_http_connection_is_local (const TpsHttpConnection *connection)
{
  return connection->is_local;
}

gboolean
tps_http_connection_charge (TpsHttpConnection *connection, gsize n_bytes, GError **error)
{
  return tps_charge_add (&connection->charge, n_bytes, error);
}

void
tps_http_connection_expect_taken (TpsHttpConnection *connection)
{
  if (!connection->is_stream)
    set_deadline (connection, connection->all->limits.answer_ms);
}

gboolean
tps_http_connection_become_stream (TpsHttpConnection *connection)
{
  if (connection->all->n_streams >= connection->all->limits.max_streams)
    {
      connection->all->n_refused++;
      return FALSE;
    }
  connection->all->n_streams++;
  connection->is_stream = TRUE;
  clear_deadline (connection);
  return TRUE;
}
