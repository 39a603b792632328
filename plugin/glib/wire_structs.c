/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions of small structs through the bytes of a message. Both the generated code and
 * TpsStruct read and write these bytes, so no conversion of single fields is necessary. */

#include "plugin/glib/handler_call.h"
#include "plugin/glib/wire_values.h"
#include "plugin/host/protocol.h"
#include "plugin/host/transcode.h"
#include "plugin/host/transport.h"
#include "plugin/wire/wire_embedding_table.h"

/* The name has no meaning, because the messages are not sent. */
#define MESSAGE_NAME "struct"

/* ---- from generated objects ----------------------------------------------------------------- */

/* Returns a message with the fields of the object as its arguments. The caller owns it. */
static TpsMessage *
write_object (gconstpointer wire, GError **error)
{
  g_autoptr (GObject) object = (GObject *) tps_handler_protocol_new ();
  ThriftProtocol *protocol = THRIFT_PROTOCOL (object);
  g_autoptr (TpsWriter) out = NULL;

  thrift_protocol_write_message_begin (protocol, MESSAGE_NAME, T_CALL, 0, NULL);
  if (thrift_struct_write (THRIFT_STRUCT ((gpointer) (guintptr) wire), protocol, error) < 0
      || thrift_protocol_write_message_end (protocol, error) < 0)
    return NULL;
  out = tps_host_transport_steal_reply (TPS_HOST_TRANSPORT (protocol->transport));
  return tps_transcode_message (out, error);
}

static gboolean
read_struct (const TpsStruct *type, gconstpointer wire, const gchar *name, gpointer value,
             GError **error)
{
  const TpsFieldPath path = { .name = name };
  TpsMessage *message = write_object (wire, error);
  TpsReader in;
  gboolean ok;

  if (message == NULL)
    return FALSE;
  tps_reader_init (&in, message);
  ok = tps_struct_read (type, &in, &path, value, error);
  tps_message_free (message);
  return ok;
}

gboolean
tps_push_id_from_wire (const TpsWirePushId *wire, const gchar *name, TpsPushId *push,
                       GError **error)
{
  if (wire == NULL || wire->client == NULL
      || read_struct (&tps_push_id_struct, wire, name, push, error))
    return TRUE;
  tps_push_id_clear (push);
  return FALSE;
}

gboolean
tps_optimizer_from_wire (const TpsWireOptimizer *wire, const gchar *name, TpsOptimizerSpec *spec,
                         GError **error)
{
  TpsOptimizerSpec seen = { 0 };

  if (!read_struct (&tps_optimizer_struct, wire, name, &seen, error))
    return FALSE;
  *spec = seen;
  return TRUE;
}

gboolean
tps_table_spec_from_wire (const TpsWireTableSpec *wire, const gchar *name, TpsTableSpec *spec,
                          GError **error)
{
  if (read_struct (&tps_table_spec_struct, wire, name, spec, error))
    return TRUE;
  tps_table_spec_clear (spec);
  return FALSE;
}

/* ---- to generated objects ------------------------------------------------------------------- */

static TpsMessage *
write_value (const TpsStruct *type, gconstpointer value)
{
  g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, FALSE);

  tps_writer_message_begin (out, MESSAGE_NAME, TPS_MESSAGE_CALL, 0);
  tps_struct_write (type, out, value);
  if (!tps_writer_message_end (out, NULL))
    g_assert_not_reached (); /* the message has no large values */
  return tps_transcode_message (out, NULL);
}

static gpointer
make_object (const TpsStruct *type, gconstpointer value, GType wire_type)
{
  g_autoptr (GObject) object = (GObject *) tps_handler_protocol_new ();
  ThriftProtocol *protocol = THRIFT_PROTOCOL (object);
  gpointer wire = g_object_new (wire_type, NULL);
  g_autofree gchar *name = NULL;
  ThriftMessageType kind;
  gint32 seqid;

  tps_host_protocol_give_message (TPS_HOST_PROTOCOL (protocol), write_value (type, value),
                                  G_MAXUINT);
  thrift_protocol_read_message_begin (protocol, &name, &kind, &seqid, NULL);
  thrift_struct_read (THRIFT_STRUCT (wire), protocol, NULL);
  thrift_protocol_read_message_end (protocol, NULL);
  return wire;
}

TpsWirePushId *
tps_push_id_to_wire (const TpsPushId *push)
{
  return make_object (&tps_push_id_struct, push, TPS_WIRE_TYPE_PUSH_ID);
}

TpsWireOptimizer *
tps_optimizer_to_wire (const TpsOptimizerSpec *spec)
{
  return make_object (&tps_optimizer_struct, spec, TPS_WIRE_TYPE_OPTIMIZER);
}

TpsWireTableSpec *
tps_table_spec_to_wire (const TpsTableSpec *spec)
{
  return make_object (&tps_table_spec_struct, spec, TPS_WIRE_TYPE_TABLE_SPEC);
}
