/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/host/host_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thrift/c_glib/server/thrift_simple_server.h>
#include <thrift/c_glib/transport/thrift_server_socket.h>
#include <thrift/c_glib/transport/thrift_socket.h>
#include <unistd.h>

#include "runtime/base/sync.h"

struct HostServer
{
  ThriftProcessor *processor;
  ThriftTransportFactory *transports;
  ThriftProtocolFactory *protocols;
  ThriftServerTransport *listener;
  ThriftServer *simple; /* NULL = a thread for each connection */
  guint16 port;
  TpsThread thread;

  TpsMutex lock;
  TpsCond ended;
  guint n_connections; /* threads that still use the server */
  GHashTable *sockets; /* descriptors of open sockets */
  gboolean stopping;
};

/* ---- a listener that reports its port ------------------------------------------------------ */

typedef struct
{
  ThriftServerSocket parent;
  TpsMutex lock;
  TpsCond listening;
  guint16 port; /* 0 until it listens */
} HostListener;

typedef struct
{
  ThriftServerSocketClass parent;
} HostListenerClass;

GType host_listener_get_type (void);

G_DEFINE_TYPE (HostListener, host_listener, THRIFT_TYPE_SERVER_SOCKET)

static gboolean
host_listener_listen (ThriftServerTransport *base, GError **error)
{
  HostListener *listener = (HostListener *) base;
  struct sockaddr_in address;
  socklen_t n_bytes = sizeof address;

  if (!THRIFT_SERVER_TRANSPORT_CLASS (host_listener_parent_class)->listen (base, error))
    return FALSE;
  if (getsockname (THRIFT_SERVER_SOCKET (base)->sd, (struct sockaddr *) &address, &n_bytes) != 0)
    g_error ("getsockname failed");
  tps_mutex_lock (&listener->lock);
  listener->port = ntohs (address.sin_port);
  tps_cond_signal (&listener->listening);
  tps_mutex_unlock (&listener->lock);
  return TRUE;
}

static void
host_listener_init (HostListener *listener)
{
  tps_mutex_init (&listener->lock);
  tps_cond_init (&listener->listening);
}

static void
host_listener_class_init (HostListenerClass *klass)
{
  THRIFT_SERVER_TRANSPORT_CLASS (klass)->listen = host_listener_listen;
}

static guint16
wait_for_port (ThriftServerTransport *base)
{
  HostListener *listener = (HostListener *) base;
  guint16 port;

  tps_mutex_lock (&listener->lock);
  while (listener->port == 0)
    tps_cond_wait (&listener->listening, &listener->lock);
  port = listener->port;
  tps_mutex_unlock (&listener->lock);
  return port;
}

/* ---- a thread for each connection ----------------------------------------------------------- */

typedef struct
{
  HostServer *server;
  ThriftTransport *socket;
} Connection;

/* thrift_transport_factory_get_transport() does not call the factory's own method, so this function
 * calls the method directly. */
static ThriftTransport *
wrap (HostServer *server, ThriftTransport *socket)
{
  return THRIFT_TRANSPORT_FACTORY_GET_CLASS (server->transports)
      ->get_transport (server->transports, socket);
}

static void
serve_connection (HostServer *server, ThriftTransport *socket)
{
  ThriftTransport *in_transport = wrap (server, socket);
  ThriftTransport *out_transport = wrap (server, socket);
  ThriftProtocol *in = thrift_protocol_factory_get_protocol (server->protocols, in_transport);
  ThriftProtocol *out = thrift_protocol_factory_get_protocol (server->protocols, out_transport);
  GError *error = NULL;

  while (thrift_processor_process (server->processor, in, out, &error)
         && thrift_transport_peek (in_transport, &error))
    ;
  if (error != NULL)
    g_debug ("connection: %s", error->message);
  g_clear_error (&error);
  g_object_unref (in);
  g_object_unref (out);
  g_object_unref (in_transport);
  g_object_unref (out_transport);
}

static void *
connection_thread (void *data)
{
  Connection connection = *(Connection *) data;
  HostServer *server = connection.server;
  gint fd = THRIFT_SOCKET (connection.socket)->sd;

  g_free (data);
  serve_connection (server, connection.socket);
  tps_mutex_lock (&server->lock);
  g_hash_table_remove (server->sockets, GINT_TO_POINTER (fd));
  tps_mutex_unlock (&server->lock);
  g_object_unref (connection.socket); /* closes the socket */
  tps_mutex_lock (&server->lock);
  server->n_connections--;
  tps_cond_signal (&server->ended);
  tps_mutex_unlock (&server->lock);
  return NULL;
}

