/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/glib/handler.h"

#include "plugin/glib/handler_call.h"
#include "plugin/glib/handler_processor.h"

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
  processor = g_object_new (tps_handler_processor_get_type (service), "handler", handler, NULL);
  tps_repair_processor_class (processor);
  return processor;
}
