/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Implementations of the slots of ThriftProtocol, in the order of its class. Writes go to a
 * TpsWriter; reads come from a TpsTypedReader.
 *
 * Writing: message_begin creates a writer with the form of the request. message_end passes the
 * writer to the transport, whose flush sends the message. A message may have no end: an exception
 * to a oneway call, or a result that could not be written. The next message_begin drops such a
 * message, so that the peer receives none of its bytes.
 *
 * Reading: message_begin takes the next message from the transport. All later reads succeed, even
 * with the wrong type (typed_reader.h); message_end returns the error.
 */

#include "plugin/host/protocol.h"

#include <string.h>

#include "plugin/host/library.h"
#include "plugin/host/transport.h"
#include "plugin/host/typed_reader.h"
#include "runtime/base/error.h"

struct TpsHostProtocol
{
  ThriftProtocol parent;
  TpsWriter *out; /* of the message that is being written */

  TpsMessage *given;   /* the next message to read */
  TpsMessage *message; /* the message that is being read */
  TpsMessage *kept;    /* the last message that was read to its end */
  gboolean keeps_messages;
  gboolean borrows_binaries;
  guint max_elements;
  TpsTypedReader in; /* of `message`; zero without one */
};

typedef struct
{
  ThriftProtocolClass parent;
} TpsHostProtocolClass;

G_DEFINE_TYPE (TpsHostProtocol, tps_host_protocol, THRIFT_TYPE_PROTOCOL)

/* Sets the error and returns -1. An error that is already set is kept, because callers in the
 * library may pass one. */
static gint32
fail (GError **error, gint code, const gchar *message)
{
  if (error != NULL && *error == NULL)
    g_set_error_literal (error, TPS_ERROR, code, message);
  return -1;
}

static gint32
finish (gboolean ok)
{
  return ok ? 0 : -1;
}

static TpsHostTransport *
get_transport (TpsHostProtocol *protocol)
{
  ThriftTransport *transport = THRIFT_PROTOCOL (protocol)->transport;

  return transport != NULL && TPS_IS_HOST_TRANSPORT (transport) ? TPS_HOST_TRANSPORT (transport)
                                                                : NULL;
}

/* ---- writing -------------------------------------------------------------------------------- */

static TpsWriter *
get_writer (ThriftProtocol *base, GError **error)
{
  TpsWriter *out = TPS_HOST_PROTOCOL (base)->out;

  if (out == NULL)
    fail (error, TPS_ERROR_INVALID_ARGUMENT, "a value was written outside a message");
  return out;
}

/* Defines a slot that passes its value to one function of the writer. */
#define DEFINE_WRITE(slot, parameters, call)   \
  static gint32 slot parameters                \
  {                                            \
    TpsWriter *out = get_writer (base, error); \
                                               \
    if (out == NULL)                           \
      return -1;                               \
    call;                                      \
    return 0;                                  \
  }

static gint32
write_message_begin (ThriftProtocol *base, const gchar *name, const ThriftMessageType type,
                     const gint32 seqid, GError **error)
{
  TpsHostProtocol *protocol = TPS_HOST_PROTOCOL (base);
  TpsHostTransport *transport = get_transport (protocol);
  TpsWriterForm form;

  g_clear_pointer (&protocol->out, tps_writer_free);
  if (transport == NULL)
    return fail (error, TPS_ERROR_INVALID_ARGUMENT,
                 "TpsHostProtocol writes to a TpsHostTransport only");
  tps_host_transport_get_form (transport, &form);
  protocol->out = tps_writer_new (form.protocol, form.framed);
  if (form.has_header)
    tps_writer_set_header (protocol->out, form.header_seqid);
  tps_writer_set_budget (protocol->out, form.budget);
  tps_writer_message_begin (protocol->out, name != NULL ? name : "", (TpsMessageKind) type, seqid);
  return 0;
}

static gint32
write_message_end (ThriftProtocol *base, GError **error)
{
  TpsHostProtocol *protocol = TPS_HOST_PROTOCOL (base);
  g_autoptr (TpsWriter) out = NULL;

  if (get_writer (base, error) == NULL)
    return -1;
  out = g_steal_pointer (&protocol->out);
  if (!tps_writer_message_end (out, error))
    return -1;
  return finish (
      tps_host_transport_take_reply (get_transport (protocol), g_steal_pointer (&out), error));
}

