/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/transcode.h"

#include <string.h>
#include <thrift/c_glib/protocol/thrift_protocol_decorator.h>
#include <thrift/c_glib/transport/thrift_buffered_transport.h>
#include <thrift/c_glib/transport/thrift_framed_transport.h>

#include "runtime/base/error.h"

ThriftProtocol *
tps_transcode_undecorate (ThriftProtocol *protocol)
{
  while (THRIFT_IS_PROTOCOL_DECORATOR (protocol)
         && THRIFT_PROTOCOL_DECORATOR (protocol)->concrete_protocol != NULL)
    protocol = THRIFT_PROTOCOL_DECORATOR (protocol)->concrete_protocol;
  return protocol;
}

ThriftTransport *
tps_transcode_dup_transport (ThriftProtocol *protocol)
{
  ThriftTransport *transport = NULL;

  g_object_get (tps_transcode_undecorate (protocol), "transport", &transport, NULL);
  return transport;
}

void
tps_transcode_abandon (ThriftProtocol *in)
{
  g_autoptr (GObject) transport = (GObject *) tps_transcode_dup_transport (in);

  if (transport == NULL)
    return;
  if (thrift_transport_is_open (THRIFT_TRANSPORT (transport)))
    thrift_transport_close (THRIFT_TRANSPORT (transport), NULL);
  if (THRIFT_IS_FRAMED_TRANSPORT (transport))
    g_byte_array_set_size (THRIFT_FRAMED_TRANSPORT (transport)->r_buf, 0);
  else if (THRIFT_IS_BUFFERED_TRANSPORT (transport))
    g_byte_array_set_size (THRIFT_BUFFERED_TRANSPORT (transport)->r_buf, 0);
}

/* Sets CONNECTION_LOST, "cannot `what`: reason", and returns FALSE. Takes ownership of `cause`,
 * which may be NULL if the library's function reports no reason. */
static gboolean
blame (GError *cause, const gchar *what, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "cannot %s: %s", what,
               cause != NULL ? cause->message : "the host's protocol gives no reason");
  g_clear_error (&cause);
  return FALSE;
}

static gboolean
fill_body (TpsScanner *scanner, const guint8 **bytes, gsize *n_bytes, GError **error)
{
  guint8 *dest;
  gsize n_missing;
  gsize n;

  if (!tps_scanner_get_body (scanner, &dest, &n_missing))
    return TRUE;
  n = MIN (n_missing, *n_bytes);
  memcpy (dest, *bytes, n);
  *bytes += n;
  *n_bytes -= n;
  return tps_scanner_body_received (scanner, n, error);
}

/* Feeds bytes of one message in binary protocol to the scanner. The message may be fed in parts.
 * Errors: those of the scanner; PROTOCOL if there are bytes after the message. */
static gboolean
feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, GError **error)
{
  while (n_bytes > 0)
    {
      gsize n_before = n_bytes;
      gsize n_consumed = 0;

      if (!tps_scanner_feed (scanner, bytes, n_bytes, &n_consumed, error))
        return FALSE;
      bytes += n_consumed;
      n_bytes -= n_consumed;
      if (n_bytes > 0 && !fill_body (scanner, &bytes, &n_bytes, error))
        return FALSE;
      if (n_bytes == n_before)
        return tps_fail (error, TPS_ERROR_PROTOCOL, "bytes follow the end of the call");
    }
  return TRUE;
}

TpsMessage *
tps_transcode_message (TpsWriter *out, GError **error)
{
  static const TpsScannerOptions limits = { .max_message_bytes = G_MAXINT32,
                                            .max_head_bytes = G_MAXINT32 };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&limits);
  guint n_pieces = 0;
  const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, NULL);
  TpsMessage *message;

  for (guint i = 0; i < n_pieces; i++)
    if (!feed (scanner, pieces[i].iov_base, pieces[i].iov_len, error))
      return NULL;
  message = tps_scanner_take (scanner);
  if (message == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_PROTOCOL, "the message is incomplete");
  return message;
}

/* ---- reading -------------------------------------------------------------------------------- */

#define BINARY_VERSION_1 0x80010000u
#define PENDING_BYTES 1024

