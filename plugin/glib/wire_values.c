/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Structs are converted through the bytes of a message: both the generated code and TpsStruct read
 * and write these bytes, so no conversion of single fields is necessary. */

#include "plugin/glib/wire_values.h"

#include "plugin/glib/handler_call.h"
#include "plugin/host/protocol.h"
#include "plugin/host/transcode.h"
#include "plugin/host/transport.h"
#include "plugin/wire/descriptor.h"
#include "runtime/base/error.h"

/* The name has no meaning, because the messages are not sent. */
#define MESSAGE_NAME "struct"

/* ---- from generated objects ------------------------------------------------------------------ */

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

gboolean
tps_struct_from_wire (const TpsStruct *type, gconstpointer wire, const gchar *name, gpointer value,
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
tps_tensor_view_from_wire (const TpsWireTensor *wire, const gchar *name, TpsTensorView *view,
                           GError **error)
{
  gsize n_bytes = wire->data != NULL ? wire->data->len : 0;
  TpsTensorView seen = { .data = wire->data != NULL ? wire->data->data : NULL };
  g_autofree gchar *text = NULL;

  if (wire->__isset_shared)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.shared is set, but this message has no shared memory", name);
  if (wire->shape == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s has no shape", name);
  if (!tps_shape_init (&seen.shape, (gint) wire->dtype, wire->shape->len,
                       (const gint64 *) (gconstpointer) wire->shape->data, name, error))
    return FALSE;
  text = tps_shape_to_string (&seen.shape);
  if (n_bytes != tps_shape_n_bytes (&seen.shape))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s.data has %" G_GSIZE_FORMAT " bytes, %s needs %" G_GSIZE_FORMAT, name,
                     n_bytes, text, tps_shape_n_bytes (&seen.shape));
  *view = seen;
  return TRUE;
}

/* ---- to generated objects -------------------------------------------------------------------- */

static TpsMessage *
write_value (const TpsStruct *type, gconstpointer value, GError **error)
{
  g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, FALSE);

  tps_writer_message_begin (out, MESSAGE_NAME, TPS_MESSAGE_CALL, 0);
  tps_struct_write (type, out, value);
  return tps_writer_message_end (out, error) ? tps_transcode_message (out, error) : NULL;
}

gpointer
tps_struct_to_wire (const TpsStruct *type, gconstpointer value, GType wire_type, GError **error)
{
  g_autoptr (GObject) object = (GObject *) tps_handler_protocol_new ();
  ThriftProtocol *protocol = THRIFT_PROTOCOL (object);
  TpsMessage *message = write_value (type, value, error);
  gpointer wire;
  g_autofree gchar *name = NULL;
  ThriftMessageType kind;
  gint32 seqid;

  if (message == NULL)
    return NULL;
  wire = g_object_new (wire_type, NULL);
  tps_host_protocol_give_message (TPS_HOST_PROTOCOL (protocol), message, G_MAXUINT);
  if (thrift_protocol_read_message_begin (protocol, &name, &kind, &seqid, error) < 0
      || thrift_struct_read (THRIFT_STRUCT (wire), protocol, error) < 0
      || thrift_protocol_read_message_end (protocol, error) < 0)
    g_clear_object (&wire);
  return wire;
}
