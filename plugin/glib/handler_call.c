/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/glib/handler_call.h"

#include "plugin/glib/handler.h"
#include "plugin/host/protocol.h"
#include "plugin/host/transcode.h"
#include "plugin/host/transport.h"
#include "runtime/base/error.h"

static GQuark
processor_quark (void)
{
  return g_quark_from_static_string ("tps-handler-processor");
}

void
tps_handler_set_processor (gpointer handler, ThriftProcessor *processor)
{
  g_object_set_qdata_full (handler, processor_quark (), g_object_ref (processor), g_object_unref);
}

TpsProcessor *
tps_handler_get_processor (gpointer handler)
{
  return g_object_get_qdata (handler, processor_quark ());
}

/* ---- failures -------------------------------------------------------------------------------- */

TpsWireServiceError *
tps_service_error_to_wire (const GError *error)
{
  TpsWireServiceError *failure = g_object_new (TPS_WIRE_TYPE_SERVICE_ERROR, NULL);
  gint retry_after_ms = error->domain == TPS_ERROR ? tps_error_get_retry_after_ms (error) : -1;

  failure->code = (TpsWireErrorCode) tps_error_to_wire_code (error);
  failure->__isset_code = TRUE;
  failure->message = g_strdup (error->message);
  failure->retry_after_ms = MAX (retry_after_ms, 0);
  failure->__isset_retry_after_ms = retry_after_ms >= 0;
  return failure;
}

/* ---- request -------------------------------------------------------------------------------- */

static ThriftProtocol *
protocol_new (void)
{
  static const TpsWriterForm form = { .protocol = TPS_PROTOCOL_BINARY };
  ThriftTransport *box = tps_host_transport_new_box (&form);
  ThriftProtocol *protocol = tps_host_protocol_new (box);

  g_object_unref (box);
  tps_host_protocol_borrow_binaries (TPS_HOST_PROTOCOL (protocol));
  return protocol;
}

void
tps_handler_call_begin (TpsHandlerCall *call, gpointer handler, const gchar *method)
{
  *call = (TpsHandlerCall) { .processor = tps_handler_get_processor (handler),
                             .protocol = protocol_new () };
  thrift_protocol_write_message_begin (call->protocol, method, T_CALL, 0, NULL);
  thrift_protocol_write_struct_begin (call->protocol, "", NULL);
}

/* Errors are ignored: writing to memory can fail only at the end of the message. */
static void
put_field (TpsHandlerCall *call, gint16 id, ThriftType type)
{
  thrift_protocol_write_field_begin (call->protocol, "", type, id, NULL);
}

void
tps_handler_call_put_bool (TpsHandlerCall *call, gint16 id, gboolean value)
{
  put_field (call, id, T_BOOL);
  thrift_protocol_write_bool (call->protocol, value, NULL);
}

void
tps_handler_call_put_i32 (TpsHandlerCall *call, gint16 id, gint32 value)
{
  put_field (call, id, T_I32);
  thrift_protocol_write_i32 (call->protocol, value, NULL);
}

void
tps_handler_call_put_i64 (TpsHandlerCall *call, gint16 id, gint64 value)
{
  put_field (call, id, T_I64);
  thrift_protocol_write_i64 (call->protocol, value, NULL);
}

void
tps_handler_call_put_string (TpsHandlerCall *call, gint16 id, const gchar *value)
{
  if (value == NULL)
    return;
  put_field (call, id, T_STRING);
  thrift_protocol_write_string (call->protocol, value, NULL);
}

void
tps_handler_call_put_binary (TpsHandlerCall *call, gint16 id, const GByteArray *value)
{
  if (value == NULL)
    return;
  put_field (call, id, T_STRING);
  thrift_protocol_write_binary (call->protocol, value->data, value->len, NULL);
}

static void
write_struct (TpsHandlerCall *call, gconstpointer value)
{
  thrift_struct_write (THRIFT_STRUCT ((gpointer) (guintptr) value), call->protocol, NULL);
}

void
tps_handler_call_put_struct (TpsHandlerCall *call, gint16 id, gconstpointer value)
{
  if (value == NULL)
    return;
  put_field (call, id, T_STRUCT);
  write_struct (call, value);
}

void
tps_handler_call_put_push (TpsHandlerCall *call, gint16 id, const TpsWirePushId *value)
{
  if (value != NULL && value->client != NULL)
    tps_handler_call_put_struct (call, id, value);
}

