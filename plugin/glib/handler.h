/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Generated C GLib handlers of our contract that are implemented: for each service of thrift/ a
 * class derived from the generated TpsWire<Service>Handler, whose methods a TpsPlugin answers.
 *
 *   handler = tps_handler_new (TPS_TYPE_PARAMETER_SERVER_HANDLER, plugin, TPS_HOST_THREADED,
 *                              &error);
 *   processor = tps_handler_new_processor (handler);     a TpsWireParameterServerProcessor
 *
 * The processor serves in any ThriftServer. A subclass overrides a method, or wraps it:
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
 * For values there are plugin/glib/wire_values.h and the generated objects themselves. Methods may
 * also be called directly, without a server: tps_wire_parameter_server_if_average_gradient
 * (handler, …).
 *
 * Semantics, limits and error messages are those of the services, because each call becomes a
 * message to them. A call that lacks an argument does not reach the handler: the services answer
 * it. (Under a processor that g_object_new() made it does, with 0, an empty list or a struct
 * without fields in its place; a push id without a client counts as none.) A call that lacks a
 * required field inside an argument is what generated code takes it for: an error of the
 * connection.
 *
 * Without overrides tps_plugin_register() is the faster way: it copies a tensor once, generated
 * code several times each way. Memory answers UNAVAILABLE, as under any server but TpsServer.
 */

#pragma once

#include "plugin/glib/handlers.h"
#include "plugin/plugin.h"

G_BEGIN_DECLS

/* A handler of `type`, one of the TPS_TYPE_..._HANDLER or a subclass; the caller's. Registers and
 * repairs all generated types of the contract (plugin/host/library.h). The plugin must outlive the
 * handler's calls. Errors: INVALID_ARGUMENT (the plugin does not serve this service). Thread: one,
 * before the server starts; the methods any. */
gpointer tps_handler_new (GType type, TpsPlugin *plugin, TpsHostKind kind, GError **error);

/* A processor for the handler's service, of a subclass of the generated one, which is repaired; the
 * caller's. It has a reference of the handler. Thread: one, before the server starts. */
ThriftProcessor *tps_handler_new_processor (gpointer handler);

G_END_DECLS