DEFINE_WRITE (write_struct_begin, (ThriftProtocol * base, const gchar *name, GError **error),
              tps_writer_struct_begin (out))
DEFINE_WRITE (write_struct_end, (ThriftProtocol * base, GError **error),
              tps_writer_struct_end (out))
DEFINE_WRITE (write_field_begin,
              (ThriftProtocol * base, const gchar *name, const ThriftType type, const gint16 id,
               GError **error),
              tps_writer_field (out, id, (TpsWireType) type))
DEFINE_WRITE (write_map_begin,
              (ThriftProtocol * base, const ThriftType key, const ThriftType value, const guint32 n,
               GError **error),
              tps_writer_map_begin (out, (TpsWireType) key, (TpsWireType) value, n))
DEFINE_WRITE (write_list_begin,
              (ThriftProtocol * base, const ThriftType type, const guint32 n, GError **error),
              tps_writer_list_begin (out, (TpsWireType) type, n))
DEFINE_WRITE (write_set_begin,
              (ThriftProtocol * base, const ThriftType type, const guint32 n, GError **error),
              tps_writer_set_begin (out, (TpsWireType) type, n))
DEFINE_WRITE (write_bool, (ThriftProtocol * base, const gboolean value, GError **error),
              tps_writer_bool (out, value))
DEFINE_WRITE (write_byte, (ThriftProtocol * base, const gint8 value, GError **error),
              tps_writer_byte (out, value))
DEFINE_WRITE (write_i16, (ThriftProtocol * base, const gint16 value, GError **error),
              tps_writer_i16 (out, value))
DEFINE_WRITE (write_i32, (ThriftProtocol * base, const gint32 value, GError **error),
              tps_writer_i32 (out, value))
DEFINE_WRITE (write_i64, (ThriftProtocol * base, const gint64 value, GError **error),
              tps_writer_i64 (out, value))
DEFINE_WRITE (write_double, (ThriftProtocol * base, const gdouble value, GError **error),
              tps_writer_double (out, value))
DEFINE_WRITE (write_string, (ThriftProtocol * base, const gchar *value, GError **error),
              tps_writer_string (out, value != NULL ? value : ""))
/* Binaries are copied by default, because generated code frees its result before the flush. */
DEFINE_WRITE (write_binary,
              (ThriftProtocol * base, const gpointer data, const guint32 n_bytes, GError **error),
              (TPS_HOST_PROTOCOL (base)->borrows_binaries
                   ? tps_writer_binary_borrowed (out, data, n_bytes)
                   : tps_writer_binary (out, data, n_bytes)))

/* Ends of fields and containers have no bytes. write_struct_end writes the stop field, so
 * write_field_stop writes nothing. */
DEFINE_WRITE (write_nothing, (ThriftProtocol * base, GError **error), (void) out)

/* ---- reading -------------------------------------------------------------------------------- */

static void
drop_message (TpsHostProtocol *protocol)
{
  tps_typed_reader_clear (&protocol->in);
  g_clear_pointer (&protocol->message, tps_message_free);
  g_clear_pointer (&protocol->kept, tps_message_free);
}

static gboolean
next_message (TpsHostProtocol *protocol, GError **error)
{
  TpsHostTransport *transport = get_transport (protocol);
  TpsHostStream *stream = transport != NULL ? tps_host_transport_get_stream (transport) : NULL;

  drop_message (protocol);
  protocol->message = g_steal_pointer (&protocol->given);
  if (protocol->message == NULL && stream != NULL)
    {
      protocol->message = tps_host_stream_receive (stream, error);
      protocol->max_elements = tps_host_stream_get_max_elements (stream);
    }
  else if (protocol->message == NULL)
    fail (error, TPS_ERROR_CONNECTION_LOST, "there is no message to read");
  if (protocol->message == NULL)
    return FALSE;
  tps_typed_reader_init (&protocol->in, protocol->message, protocol->max_elements);
  return TRUE;
}

