/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Implementations of the generated C GLib handlers of the contract. Each service of thrift/ has a
 * class derived from the generated TpsWire<Service>Handler, whose methods call a TpsPlugin.
 *
 *   handler = tps_handler_new (TPS_TYPE_PARAMETER_SERVER_HANDLER, plugin, TPS_HOST_THREADED,
 *                              &error);
 *   processor = tps_handler_new_processor (handler);     a TpsWireParameterServerProcessor
 *
 * The processor works in any ThriftServer. A subclass may override or wrap a method:
 *
 *   G_DEFINE_TYPE (Audited, audited, TPS_TYPE_PARAMETER_SERVER_HANDLER)
 *
 *   static gboolean
 *   average (TpsWireParameterServerIf *iface, TpsWireGradient **_return, const gint32 trainer, …)
 *   {
 *     note (trainer);
 *     return TPS_WIRE_PARAMETER_SERVER_HANDLER_CLASS (audited_parent_class)
 *         ->average_gradient (iface, _return, trainer, …);
 *   }
 *
 *   TPS_WIRE_PARAMETER_SERVER_HANDLER_CLASS (klass)->average_gradient = average;
 *
 * A program may also call the methods directly, without a server:
 * tps_wire_parameter_server_if_average_gradient (handler, …).
 *
 * Semantics, limits and error messages are the same as those of the services, because each call is
 * sent to them as a message. If a call lacks an argument, the services refuse it, and the handler
 * is not called. (A processor that was created with g_object_new() instead calls the handler, and
 * passes 0, an empty list or a struct without fields for the argument; a push id without a client
 * counts as no push id.) If an argument of a call lacks a required field, generated code treats the
 * call as an error of the connection.
 *
 * If no method is overridden, tps_plugin_register() is faster: it copies a tensor once, whereas
 * generated code copies it several times in each direction. Calls of the service Memory fail with
 * UNAVAILABLE, as with every server other than TpsServer.
 */

#pragma once

#include <thriftps/plugin.h>

#include "plugin/glib/handlers.h"
#include "tps_wire_tensor_types.h"

G_BEGIN_DECLS

/* Creates a handler of `type`, which must be a TPS_TYPE_..._HANDLER or a subclass of one. The
 * caller owns the handler. Registers and repairs all generated types of the contract
 * (plugin/host/library.h). The plugin must outlive the handler's calls. Errors: INVALID_ARGUMENT if
 * the plugin does not have this service. Thread: one, before the server starts; the methods may run
 * on any thread. */
gpointer tps_handler_new (GType type, TpsPlugin *plugin, TpsHostKind kind, GError **error);

/* Creates a processor for the handler's service, which the caller owns. Its class is a repaired
 * subclass of the generated processor. The processor holds a reference to the handler. Thread: one,
 * before the server starts. */
ThriftProcessor *tps_handler_new_processor (gpointer handler);

/* Creates the ServiceError that the services return for `error`, with its code, message and
 * retry_after_ms, for methods that refuse a call. Thread: any. */
TpsWireServiceError *tps_service_error_to_wire (const GError *error);

G_END_DECLS