typedef struct
{
  ThriftProtocol *in;
  TpsScanner *scanner;
  gsize n_pending; /* bytes in `pending`, which the scanner has not received yet */
  guint8 pending[PENDING_BYTES];
  guint depth;
  GError *error;
} Source;

static gboolean copy_value (Source *source, ThriftType type);

/* Returns TRUE if a call of the host's protocol has succeeded. Otherwise sets the error. Takes
 * ownership of `cause`. */
static gboolean
check (Source *source, gint32 n_bytes, GError *cause)
{
  if (n_bytes >= 0 && cause == NULL)
    return TRUE;
  return blame (cause, "read a call", &source->error);
}

static gboolean
flush_pending (Source *source)
{
  gsize n_bytes = source->n_pending;

  source->n_pending = 0;
  return feed (source->scanner, source->pending, n_bytes, &source->error);
}

static gboolean
put (Source *source, gconstpointer bytes, gsize n_bytes)
{
  if (source->n_pending + n_bytes > PENDING_BYTES && !flush_pending (source))
    return FALSE;
  if (n_bytes > PENDING_BYTES)
    return feed (source->scanner, bytes, n_bytes, &source->error);
  if (n_bytes > 0)
    memcpy (source->pending + source->n_pending, bytes, n_bytes);
  source->n_pending += n_bytes;
  return TRUE;
}

static gboolean
put_8 (Source *source, guint8 value)
{
  return put (source, &value, sizeof value);
}

static gboolean
put_16 (Source *source, guint16 value)
{
  value = GUINT16_TO_BE (value);
  return put (source, &value, sizeof value);
}

static gboolean
put_32 (Source *source, guint32 value)
{
  value = GUINT32_TO_BE (value);
  return put (source, &value, sizeof value);
}

static gboolean
put_64 (Source *source, guint64 value)
{
  value = GUINT64_TO_BE (value);
  return put (source, &value, sizeof value);
}

/* Passes a count to the scanner at once. If the scanner refuses the container, no element is
 * read. */
static gboolean
put_count (Source *source, guint32 n)
{
  return put_32 (source, n) && flush_pending (source);
}

/* Defines a function that reads a number of one type and passes it on with the same wire type. */
#define DEFINE_COPY(name, type, read, put_value)  \
  static gboolean name (Source *source)           \
  {                                               \
    type value = 0;                               \
    GError *cause = NULL;                         \
    gint32 n = read (source->in, &value, &cause); \
                                                  \
    return check (source, n, cause) && put_value; \
  }

