/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/transport.h"

#include "plugin/host/library.h"
#include "runtime/base/error.h"
#include "runtime/base/sized.h"

/* ThriftTransport and its class have the same size in all versions of the library (checked: 0.14 to
 * 0.24), so the parent may be embedded. */
struct TpsHostTransport
{
  ThriftTransport parent;
  ThriftTransport *inner;
  TpsHostStream *stream; /* NULL = the transport is a box */
  TpsWriterForm form;    /* of a box; has a reference to its budget */
  TpsWriter *reply;      /* finished, but not yet flushed; a box keeps it */
};

typedef struct
{
  ThriftTransportClass parent;
} TpsHostTransportClass;

G_DEFINE_TYPE (TpsHostTransport, tps_host_transport, THRIFT_TYPE_TRANSPORT)

ThriftTransport *
tps_host_transport_new (ThriftTransport *inner, const TpsHostOptions *options)
{
  TpsHostTransport *transport = g_object_new (TPS_TYPE_HOST_TRANSPORT, NULL);

  transport->inner = g_object_ref (inner);
  transport->stream = tps_host_stream_get (inner, options);
  return THRIFT_TRANSPORT (transport);
}

ThriftTransport *
tps_host_transport_new_box (const TpsWriterForm *form)
{
  TpsHostTransport *transport = g_object_new (TPS_TYPE_HOST_TRANSPORT, NULL);

  transport->form = *form;
  if (form->budget != NULL)
    tps_budget_ref (form->budget);
  return THRIFT_TRANSPORT (transport);
}

ThriftTransport *
tps_host_transport_new_sink (void)
{
  static const TpsWriterForm form = { .protocol = TPS_PROTOCOL_BINARY };

  return tps_host_transport_new_box (&form);
}

TpsWriter *
tps_host_transport_steal_reply (TpsHostTransport *transport)
{
  return g_steal_pointer (&transport->reply);
}

TpsHostStream *
tps_host_transport_get_stream (TpsHostTransport *transport)
{
  return transport->stream;
}

void
tps_host_transport_get_form (TpsHostTransport *transport, TpsWriterForm *form)
{
  *form = transport->stream != NULL ? *tps_host_stream_get_form (transport->stream)
                                    : transport->form;
}

static gboolean
send_reply (TpsHostTransport *transport, GError **error)
{
  g_autoptr (TpsWriter) reply = g_steal_pointer (&transport->reply);

  return reply == NULL || tps_host_stream_send (transport->stream, reply, error);
}

gboolean
tps_host_transport_take_reply (TpsHostTransport *transport, TpsWriter *out, GError **error)
{
  if (transport->stream == NULL)
    g_clear_pointer (&transport->reply, tps_writer_free);
  else if (!send_reply (transport, error))
    {
      tps_writer_free (out);
      return FALSE;
    }
  transport->reply = out;
  return TRUE;
}

/* ---- ThriftTransport ------------------------------------------------------------------------ */

static gboolean
is_open (ThriftTransport *base)
{
  TpsHostTransport *transport = TPS_HOST_TRANSPORT (base);

  return transport->inner != NULL && thrift_transport_is_open (transport->inner);
}

static gboolean
peek (ThriftTransport *base, GError **error)
{
  TpsHostTransport *transport = TPS_HOST_TRANSPORT (base);

  return transport->stream != NULL && tps_host_stream_peek (transport->stream, error);
}

static gboolean
open_inner (ThriftTransport *base, GError **error)
{
  TpsHostTransport *transport = TPS_HOST_TRANSPORT (base);

  return transport->inner == NULL || thrift_transport_open (transport->inner, error);
}

/* A server closes both transports of a connection, so the inner transport may be closed already. */
static gboolean
close_inner (ThriftTransport *base, GError **error)
{
  TpsHostTransport *transport = TPS_HOST_TRANSPORT (base);

  if (transport->inner == NULL || !thrift_transport_is_open (transport->inner))
    return TRUE;
  return thrift_transport_close (transport->inner, error);
}