/* Returns the reader of the current message, or NULL with an error if there is no message. */
static TpsTypedReader *
get_reader (ThriftProtocol *base, GError **error)
{
  TpsHostProtocol *protocol = TPS_HOST_PROTOCOL (base);

  if (protocol->message != NULL)
    return &protocol->in;
  fail (error, TPS_ERROR_INVALID_ARGUMENT, "a value was read outside a message");
  return NULL;
}

/* Always sets the outputs, because callers in the library use them even after an error. */
static gint32
read_message_begin (ThriftProtocol *base, gchar **name, ThriftMessageType *type, gint32 *seqid,
                    GError **error)
{
  TpsHostProtocol *protocol = TPS_HOST_PROTOCOL (base);

  *name = NULL;
  *type = (ThriftMessageType) 0;
  *seqid = 0;
  if (!next_message (protocol, error))
    return -1;
  *name = g_strdup (protocol->message->name);
  *type = (ThriftMessageType) protocol->message->kind;
  *seqid = protocol->message->seqid;
  return 0;
}

static gint32
read_message_end (ThriftProtocol *base, GError **error)
{
  TpsHostProtocol *protocol = TPS_HOST_PROTOCOL (base);
  TpsTypedReader *in = get_reader (base, error);
  TpsMessage *message;
  gboolean ok;

  if (in == NULL)
    return -1;
  ok = in->error == NULL;
  if (!ok && error != NULL && *error == NULL)
    g_propagate_error (error, g_steal_pointer (&in->error));
  message = g_steal_pointer (&protocol->message);
  drop_message (protocol);
  if (protocol->keeps_messages)
    protocol->kept = message;
  else
    tps_message_free (message);
  return finish (ok);
}

static gint32
read_struct_begin (ThriftProtocol *base, gchar **name, GError **error)
{
  TpsTypedReader *in = get_reader (base, error);

  *name = NULL;
  if (in == NULL)
    return -1;
  tps_typed_reader_struct_begin (in);
  return 0;
}

static gint32
read_struct_end (ThriftProtocol *base, GError **error)
{
  TpsTypedReader *in = get_reader (base, error);

  if (in == NULL)
    return -1;
  tps_typed_reader_struct_end (in);
  return 0;
}

static gint32
read_field_begin (ThriftProtocol *base, gchar **name, ThriftType *type, gint16 *id, GError **error)
{
  TpsTypedReader *in = get_reader (base, error);

  *name = NULL;
  *type = T_STOP;
  *id = 0;
  if (in == NULL)
    return -1;
  *type = (ThriftType) tps_typed_reader_field (in, id);
  return 0;
}

static gint32
read_field_end (ThriftProtocol *base, GError **error)
{
  return finish (get_reader (base, error) != NULL);
}

static gint32
read_map_begin (ThriftProtocol *base, ThriftType *key, ThriftType *value, guint32 *n,
                GError **error)
{
  TpsTypedReader *in = get_reader (base, error);
  TpsWireType key_type;
  TpsWireType value_type;

  *key = *value = T_STOP;
  *n = 0;
  if (in == NULL)
    return -1;
  *n = tps_typed_reader_map_begin (in, &key_type, &value_type);
  *key = (ThriftType) key_type;
  *value = (ThriftType) value_type;
  return 0;
}

static gint32
read_elements_begin (ThriftProtocol *base, TpsWireType kind, ThriftType *type, guint32 *n,
                     GError **error)
{
  TpsTypedReader *in = get_reader (base, error);
  TpsWireType element_type;

  *type = T_STOP;
  *n = 0;
  if (in == NULL)
    return -1;
  *n = tps_typed_reader_list_begin (in, kind, &element_type);
  *type = (ThriftType) element_type;
  return 0;
}

static gint32
read_list_begin (ThriftProtocol *base, ThriftType *type, guint32 *n, GError **error)
{
  return read_elements_begin (base, TPS_WIRE_LIST, type, n, error);
}

static gint32
read_set_begin (ThriftProtocol *base, ThriftType *type, guint32 *n, GError **error)
{
  return read_elements_begin (base, TPS_WIRE_SET, type, n, error);
}