static void
put_list (TpsHandlerCall *call, gint16 id, ThriftType type, guint n_elems)
{
  put_field (call, id, T_LIST);
  thrift_protocol_write_list_begin (call->protocol, type, n_elems, NULL);
}

void
tps_handler_call_put_i64s (TpsHandlerCall *call, gint16 id, const GArray *values)
{
  guint n = values != NULL ? values->len : 0;

  put_list (call, id, T_I64, n);
  for (guint i = 0; i < n; i++)
    thrift_protocol_write_i64 (call->protocol, g_array_index (values, gint64, i), NULL);
}

void
tps_handler_call_put_strings (TpsHandlerCall *call, gint16 id, const GPtrArray *values)
{
  guint n = values != NULL ? values->len : 0;

  put_list (call, id, T_STRING, n);
  for (guint i = 0; i < n; i++)
    thrift_protocol_write_string (call->protocol, g_ptr_array_index (values, i), NULL);
}

void
tps_handler_call_put_texts (TpsHandlerCall *call, gint16 id, const GHashTable *values)
{
  GHashTable *texts = (GHashTable *) (gsize) values;
  GHashTableIter iter;
  gpointer key, value;

  put_field (call, id, T_MAP);
  thrift_protocol_write_map_begin (call->protocol, T_STRING, T_STRING,
                                   texts != NULL ? g_hash_table_size (texts) : 0, NULL);
  if (texts == NULL)
    return;
  g_hash_table_iter_init (&iter, texts);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      thrift_protocol_write_string (call->protocol, key, NULL);
      thrift_protocol_write_string (call->protocol, value, NULL);
    }
}

void
tps_handler_call_put_structs (TpsHandlerCall *call, gint16 id, const GPtrArray *values)
{
  guint n = values != NULL ? values->len : 0;

  put_list (call, id, T_STRUCT, n);
  for (guint i = 0; i < n; i++)
    write_struct (call, g_ptr_array_index (values, i));
}

/* ---- reply ---------------------------------------------------------------------------------- */

static TpsMessage *
call_processor (TpsHandlerCall *call)
{
  g_autoptr (TpsWriter) request = NULL;
  g_autoptr (TpsWriter) reply = NULL;
  TpsMessage *message;

  thrift_protocol_write_struct_end (call->protocol, NULL);
  if (thrift_protocol_write_message_end (call->protocol, &call->error) < 0)
    return NULL;
  request = tps_host_transport_steal_reply (TPS_HOST_TRANSPORT (call->protocol->transport));
  message = tps_transcode_message (request, &call->error);
  if (message == NULL)
    return NULL;
  reply = tps_processor_call (call->processor, message);
  return tps_transcode_message (reply, &call->error);
}

gpointer
tps_handler_call_run (TpsHandlerCall *call, GType client_type)
{
  TpsMessage *reply;

  if (call->processor == NULL)
    return tps_fail_null (&call->error, TPS_ERROR_INTERNAL,
                          "this handler has no plugin: it was not created by our constructor");
  reply = call_processor (call);
  if (reply == NULL)
    return NULL;
  tps_host_protocol_give_message (TPS_HOST_PROTOCOL (call->protocol), reply, G_MAXUINT);
  call->client = g_object_new (client_type, "input_protocol", call->protocol, NULL);
  return call->client;
}

gboolean
tps_handler_call_end (TpsHandlerCall *call, TpsWireServiceError **failure, GError **error)
{
  GError *reason = g_steal_pointer (&call->error);

  g_clear_object (&call->client);
  g_clear_object (&call->protocol);
  if (reason == NULL)
    return TRUE;
  /* Generated clients set both errors, but generated processors expect only one. */
  if (*failure == NULL && reason->domain == TPS_ERROR)
    *failure = tps_service_error_to_wire (reason);
  if (*failure != NULL)
    g_error_free (reason);
  else
    g_propagate_error (error, reason);
  return FALSE;
}

void
tps_handler_reset_list (GPtrArray **list)
{
  if (*list == NULL)
    *list = g_ptr_array_new_with_free_func (g_object_unref);
  g_ptr_array_set_size (*list, 0);
}

void
tps_handler_reset_struct (gpointer *object, GType type)
{
  g_clear_object (object);
  *object = g_object_new (type, NULL);
}
