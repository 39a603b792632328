/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Values of the runtime from and to generated C GLib objects, for handlers that override methods.
 * Thread: any. */

#pragma once

#include <thrift/c_glib/thrift_struct.h>

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

#include "tps_wire_node_types.h"
#include "tps_wire_tensor_types.h"

/* A view of the tensor's elements, which stay borrowed: valid as long as `wire` and its data are
 * unchanged. Errors: INVALID_ARGUMENT as the services answer it, naming `what` (elements that do
 * not fit the shape, an unknown dtype, elements in shared memory). */
gboolean tps_tensor_view_from_wire (const TpsWireTensor *wire, const gchar *what,
                                    TpsTensorView *view, GError **error);

/* An object with a copy of the elements; the caller's. */
TpsWireTensor *tps_tensor_view_to_wire (TpsTensorView view);

/* The failure that the services answer with for `error`: its code, message and time to wait; the
 * caller's. */
TpsWireServiceError *tps_service_error_to_wire (const GError *error);

/* The error, in the domain TPS_ERROR, that `failure` stands for; the caller's. An unknown code is
 * INTERNAL. */
GError *tps_service_error_from_wire (const TpsWireServiceError *failure);

G_END_DECLS
