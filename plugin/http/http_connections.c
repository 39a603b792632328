/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/http_connections.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/http/http_guard.h"
#include "runtime/base/descriptor_table.h"
#include "runtime/base/trace.h"

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
  guint n_cut; /* connections that have been shut down, but that libsoup has not released yet */
  guint64 n_accepted, n_refused;
};

/* ---- deadlines and end of connections ------------------------------------------------------- */

static void
clear_source (GSource **source)
{
  if (*source == NULL)
    return;
  g_source_destroy (*source);
  g_clear_pointer (source, g_source_unref);
}

static void
forget_message (gpointer data, GObject *message)
{
  ((TpsHttpConnection *) data)->message = NULL;
}

static void
free_connection (TpsHttpConnection *connection)
{
  TpsHttpConnections *all = connection->all;

  clear_source (&connection->deadline);
  clear_source (&connection->receiving);
  if (connection->message != NULL)
    g_object_weak_unref (G_OBJECT (connection->message), forget_message, connection);
  g_queue_unlink (&all->list, &connection->link);
  tps_gauge_add (all->open, -1);
  if (connection->is_stream)
    all->n_streams--;
  if (connection->is_cut)
    all->n_cut--;
  tps_charge_clear (&connection->charge);
  g_clear_object (&connection->carrier);
  g_object_unref (connection->socket);
  g_free (connection->request);
  g_free (connection->peer);
  g_free (connection);
}

/* libsoup has released its stream. */
static void
on_gone (gpointer data, GObject *stream)
{
  free_connection (data);
}

/* The message of an event stream is usually paused. It must be resumed, so that libsoup writes to
 * the socket and detects its end. */
void
tps_http_connection_cut (TpsHttpConnection *connection)
{
  if (connection->receiving != NULL)
    {
      free_connection (connection);
      return;
    }
  clear_source (&connection->deadline);
  if (!connection->is_cut)
    connection->all->n_cut++;
  connection->is_cut = TRUE;
  g_socket_shutdown (connection->socket, TRUE, TRUE, NULL);
  if (connection->is_stream && connection->message != NULL)
    soup_server_message_unpause (connection->message);
}

static gboolean
on_deadline (gpointer data)
{
  TpsHttpConnection *connection = data;

  tps_trace (&http_cut, tps_field_text ("peer", connection->peer),
             tps_field_text ("reason", connection->is_answered ? "the response is not read"
                                                               : "the request is incomplete"));
  tps_http_connection_cut (connection);
  return G_SOURCE_REMOVE;
}

static void
set_deadline (TpsHttpConnection *connection, guint delay_ms)
{
  clear_source (&connection->deadline);
  connection->deadline = g_timeout_source_new (delay_ms);
  g_source_set_callback (connection->deadline, on_deadline, connection, NULL);
  g_source_attach (connection->deadline, connection->all->limits.context);
}

/* Makes room for the connection `fd`. Returns FALSE if there are too many connections, or too few
 * descriptors, and no connection can give way. */
static gboolean
make_room (TpsHttpConnections *connections, gint fd)
{
  TpsHttpConnection *slowest = NULL;
  gboolean has_descriptors = tps_descriptor_table_may_keep (fd, TPS_DESCRIPTOR_OF_HTTP);

  if (has_descriptors
      && connections->list.length - connections->n_cut < connections->limits.max_connections)
    return TRUE;
  for (GList *item = connections->list.head; item != NULL; item = item->next) /* oldest first */
    {
      TpsHttpConnection *each = item->data;

      if (!each->is_stream && !each->is_cut
          && (slowest == NULL || (slowest->is_answered && !each->is_answered)))
        slowest = each;
    }
  if (slowest == NULL)
    return FALSE;
  tps_trace (
      &http_cut, tps_field_text ("peer", slowest->peer),
      tps_field_text ("reason", has_descriptors ? "too many connections" : TPS_DESCRIPTORS_LACK));
  tps_http_connection_cut (slowest);
  return TRUE;
}

/* ---- accepting ------------------------------------------------------------------------------ */

static const gchar *
describe_refusal (guint status)
{
  return status == 431 ? "Request Header Fields Too Large" : soup_status_get_phrase (status);
}

