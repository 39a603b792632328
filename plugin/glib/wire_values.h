/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions between C structs with descriptors and generated C GLib objects, for handlers that
 * override methods. Thread: any, after tps_handler_new() or tps_register_types() has registered the
 * types. */

#pragma once

#include <thrift/c_glib/thrift_struct.h>
#include <thriftps/wire.h>

G_BEGIN_DECLS

#include "tps_wire_node_types.h"
#include "tps_wire_tensor_types.h"

/* Reads the generated object `wire` into the C struct `value`, with copies of all values:
 *
 *   tps_struct_from_wire (&tps_gradient_struct, wire, "gradient", &gradient, &error)
 *
 * The value must be zero before, and the caller must clear it, even after a failure. Errors:
 * INVALID_ARGUMENT, with the messages of the services ("gradient.dense.data has 7 bytes, FLOAT32
 * [2] needs 8"). */
gboolean tps_struct_from_wire (const TpsStruct *type, gconstpointer wire, const gchar *name,
                               gpointer value, GError **error);

/* Creates an object of the generated type `wire_type`, which the caller owns, with copies of all
 * values. Errors (NULL): RESOURCE_EXHAUSTED. */
gpointer tps_struct_to_wire (const TpsStruct *type, gconstpointer value, GType wire_type,
                             GError **error);

/* Sets `view` to the tensor's elements, which are borrowed: the view is valid as long as `wire` and
 * its data are unchanged. Refuses elements that do not match the shape, an unknown dtype, and
 * elements in shared memory. */
gboolean tps_tensor_view_from_wire (const TpsWireTensor *wire, const gchar *name,
                                    TpsTensorView *view, GError **error);

/* Creates the ServiceError that the services return for `error`, with its code, message and
 * retry_after_ms. */
TpsWireServiceError *tps_service_error_to_wire (const GError *error);

/* Returns `failure` as an error in the domain TPS_ERROR; the caller owns it. An unknown code
 * becomes INTERNAL. */
GError *tps_service_error_from_wire (const TpsWireServiceError *failure);

G_END_DECLS