static guint64
double_bits (gdouble value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

DEFINE_COPY (copy_bool, gboolean, thrift_protocol_read_bool, put_8 (source, value ? 1 : 0))
DEFINE_COPY (copy_byte, gint8, thrift_protocol_read_byte, put_8 (source, (guint8) value))
DEFINE_COPY (copy_i16, gint16, thrift_protocol_read_i16, put_16 (source, (guint16) value))
DEFINE_COPY (copy_i32, gint32, thrift_protocol_read_i32, put_32 (source, (guint32) value))
DEFINE_COPY (copy_i64, gint64, thrift_protocol_read_i64, put_64 (source, (guint64) value))
DEFINE_COPY (copy_double, gdouble, thrift_protocol_read_double,
             put_64 (source, double_bits (value)))

/* In Debian's 0.17, a negative length becomes a large length without bytes. */
static gboolean
copy_binary (Source *source)
{
  g_autofree gpointer data = NULL;
  guint32 n_bytes = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_binary (source->in, &data, &n_bytes, &cause);

  if (!check (source, n, cause) || !put_32 (source, n_bytes))
    return FALSE;
  if (n_bytes > 0 && data == NULL)
    {
      if (flush_pending (source))
        g_set_error (&source->error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                     "the bytes of a string of %u bytes are missing", n_bytes);
      return FALSE;
    }
  return put (source, data, n_bytes);
}

static gboolean
copy_elements (Source *source, guint32 n, ThriftType first, ThriftType second)
{
  for (guint32 i = 0; i < n; i++)
    if (!copy_value (source, first) || (second != T_STOP && !copy_value (source, second)))
      return FALSE;
  return TRUE;
}

static gboolean
copy_list (Source *source)
{
  ThriftType type = T_STOP;
  guint32 n_elems = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_list_begin (source->in, &type, &n_elems, &cause);

  if (!check (source, n, cause) || !put_8 (source, (guint8) type) || !put_count (source, n_elems)
      || !copy_elements (source, n_elems, type, T_STOP))
    return FALSE;
  n = thrift_protocol_read_list_end (source->in, &cause);
  return check (source, n, cause);
}

static gboolean
copy_set (Source *source)
{
  ThriftType type = T_STOP;
  guint32 n_elems = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_set_begin (source->in, &type, &n_elems, &cause);

  if (!check (source, n, cause) || !put_8 (source, (guint8) type) || !put_count (source, n_elems)
      || !copy_elements (source, n_elems, type, T_STOP))
    return FALSE;
  n = thrift_protocol_read_set_end (source->in, &cause);
  return check (source, n, cause);
}

static gboolean
copy_map (Source *source)
{
  ThriftType key = T_STOP;
  ThriftType value = T_STOP;
  guint32 n_elems = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_map_begin (source->in, &key, &value, &n_elems, &cause);

  if (!check (source, n, cause) || !put_8 (source, (guint8) key) || !put_8 (source, (guint8) value)
      || !put_count (source, n_elems) || !copy_elements (source, n_elems, key, value))
    return FALSE;
  n = thrift_protocol_read_map_end (source->in, &cause);
  return check (source, n, cause);
}

/* Copies the next field. Sets `type` to the type of the field, or T_STOP at the end of the
 * struct. */
static gboolean
copy_field (Source *source, ThriftType *type)
{
  g_autofree gchar *name = NULL;
  gint16 id = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_field_begin (source->in, &name, type, &id, &cause);

  if (!check (source, n, cause) || !put_8 (source, (guint8) *type))
    return FALSE;
  if (*type == T_STOP)
    return TRUE;
  if (!put_16 (source, (guint16) id) || !copy_value (source, *type))
    return FALSE;
  n = thrift_protocol_read_field_end (source->in, &cause);
  return check (source, n, cause);
}

static gboolean
copy_fields (Source *source)
{
  ThriftType type = T_VOID;

  while (type != T_STOP)
    if (!copy_field (source, &type))
      return FALSE;
  return TRUE;
}

static gboolean
copy_struct (Source *source)
{
  g_autofree gchar *name = NULL;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_struct_begin (source->in, &name, &cause);

  if (!check (source, n, cause))
    return FALSE;
  if (!copy_fields (source))
    {
      /* Without this call, the library's compact protocol leaks an entry of its list of open
       * structs. */
      thrift_protocol_read_struct_end (source->in, NULL);
      return FALSE;
    }
  n = thrift_protocol_read_struct_end (source->in, &cause);
  return check (source, n, cause);
}

static gboolean
copy_nested (Source *source, gboolean (*copy) (Source *source))
{
  gboolean ok;

  /* The scanner has the same limit, but checks it only after the recursion. */
  if (source->depth == TPS_MESSAGE_MAX_DEPTH)
    return tps_fail (&source->error, TPS_ERROR_PROTOCOL,
                     "structs and containers are nested more than %d deep", TPS_MESSAGE_MAX_DEPTH);
  source->depth++;
  ok = copy (source);
  source->depth--;
  return ok;
}

static gboolean
copy_value (Source *source, ThriftType type)
{
  switch (type)
    {
    case T_BOOL:
      return copy_bool (source);
    case T_BYTE:
      return copy_byte (source);
    case T_I16:
      return copy_i16 (source);
    case T_I32:
      return copy_i32 (source);
    case T_I64:
      return copy_i64 (source);
    case T_DOUBLE:
      return copy_double (source);
    case T_STRING:
      return copy_binary (source);
    case T_STRUCT:
      return copy_nested (source, copy_struct);
    case T_LIST:
      return copy_nested (source, copy_list);
    case T_SET:
      return copy_nested (source, copy_set);
    case T_MAP:
      return copy_nested (source, copy_map);
    default:
      return tps_fail (&source->error, TPS_ERROR_PROTOCOL, "a value has the unknown type %d",
                       (gint) type);
    }
}

/* Copies the beginning of a message. The scanner receives the binary protocol. */
static gboolean
copy_message_begin (Source *source)
{
  g_autofree gchar *name = NULL;
  ThriftMessageType type = (ThriftMessageType) 0;
  gint32 seqid = 0;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_message_begin (source->in, &name, &type, &seqid, &cause);
  gsize n_name;

  if (!check (source, n, cause))
    return FALSE;
  n_name = name != NULL ? strlen (name) : 0;
  return put_32 (source, BINARY_VERSION_1 | ((guint32) type & 0xff))
         && put_32 (source, (guint32) n_name) && put (source, name, n_name)
         && put_32 (source, (guint32) seqid);
}

static gboolean
copy_message_end (Source *source)
{
  ThriftTransport *transport;
  GError *cause = NULL;
  gint32 n = thrift_protocol_read_message_end (source->in, &cause);

  if (!check (source, n, cause))
    return FALSE;
  transport = tps_transcode_dup_transport (source->in);
  n = transport == NULL || thrift_transport_read_end (transport, &cause) ? 0 : -1;
  g_clear_object (&transport);
  return check (source, n, cause);
}

TpsMessage *
tps_transcode_read (ThriftProtocol *in, const TpsScannerOptions *limits, GError **error)
{
  g_autoptr (TpsScanner) scanner = tps_scanner_new (limits);
  Source source = { .in = in, .scanner = scanner };
  TpsMessage *message = NULL;

  if (copy_message_begin (&source) && copy_nested (&source, copy_struct) && flush_pending (&source)
      && copy_message_end (&source))
    {
      message = tps_scanner_take (scanner);
      if (message == NULL)
        g_set_error_literal (&source.error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                             "the call is incomplete");
    }
  if (message == NULL)
    g_propagate_error (error, source.error);
  return message;
}

/* ---- writing -------------------------------------------------------------------------------- */

typedef struct
{
  TpsReader in;
  ThriftProtocol *out;
  GError *cause;
} Sink;

static gboolean emit_value (Sink *sink, TpsWireType type);

static gboolean
emitted (Sink *sink, gint32 n_bytes)
{
  return n_bytes >= 0 && sink->cause == NULL && !sink->in.bad;
}

static gboolean
emit_struct (Sink *sink)
{
  TpsWireType type;
  gint16 id;

  if (!emitted (sink, thrift_protocol_write_struct_begin (sink->out, "", &sink->cause)))
    return FALSE;
  tps_reader_struct_begin (&sink->in);
  while (tps_reader_field (&sink->in, &id, &type))
    if (!emitted (sink, thrift_protocol_write_field_begin (sink->out, "", (ThriftType) type, id,
                                                           &sink->cause))
        || !emit_value (sink, type)
        || !emitted (sink, thrift_protocol_write_field_end (sink->out, &sink->cause)))
      return FALSE;
  tps_reader_struct_end (&sink->in);
  return emitted (sink, thrift_protocol_write_field_stop (sink->out, &sink->cause))
         && emitted (sink, thrift_protocol_write_struct_end (sink->out, &sink->cause));
}

static gboolean
emit_list (Sink *sink, gboolean is_set)
{
  TpsWireType type;
  guint32 n_elems;
  gint32 n;

  tps_reader_list_begin (&sink->in, &type, &n_elems);
  n = is_set
          ? thrift_protocol_write_set_begin (sink->out, (ThriftType) type, n_elems, &sink->cause)
          : thrift_protocol_write_list_begin (sink->out, (ThriftType) type, n_elems, &sink->cause);
  if (!emitted (sink, n))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    if (!emit_value (sink, type))
      return FALSE;
  return emitted (sink, is_set ? thrift_protocol_write_set_end (sink->out, &sink->cause)
                               : thrift_protocol_write_list_end (sink->out, &sink->cause));
}

static gboolean
emit_map (Sink *sink)
{
  TpsWireType key;
  TpsWireType value;
  guint32 n_elems;

  tps_reader_map_begin (&sink->in, &key, &value, &n_elems);
  if (!emitted (sink, thrift_protocol_write_map_begin (sink->out, (ThriftType) key,
                                                       (ThriftType) value, n_elems, &sink->cause)))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    if (!emit_value (sink, key) || !emit_value (sink, value))
      return FALSE;
  return emitted (sink, thrift_protocol_write_map_end (sink->out, &sink->cause));
}

static gboolean
emit_binary (Sink *sink)
{
  TpsBytesView view = tps_reader_binary (&sink->in);

  return emitted (sink, thrift_protocol_write_binary (sink->out, (gpointer) (guintptr) view.data,
                                                      (guint32) view.n_bytes, &sink->cause));
}

static gboolean
emit_value (Sink *sink, TpsWireType type)
{
  ThriftProtocol *out = sink->out;
  TpsReader *in = &sink->in;
  GError **cause = &sink->cause;

  switch (type)
    {
    case TPS_WIRE_BOOL:
      return emitted (sink, thrift_protocol_write_bool (out, tps_reader_bool (in), cause));
    case TPS_WIRE_BYTE:
      return emitted (sink, thrift_protocol_write_byte (out, tps_reader_byte (in), cause));
    case TPS_WIRE_I16:
      return emitted (sink, thrift_protocol_write_i16 (out, tps_reader_i16 (in), cause));
    case TPS_WIRE_I32:
      return emitted (sink, thrift_protocol_write_i32 (out, tps_reader_i32 (in), cause));
    case TPS_WIRE_I64:
      return emitted (sink, thrift_protocol_write_i64 (out, tps_reader_i64 (in), cause));
    case TPS_WIRE_DOUBLE:
      return emitted (sink, thrift_protocol_write_double (out, tps_reader_double (in), cause));
    case TPS_WIRE_BINARY:
      return emit_binary (sink);
    case TPS_WIRE_STRUCT:
      return emit_struct (sink);
    case TPS_WIRE_LIST:
      return emit_list (sink, FALSE);
    case TPS_WIRE_SET:
      return emit_list (sink, TRUE);
    case TPS_WIRE_MAP:
      return emit_map (sink);
    case TPS_WIRE_STOP:
      break;
    }
  return FALSE;
}

static gboolean
emit_message (Sink *sink, const TpsMessage *message)
{
  ThriftTransport *transport;
  gboolean ok;

  tps_reader_init (&sink->in, message);
  if (!emitted (sink, thrift_protocol_write_message_begin (sink->out, message->name,
                                                           (ThriftMessageType) message->kind,
                                                           message->seqid, &sink->cause))
      || !emit_struct (sink)
      || !emitted (sink, thrift_protocol_write_message_end (sink->out, &sink->cause)))
    return FALSE;
  transport = tps_transcode_dup_transport (sink->out);
  if (transport == NULL)
    return TRUE;
  ok = thrift_transport_write_end (transport, &sink->cause)
       && thrift_transport_flush (transport, &sink->cause);
  g_object_unref (transport);
  return ok && sink->cause == NULL;
}

/* Converts a finished reply to a message. */
static TpsMessage *
reread (TpsWriter *reply, GError **error)
{
  TpsScannerOptions limits = { .max_message_bytes = G_MAXINT32, .max_head_bytes = G_MAXINT32 };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&limits);
  const struct iovec *pieces;
  guint n_pieces = 0;
  gsize n_bytes = 0;

  pieces = tps_writer_get_pieces (reply, &n_pieces, &n_bytes);
  for (guint i = 0; i < n_pieces; i++)
    if (!feed (scanner, pieces[i].iov_base, pieces[i].iov_len, error))
      return NULL;
  return tps_scanner_take (scanner);
}

gboolean
tps_transcode_write (TpsWriter *reply, ThriftProtocol *out, GError **error)
{
  g_autoptr (TpsMessage) message = reread (reply, error);
  Sink sink = { .out = out };

  if (message == NULL)
    return FALSE;
  if (emit_message (&sink, message))
    return TRUE;
  return blame (sink.cause, "write a reply", error);
}