static gint32
read_container_end (ThriftProtocol *base, GError **error)
{
  TpsTypedReader *in = get_reader (base, error);

  if (in == NULL)
    return -1;
  tps_typed_reader_container_end (in);
  return 0;
}

#define DEFINE_READ(slot, type, read)                                    \
  static gint32 slot (ThriftProtocol *base, type *value, GError **error) \
  {                                                                      \
    TpsTypedReader *in = get_reader (base, error);                       \
                                                                         \
    *value = in != NULL ? read (in) : 0;                                 \
    return finish (in != NULL);                                          \
  }

DEFINE_READ (read_bool, gboolean, tps_typed_reader_bool)
DEFINE_READ (read_byte, gint8, tps_typed_reader_byte)
DEFINE_READ (read_i16, gint16, tps_typed_reader_i16)
DEFINE_READ (read_i32, gint32, tps_typed_reader_i32)
DEFINE_READ (read_i64, gint64, tps_typed_reader_i64)
DEFINE_READ (read_double, gdouble, tps_typed_reader_double)

/* Returns a copy of the bytes, with a NUL after them if `is_text`; NULL = no memory. The caller
 * owns it. */
static gpointer
copy (const TpsBytesView *view, gboolean is_text)
{
  guint8 *bytes = g_try_malloc (view->n_bytes + (is_text ? 1 : 0));

  if (bytes == NULL)
    return NULL;
  if (view->n_bytes > 0)
    memcpy (bytes, view->data, view->n_bytes);
  if (is_text)
    bytes[view->n_bytes] = '\0';
  return bytes;
}

/* On success, the string is never NULL, because generated code hashes keys of maps. */
static gint32
read_string (ThriftProtocol *base, gchar **value, GError **error)
{
  TpsTypedReader *in = get_reader (base, error);
  TpsBytesView view;

  *value = NULL;
  if (in == NULL)
    return -1;
  view = tps_typed_reader_binary (in);
  *value = copy (&view, TRUE);
  return *value != NULL ? 0 : fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory for a string");
}

static gint32
read_binary (ThriftProtocol *base, gpointer *data, guint32 *n_bytes, GError **error)
{
  TpsTypedReader *in = get_reader (base, error);
  TpsBytesView view;

  *data = NULL;
  *n_bytes = 0;
  if (in == NULL)
    return -1;
  view = tps_typed_reader_binary (in);
  if (view.n_bytes > 0)
    {
      *data = copy (&view, FALSE);
      if (*data == NULL)
        return fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory for a binary");
    }
  *n_bytes = (guint32) view.n_bytes;
  return 0;
}

/* Only the library's own protocols call this function, on themselves. */
static gint
get_min_serialized_size (ThriftProtocol *base, ThriftType type, GError **error)
{
  return 1;
}

/* ---- whole messages ------------------------------------------------------------------------- */

void
tps_host_protocol_give_message (TpsHostProtocol *protocol, TpsMessage *message, guint max_elements)
{
  drop_message (protocol);
  tps_message_free (protocol->given);
  protocol->given = message;
  protocol->max_elements = max_elements;
}

void
tps_host_protocol_keep_messages (TpsHostProtocol *protocol)
{
  protocol->keeps_messages = TRUE;
}

void
tps_host_protocol_borrow_binaries (TpsHostProtocol *protocol)
{
  protocol->borrows_binaries = TRUE;
}

TpsMessage *
tps_host_protocol_steal_message (TpsHostProtocol *protocol)
{
  TpsMessage *message = g_steal_pointer (&protocol->message);

  tps_typed_reader_clear (&protocol->in);
  return message;
}

/* ---- class ---------------------------------------------------------------------------------- */

static void
tps_host_protocol_finalize (GObject *object)
{
  TpsHostProtocol *protocol = TPS_HOST_PROTOCOL (object);

  drop_message (protocol);
  tps_message_free (protocol->given);
  tps_writer_free (protocol->out);
  G_OBJECT_CLASS (tps_host_protocol_parent_class)->finalize (object);
}

static void
tps_host_protocol_init (TpsHostProtocol *protocol)
{
}