/* Sends a response without a body. The caller must close the socket. `reason` is for the log. */
static void
send_refusal (TpsHttpConnections *connections, gint fd, guint status, const gchar *reason)
{
  gchar text[160];
  gint n_bytes = g_snprintf (text, sizeof text,
                             "HTTP/1.1 %u %s\r\n%sContent-Length: 0\r\nConnection: close\r\n\r\n",
                             status, describe_refusal (status),
                             status == SOUP_STATUS_SERVICE_UNAVAILABLE ? "Retry-After: 1\r\n" : "");

  connections->n_refused++;
  tps_trace (&http_refused, tps_field_text ("reason", reason));
  if (send (fd, text, (gsize) n_bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
    shutdown (fd, SHUT_WR);
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

/* Passes the request to libsoup, which emits "request-started" before this function returns. libsoup
 * reads from memory, and writes to the socket. */
static void
serve (TpsHttpConnection *connection, gsize n_request)
{
  TpsHttpConnections *all = connection->all;
  g_autoptr (GInputStream) input = g_memory_input_stream_new_from_data (
      g_steal_pointer (&connection->request), (gssize) n_request, g_free);
  g_autoptr (GSocketAddress) local = g_socket_get_local_address (connection->socket, NULL);
  g_autoptr (GSocketAddress) remote = g_socket_get_remote_address (connection->socket, NULL);
  g_autoptr (GIOStream) stream = NULL;

  if (local == NULL || remote == NULL) /* the peer has disconnected */
    {
      free_connection (connection);
      return;
    }
  clear_source (&connection->receiving);
  connection->carrier = g_socket_connection_factory_create_connection (connection->socket);
  stream = g_simple_io_stream_new (
      input, g_io_stream_get_output_stream (G_IO_STREAM (connection->carrier)));
  g_object_weak_ref (G_OBJECT (stream), on_gone, connection);
  all->starting = connection;
  soup_server_accept_iostream (all->limits.soup, stream, local, remote, NULL);
  all->starting = NULL;
}

static gboolean
on_readable (GSocket *socket, GIOCondition condition, gpointer data)
{
  TpsHttpConnection *connection = data;
  gssize n = recv (g_socket_get_fd (socket), connection->request + connection->n_received,
                   TPS_HTTP_MAX_REQUEST_BYTES - connection->n_received, MSG_DONTWAIT);
  gsize n_request;
  guint status;

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return G_SOURCE_CONTINUE;
  if (n <= 0)
    {
      free_connection (connection);
      return G_SOURCE_REMOVE;
    }
  connection->n_received += (gsize) n;
  connection->request[connection->n_received] = '\0';
  status = tps_http_guard_examine (connection->request, connection->n_received, &n_request);
  if (status == 0)
    return G_SOURCE_CONTINUE;
  if (status == SOUP_STATUS_OK)
    serve (connection, n_request);
  else
    {
      send_refusal (connection->all, g_socket_get_fd (socket), status, describe_refusal (status));
      free_connection (connection);
    }
  return G_SOURCE_REMOVE;
}

void
tps_http_connections_accept (TpsHttpConnections *connections, gint fd)
{
  struct sockaddr_storage peer = { 0 };
  socklen_t n_bytes = sizeof peer;
  gint send_buffer = SEND_BUFFER_BYTES;
  TpsHttpConnection *connection;
  GSocket *socket = NULL;
  gboolean has_room = make_room (connections, fd);

  if (!has_room)
    send_refusal (connections, fd, SOUP_STATUS_SERVICE_UNAVAILABLE,
                  "too many connections, or too few descriptors");
  if (!has_room || getpeername (fd, (struct sockaddr *) &peer, &n_bytes) < 0
      || (socket = g_socket_new_from_fd (fd, NULL)) == NULL)
    {
      close (fd);
      return;
    }
  connection = g_new0 (TpsHttpConnection, 1);
  connection->all = connections;
  connection->link.data = connection;
  connection->socket = socket;
  connection->request = g_malloc (TPS_HTTP_MAX_REQUEST_BYTES + 1);
  connection->peer = describe_peer (&peer, n_bytes);
  connection->is_local = tps_http_guard_is_local (&peer);
  connection->charge = (TpsCharge) { connections->limits.budget, 0 };
  setsockopt (fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  connections->n_accepted++;
  g_queue_push_tail_link (&connections->list, &connection->link);
  tps_gauge_add (connections->open, 1);
  set_deadline (connection, connections->limits.request_ms);
  connection->receiving = g_socket_create_source (socket, G_IO_IN, NULL);
  g_source_set_callback (connection->receiving, G_SOURCE_FUNC (on_readable), connection, NULL);
  g_source_attach (connection->receiving, connections->limits.context);
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

static const TpsFamily open_connections = TPS_FAMILY (
    GAUGE, "http_connections", "HTTP connections that are open, event streams included.");

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

void
tps_http_connection_expect_taken (TpsHttpConnection *connection)
{
  connection->is_answered = TRUE;
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
  clear_source (&connection->deadline);
  return TRUE;
}
