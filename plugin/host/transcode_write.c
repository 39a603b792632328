/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/transcode_private.h"

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
    if (!tps_transcode_feed (scanner, pieces[i].iov_base, pieces[i].iov_len, error))
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
  return tps_transcode_blame (sink.cause, "write a reply", error);
}