static void
init_write_slots (ThriftProtocolClass *klass)
{
  klass->write_message_begin = write_message_begin;
  klass->write_message_end = write_message_end;
  klass->write_struct_begin = write_struct_begin;
  klass->write_struct_end = write_struct_end;
  klass->write_field_begin = write_field_begin;
  klass->write_field_end = write_nothing;
  klass->write_field_stop = write_nothing;
  klass->write_map_begin = write_map_begin;
  klass->write_map_end = write_nothing;
  klass->write_list_begin = write_list_begin;
  klass->write_list_end = write_nothing;
  klass->write_set_begin = write_set_begin;
  klass->write_set_end = write_nothing;
  klass->write_bool = write_bool;
  klass->write_byte = write_byte;
  klass->write_i16 = write_i16;
  klass->write_i32 = write_i32;
  klass->write_i64 = write_i64;
  klass->write_double = write_double;
  klass->write_string = write_string;
  klass->write_binary = write_binary;
}

static void
init_read_slots (ThriftProtocolClass *klass)
{
  klass->read_message_begin = read_message_begin;
  klass->read_message_end = read_message_end;
  klass->read_struct_begin = read_struct_begin;
  klass->read_struct_end = read_struct_end;
  klass->read_field_begin = read_field_begin;
  klass->read_field_end = read_field_end;
  klass->read_map_begin = read_map_begin;
  klass->read_map_end = read_container_end;
  klass->read_list_begin = read_list_begin;
  klass->read_list_end = read_container_end;
  klass->read_set_begin = read_set_begin;
  klass->read_set_end = read_container_end;
  klass->read_bool = read_bool;
  klass->read_byte = read_byte;
  klass->read_i16 = read_i16;
  klass->read_i32 = read_i32;
  klass->read_i64 = read_i64;
  klass->read_double = read_double;
  klass->read_string = read_string;
  klass->read_binary = read_binary;
}

/* A TpsFailProtocol. */
static void
fail_message (ThriftProtocol *base, GError *reason)
{
  TpsHostProtocol *protocol = TPS_HOST_PROTOCOL (base);

  if (protocol->message != NULL)
    tps_typed_reader_fail (&protocol->in, reason);
  else
    g_error_free (reason);
}

static void
tps_host_protocol_class_init (TpsHostProtocolClass *klass)
{
  ThriftProtocolClass *protocol_class = THRIFT_PROTOCOL_CLASS (klass);

  G_OBJECT_CLASS (klass)->finalize = tps_host_protocol_finalize;
  init_write_slots (protocol_class);
  init_read_slots (protocol_class);
  protocol_class->get_min_serialized_size = get_min_serialized_size;
  tps_repair_readers_of (G_TYPE_FROM_CLASS (klass), fail_message);
}

ThriftProtocol *
tps_host_protocol_new (ThriftTransport *transport)
{
  return g_object_new (TPS_TYPE_HOST_PROTOCOL, "transport", transport, NULL);
}

/* ---- factory -------------------------------------------------------------------------------- */

typedef struct
{
  ThriftProtocolFactory parent;
} TpsHostProtocolFactory;

typedef struct
{
  ThriftProtocolFactoryClass parent;
} TpsHostProtocolFactoryClass;

GType tps_host_protocol_factory_get_type (void);

G_DEFINE_TYPE (TpsHostProtocolFactory, tps_host_protocol_factory, THRIFT_TYPE_PROTOCOL_FACTORY)

static ThriftProtocol *
get_protocol (ThriftProtocolFactory *base, ThriftTransport *transport)
{
  return tps_host_protocol_new (transport);
}

static void
tps_host_protocol_factory_init (TpsHostProtocolFactory *factory)
{
}

static void
tps_host_protocol_factory_class_init (TpsHostProtocolFactoryClass *klass)
{
  THRIFT_PROTOCOL_FACTORY_CLASS (klass)->get_protocol = get_protocol;
}

ThriftProtocolFactory *
tps_host_protocol_factory_new (void)
{
  tps_repair_library ();
  return g_object_new (tps_host_protocol_factory_get_type (), NULL);
}
