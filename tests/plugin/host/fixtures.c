/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/plugin/host/fixtures.h"

#include <sys/socket.h>
#include <thrift/c_glib/processor/thrift_dispatch_processor.h>

#include "fleet_log_health.h"
#include "fleet_log_journal.h"

/* ---- a socket like TLS ---------------------------------------------------------------------- */

typedef struct
{
  ThriftSocket parent;
} SecretSocket;

typedef struct
{
  ThriftSocketClass parent;
} SecretSocketClass;

GType secret_socket_get_type (void);

G_DEFINE_TYPE (SecretSocket, secret_socket, THRIFT_TYPE_SOCKET)

void
secret_socket_invert (guint8 *bytes, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    bytes[i] = (guint8) ~bytes[i];
}

static gint32
secret_socket_read (ThriftTransport *transport, gpointer buf, guint32 n_bytes, GError **error)
{
  gssize n = recv (THRIFT_SOCKET (transport)->sd, buf, n_bytes, MSG_WAITALL);

  if (n < 0)
    g_set_error_literal (error, THRIFT_TRANSPORT_ERROR, THRIFT_TRANSPORT_ERROR_RECEIVE,
                         "recv failed");
  else
    secret_socket_invert (buf, (gsize) n);
  return (gint32) n;
}

static gboolean
secret_socket_write (ThriftTransport *transport, const gpointer buf, const guint32 n_bytes,
                     GError **error)
{
  g_autofree guint8 *bytes = g_memdup2 (buf, n_bytes);

  secret_socket_invert (bytes, n_bytes);
  return send (THRIFT_SOCKET (transport)->sd, bytes, n_bytes, MSG_NOSIGNAL) == (gssize) n_bytes;
}

static void
secret_socket_init (SecretSocket *socket)
{
}

static void
secret_socket_class_init (SecretSocketClass *klass)
{
  THRIFT_TRANSPORT_CLASS (klass)->read = secret_socket_read;
  THRIFT_TRANSPORT_CLASS (klass)->write = secret_socket_write;
}

ThriftTransport *
secret_socket_new (gint fd)
{
  ThriftSocket *socket = g_object_new (secret_socket_get_type (), NULL);

  socket->sd = fd;
  return THRIFT_TRANSPORT (socket);
}

/* ---- handlers ------------------------------------------------------------------------------- */

typedef struct
{
  FleetLogJournalHandler parent;
} EchoHandler;

typedef struct
{
  FleetLogJournalHandlerClass parent;
} EchoHandlerClass;

GType echo_handler_get_type (void);

G_DEFINE_TYPE (EchoHandler, echo_handler, FLEET_LOG_TYPE_JOURNAL_HANDLER)

static gboolean
ping (FleetLogHealthIf *iface, gchar **reply, const gchar *text, GError **error)
{
  *reply = g_strdup (text);
  return TRUE;
}

static void
echo_handler_init (EchoHandler *handler)
{
}

static void
echo_handler_class_init (EchoHandlerClass *klass)
{
  FLEET_LOG_HEALTH_HANDLER_CLASS (klass)->ping = ping;
}

static ThriftProcessor *
processor_new (GType type)
{
  GObject *handler = g_object_new (echo_handler_get_type (), NULL);
  ThriftProcessor *processor = g_object_new (type, "handler", handler, NULL);

  g_object_unref (handler);
  return processor;
}

/* ---- processors ----------------------------------------------------------------------------- */

typedef struct
{
  FleetLogJournalProcessor parent;
} SubJournalProcessor;

typedef struct
{
  FleetLogJournalProcessorClass parent;
} SubJournalProcessorClass;

GType sub_journal_processor_get_type (void);

G_DEFINE_TYPE (SubJournalProcessor, sub_journal_processor, FLEET_LOG_TYPE_JOURNAL_PROCESSOR)

static void
sub_journal_processor_init (SubJournalProcessor *processor)
{
}

static void
sub_journal_processor_class_init (SubJournalProcessorClass *klass)
{
}

ThriftProcessor *
sub_journal_processor_new (void)
{
  return processor_new (sub_journal_processor_get_type ());
}

void
break_health_processor_class (void)
{
  ThriftDispatchProcessorClass *health = g_type_class_ref (FLEET_LOG_TYPE_HEALTH_PROCESSOR);
  ThriftDispatchProcessorClass *library = g_type_class_ref (THRIFT_TYPE_DISPATCH_PROCESSOR);

  health->dispatch_call = library->dispatch_call;
}

ThriftProcessor *
health_processor_new (void)
{
  return processor_new (FLEET_LOG_TYPE_HEALTH_PROCESSOR);
}