static void
refuse_bytes (GError **error)
{
  if (error != NULL && *error == NULL)
    g_set_error_literal (
        error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
        "TpsHostTransport carries messages, not bytes: use it with TpsHostProtocol");
}

static gint32
read_bytes (ThriftTransport *base, gpointer buf, guint32 n_bytes, GError **error)
{
  refuse_bytes (error);
  return -1;
}

static gboolean
write_bytes (ThriftTransport *base, const gpointer buf, const guint32 n_bytes, GError **error)
{
  refuse_bytes (error);
  return FALSE;
}

static gboolean
end_nothing (ThriftTransport *base, GError **error)
{
  return TRUE;
}

static gboolean
flush (ThriftTransport *base, GError **error)
{
  TpsHostTransport *transport = TPS_HOST_TRANSPORT (base);

  return transport->stream == NULL || send_reply (transport, error);
}

/* The scanner limits the size of messages. The library's own limit would refuse messages that the
 * scanner allows. */
static gboolean
allow_bytes (ThriftTransport *base, glong n_bytes, GError **error)
{
  return TRUE;
}

static void
tps_host_transport_dispose (GObject *object)
{
  TpsHostTransport *transport = TPS_HOST_TRANSPORT (object);

  g_clear_pointer (&transport->reply, tps_writer_free);
  g_clear_pointer (&transport->stream, tps_host_stream_unref);
  g_clear_pointer (&transport->form.budget, tps_budget_unref);
  g_clear_object (&transport->inner);
  G_OBJECT_CLASS (tps_host_transport_parent_class)->dispose (object);
}

static void
tps_host_transport_init (TpsHostTransport *transport)
{
}

static void
tps_host_transport_class_init (TpsHostTransportClass *klass)
{
  ThriftTransportClass *transport_class = THRIFT_TRANSPORT_CLASS (klass);

  G_OBJECT_CLASS (klass)->dispose = tps_host_transport_dispose;
  transport_class->is_open = is_open;
  transport_class->peek = peek;
  transport_class->open = open_inner;
  transport_class->close = close_inner;
  transport_class->read = read_bytes;
  transport_class->read_all = read_bytes;
  transport_class->read_end = end_nothing;
  transport_class->write = write_bytes;
  transport_class->write_end = end_nothing;
  transport_class->flush = flush;
  transport_class->updateKnownMessageSize = allow_bytes;
  transport_class->checkReadBytesAvailable = allow_bytes;
  transport_class->resetConsumedMessageSize = allow_bytes;
  transport_class->countConsumedMessageBytes = allow_bytes;
}

/* ---- factory -------------------------------------------------------------------------------- */

typedef struct
{
  ThriftTransportFactory parent;
  TpsHostOptions options;
} TpsHostTransportFactory;

typedef struct
{
  ThriftTransportFactoryClass parent;
} TpsHostTransportFactoryClass;

GType tps_host_transport_factory_get_type (void);

G_DEFINE_TYPE (TpsHostTransportFactory, tps_host_transport_factory, THRIFT_TYPE_TRANSPORT_FACTORY)

static ThriftTransport *
get_transport (ThriftTransportFactory *base, ThriftTransport *inner)
{
  return tps_host_transport_new (inner, &((TpsHostTransportFactory *) base)->options);
}

static void
tps_host_transport_factory_init (TpsHostTransportFactory *factory)
{
}

static void
tps_host_transport_factory_class_init (TpsHostTransportFactoryClass *klass)
{
  THRIFT_TRANSPORT_FACTORY_CLASS (klass)->get_transport = get_transport;
}

ThriftTransportFactory *
tps_host_transport_factory_new (const TpsHostOptions *options)
{
  TpsHostTransportFactory *factory = g_object_new (tps_host_transport_factory_get_type (), NULL);

  tps_repair_library ();
  if (options != NULL)
    TPS_SIZED_COPY (factory->options, options);
  return THRIFT_TRANSPORT_FACTORY (factory);
}