static void
start_connection (HostServer *server, ThriftTransport *socket)
{
  Connection *connection = g_new (Connection, 1);
  TpsThread thread;

  connection->server = server;
  connection->socket = socket;
  tps_mutex_lock (&server->lock);
  g_hash_table_add (server->sockets, GINT_TO_POINTER (THRIFT_SOCKET (socket)->sd));
  if (server->stopping)
    shutdown (THRIFT_SOCKET (socket)->sd, SHUT_RDWR);
  server->n_connections++;
  tps_sync_check (pthread_create (&thread, NULL, connection_thread, connection));
  tps_sync_check (pthread_detach (thread));
  tps_mutex_unlock (&server->lock);
}

static gboolean
is_stopping (HostServer *server)
{
  gboolean stopping;

  tps_mutex_lock (&server->lock);
  stopping = server->stopping;
  tps_mutex_unlock (&server->lock);
  return stopping;
}

static void *
accept_thread (void *data)
{
  HostServer *server = data;

  while (!is_stopping (server))
    {
      ThriftTransport *socket = thrift_server_transport_accept (server->listener, NULL);

      if (socket != NULL)
        start_connection (server, socket);
    }
  return NULL;
}

static void *
simple_thread (void *data)
{
  HostServer *server = data;
  GError *error = NULL;

  thrift_server_serve (server->simple, &error);
  g_clear_error (&error);
  return NULL;
}

/* ---- both ----------------------------------------------------------------------------------- */

HostServer *
host_server_start (gboolean simple, ThriftProcessor *processor, ThriftTransportFactory *transports,
                   ThriftProtocolFactory *protocols)
{
  HostServer *server = g_new0 (HostServer, 1);

  tps_mutex_init (&server->lock);
  tps_cond_init (&server->ended);
  server->sockets = g_hash_table_new (NULL, NULL);
  server->processor = g_object_ref (processor);
  server->transports = g_object_ref (transports);
  server->protocols = g_object_ref (protocols);
  server->listener = g_object_new (host_listener_get_type (), "port", 0, "backlog", 128, NULL);
  if (simple)
    server->simple = g_object_new (
        THRIFT_TYPE_SIMPLE_SERVER, "processor", processor, "server_transport", server->listener,
        "input_transport_factory", transports, "output_transport_factory", transports,
        "input_protocol_factory", protocols, "output_protocol_factory", protocols, NULL);
  else if (!thrift_server_transport_listen (server->listener, NULL))
    g_error ("cannot listen");
  tps_sync_check (
      pthread_create (&server->thread, NULL, simple ? simple_thread : accept_thread, server));
  server->port = wait_for_port (server->listener);
  return server;
}

guint16
host_server_get_port (const HostServer *server)
{
  return server->port;
}

/* Wakes a server that still waits in accept() by connecting to it. */
static void
knock (const HostServer *server)
{
  struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons (server->port) };
  gint fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  if (fd < 0)
    g_error ("no socket is left");
  if (connect (fd, (struct sockaddr *) &address, sizeof address) != 0)
    g_debug ("the server has stopped already");
  close (fd);
}

static void
shut_down_socket (gpointer key, gpointer value, gpointer user_data)
{
  shutdown (GPOINTER_TO_INT (key), SHUT_RDWR);
}

static void
stop (HostServer *server)
{
  tps_mutex_lock (&server->lock);
  server->stopping = TRUE;
  g_hash_table_foreach (server->sockets, shut_down_socket, NULL);
  tps_mutex_unlock (&server->lock);
  if (server->simple != NULL)
    thrift_server_stop (server->simple);
  knock (server);
  tps_sync_check (pthread_join (server->thread, NULL));
  tps_mutex_lock (&server->lock);
  while (server->n_connections > 0)
    tps_cond_wait (&server->ended, &server->lock);
  tps_mutex_unlock (&server->lock);
}

void
host_server_free (HostServer *server)
{
  stop (server);
  g_clear_object (&server->simple);
  g_object_unref (server->listener);
  g_object_unref (server->processor);
  g_object_unref (server->transports);
  g_object_unref (server->protocols);
  g_hash_table_unref (server->sockets);
  tps_cond_clear (&server->ended);
  tps_mutex_clear (&server->lock);
  g_free (server);
}
