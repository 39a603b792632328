/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions between values of the runtime and generated C GLib objects, for handlers that
 * override methods. Thread: any. */

#pragma once

#include <thrift/c_glib/thrift_struct.h>

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

#include "tps_wire_node_types.h"
#include "tps_wire_tensor_types.h"

/* Returns a view of the tensor's elements, which stay borrowed: it is valid as long as `wire` and
 * its data are unchanged. Errors: INVALID_ARGUMENT as from the services, which names `name`
 * (elements that do not match the shape, an unknown dtype, elements in shared memory). */
gboolean tps_tensor_view_from_wire (const TpsWireTensor *wire, const gchar *name,
                                    TpsTensorView *view, GError **error);

/* Creates an object with a copy of the elements; the caller owns it. */
TpsWireTensor *tps_tensor_view_to_wire (TpsTensorView view);

/* Creates the ServiceError that the services return for `error`, with its code, message and
 * retry_after_ms; the caller owns it. */
TpsWireServiceError *tps_service_error_to_wire (const GError *error);

/* Returns `failure` as an error in the domain TPS_ERROR; the caller owns it. An unknown code
 * becomes INTERNAL. */
GError *tps_service_error_from_wire (const TpsWireServiceError *failure);

G_END_DECLS
