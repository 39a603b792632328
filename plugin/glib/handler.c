/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/glib/handler.h"

#include <string.h>
#include <thrift/c_glib/processor/thrift_processor.h>

#include "plugin/glib/handler_call.h"
#include "plugin/host/protocol.h"
#include "plugin/host/transport.h"
#include "plugin/wire/contract.h"
#include "runtime/base/error.h"

static GQuark
service_quark (void)
{
  return g_quark_from_static_string ("tps-handler-service");
}

/* ---- calls that generated code cannot answer ------------------------------------------------- */

static const TpsRpc *
find_rpc (const gchar *service, const gchar *method)
{
  for (const TpsRpc *const *rpc = tps_contract; *rpc != NULL; rpc++)
    if (strcmp ((*rpc)->service, service) == 0 && strcmp ((*rpc)->name, method) == 0)
      return *rpc;
  return NULL;
}

static gint
find_argument (const TpsRpc *rpc, gint16 id)
{
  for (gint i = 0; rpc->arguments != NULL && rpc->arguments[i].name != NULL; i++)
    if (rpc->arguments[i].id == id)
      return i;
  return -1;
}

/* Returns TRUE if all required arguments are present and have the right types. The services refuse
 * all other calls. */
static gboolean
is_complete (const TpsRpc *rpc, const TpsMessage *message)
{
  guint64 present = 0;
  TpsReader in;
  TpsWireType type;
  gint16 id;

  tps_reader_init (&in, message);
  tps_reader_struct_begin (&in);
  while (tps_reader_field (&in, &id, &type))
    {
      gint argument = find_argument (rpc, id);

      if (argument >= 0 && rpc->arguments[argument].kind->type != type)
        return FALSE;
      if (argument >= 0)
        present |= (guint64) 1 << argument;
      tps_reader_skip (&in, type);
    }
  for (guint i = 0; rpc->arguments != NULL && rpc->arguments[i].name != NULL; i++)
    if (rpc->arguments[i].presence == TPS_FIELD_REQUIRED && (present >> i & 1) == 0)
      return FALSE;
  return TRUE;
}

/* ---- process() ------------------------------------------------------------------------------ */

static gboolean process (ThriftProcessor *processor, ThriftProtocol *in, ThriftProtocol *out,
                         GError **error);

/* Returns the generated class from which the class of `processor` is derived. Sets `service`,
 * unless the class belongs to no service. */
static ThriftProcessorClass *
get_generated_class (ThriftProcessor *processor, const TpsHandlerService **service)
{
  GType type = G_OBJECT_TYPE (processor);
  ThriftProcessorClass *klass = g_type_class_peek (type);

  for (; klass->process == process; klass = g_type_class_peek (type))
    {
      if (g_type_get_qdata (type, service_quark ()) != NULL)
        *service = g_type_get_qdata (type, service_quark ());
      type = g_type_parent (type);
    }
  return klass;
}

/* Returns a protocol that reads the message and owns it; the caller owns the protocol. */
static ThriftProtocol *
protocol_new (TpsMessage *message)
{
  ThriftTransport *sink = tps_host_transport_new_sink ();
  ThriftProtocol *protocol = tps_host_protocol_new (sink);

  g_object_unref (sink);
  tps_host_protocol_keep_messages (TPS_HOST_PROTOCOL (protocol));
  tps_host_protocol_give_message (TPS_HOST_PROTOCOL (protocol), message,
                                  tps_host_options_get_max_elements (NULL));
  return protocol;
}

static gboolean
run (ThriftProcessor *processor, ThriftProtocol *in, ThriftProtocol *out, GError **error)
{
  const TpsHandlerService *service = NULL;
  ThriftProcessorClass *generated = get_generated_class (processor, &service);
  g_autoptr (GObject) handler = NULL;
  g_autoptr (GObject) reading = NULL;
  TpsProcessor *services;
  TpsMessage *message;
  const TpsRpc *rpc;
  gboolean readable;

  g_object_get (processor, "handler", &handler, NULL);
  services = handler != NULL ? tps_handler_get_processor (handler) : NULL;
  if (services == NULL || service == NULL)
    return generated->process (processor, in, out, error);
  message = tps_processor_receive (services, in, error);
  if (message == NULL)
    return FALSE;
  /* All calls that generated code must not read go directly to the services, which refuse them. */
  rpc = find_rpc (service->name, message->name);
  readable = message->n_bytes_refused == 0 && (rpc == NULL || is_complete (rpc, message));
  reading = (GObject *) protocol_new (message);
  return readable ? generated->process (processor, THRIFT_PROTOCOL (reading), out, error)
                  : thrift_processor_process (THRIFT_PROCESSOR (services),
                                              THRIFT_PROTOCOL (reading), out, error);
}

/* Callers in the library may pass an error that is already set. After a failure they use the error,
 * which generated code does not always set. */
static gboolean
process (ThriftProcessor *processor, ThriftProtocol *in, ThriftProtocol *out, GError **error)
{
  GError *failure = NULL;
  gboolean ok = run (processor, in, out, &failure);

  if (error != NULL)
    g_clear_error (error);
  if (ok)
    g_clear_error (&failure);
  else if (failure == NULL)
    g_set_error_literal (&failure, TPS_ERROR, TPS_ERROR_INTERNAL,
                         "the generated processor failed without an error");
  if (failure != NULL)
    g_propagate_error (error, failure);
  return ok;
}

static void
class_init (gpointer klass, gpointer class_data)
{
  THRIFT_PROCESSOR_CLASS (klass)->process = process;
}

/* Returns the subclass of the service's generated processor, and registers it at the first call.
 * Thread: one. */
static GType
handler_processor_get_type (const TpsHandlerService *service)
{
  g_autofree gchar *name = g_strdup_printf ("Tps%sProcessor", service->name);
  GType type = g_type_from_name (name);
  GTypeQuery generated;

  if (type != 0)
    return type;
  g_type_query (service->get_processor_type (), &generated);
  type = g_type_register_static_simple (generated.type, name, generated.class_size, class_init,
                                        generated.instance_size, NULL, (GTypeFlags) 0);
  g_type_set_qdata (type, service_quark (), (gpointer) (guintptr) service);
  return type;
}

/* Returns the service whose handler class is `type` or an ancestor of it; NULL = none. */
static const TpsHandlerService *
find_service (GType type)
{
  for (const TpsHandlerService *service = tps_handler_services; service->name != NULL; service++)
    if (g_type_is_a (type, service->get_handler_type ()))
      return service;
  return NULL;
}

gpointer
tps_handler_new (GType type, TpsPlugin *plugin, TpsHostKind kind, GError **error)
{
  const TpsHandlerService *service = find_service (type);
  ThriftProcessor *processor;
  gpointer handler;

  g_return_val_if_fail (service != NULL, NULL);
  tps_register_types (tps_handler_wire_types, tps_handler_n_wire_types);
  processor = tps_plugin_new_processor (plugin, service->name, kind, error);
  if (processor == NULL)
    return NULL;
  handler = g_object_new (type, NULL);
  tps_handler_set_processor (handler, processor);
  g_object_unref (processor);
  return handler;
}

ThriftProcessor *
tps_handler_new_processor (gpointer handler)
{
  const TpsHandlerService *service = find_service (G_OBJECT_TYPE (handler));
  ThriftProcessor *processor;

  g_return_val_if_fail (service != NULL, NULL);
  processor = g_object_new (handler_processor_get_type (service), "handler", handler, NULL);
  tps_repair_processor_class (processor);
  return processor;
}
