/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions between values of the runtime and generated C GLib objects, for handlers that
 * override methods.
 *
 * ..._from_wire: converts `wire`, which is borrowed; errors call it `name`. Errors:
 * INVALID_ARGUMENT, with the messages of the services ("gradient.dense.data has 7 bytes, FLOAT32
 * [2] needs 8"). The output must be initialised to zero; it is unchanged after a failure.
 *
 * ..._to_wire: creates an object, which the caller owns, with copies of all values. Tensors must be
 * in host memory.
 *
 * Thread: any, after tps_handler_new() or tps_register_types() has registered the types. */

#pragma once

#include <thrift/c_glib/thrift_struct.h>

#include "plugin/wire/wire_tensor.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

#include "tps_wire_embedding_table_types.h"
#include "tps_wire_node_types.h"
#include "tps_wire_tensor_types.h"

/* -- tensors -- */

/* Sets `view` to the tensor's elements, which are borrowed: the view is valid as long as `wire` and
 * its data are unchanged. Refuses elements that do not match the shape, an unknown dtype, and
 * elements in shared memory. */
gboolean tps_tensor_view_from_wire (const TpsWireTensor *wire, const gchar *name,
                                    TpsTensorView *view, GError **error);

/* As tps_tensor_view_from_wire(), but initialises a tensor that may outlive `wire`: the tensor
 * holds a reference to the GByteArray of `wire`, which must not be changed any more. The elements
 * are not copied. The caller must clear the tensor. */
gboolean tps_tensor_from_wire (const TpsWireTensor *wire, const gchar *name, TpsTensor *tensor,
                               GError **error);

/* Creates an object with a copy of the elements, which must have at most G_MAXUINT bytes, the limit
 * of a GByteArray. */
TpsWireTensor *tps_tensor_view_to_wire (TpsTensorView view);

/* -- gradients -- */

/* Convert a gradient. Its tensors are created as by tps_tensor_from_wire(). from_wire() checks the
 * structure (not both dense and sparse, shapes against values); tps_gradient_check() must check the
 * rest. The caller must clear the gradient. */
gboolean tps_gradient_from_wire (const TpsWireGradient *wire, const gchar *name,
                                 TpsGradient *gradient, GError **error);
TpsWireGradient *tps_gradient_to_wire (const TpsGradient *gradient);

/* Convert some rows of a table or parameter to or from a SPARSE gradient. from_wire() sets the
 * weight to 1. */
gboolean tps_sparse_gradient_from_wire (const TpsWireSparseTensor *wire, const gchar *name,
                                        TpsGradient *gradient, GError **error);
TpsWireSparseTensor *tps_sparse_gradient_to_wire (const TpsGradient *gradient);

/* -- push ids, optimizers, tables -- */

/* Converts a push id, which the caller must clear. If `wire` is NULL or has no client, `push` has
 * no client; a generated processor passes such an object if the call has no push id. */
gboolean tps_push_id_from_wire (const TpsWirePushId *wire, const gchar *name, TpsPushId *push,
                                GError **error);
/* Converts a push id, which must have a client. */
TpsWirePushId *tps_push_id_to_wire (const TpsPushId *push);

/* Convert an optimizer. A field that is not set corresponds to NAN.
 * tps_optimizer_spec_resolve() sets the defaults and checks the values. */
gboolean tps_optimizer_from_wire (const TpsWireOptimizer *wire, const gchar *name,
                                  TpsOptimizerSpec *spec, GError **error);
TpsWireOptimizer *tps_optimizer_to_wire (const TpsOptimizerSpec *spec);

/* Convert the specification of a table. The caller must clear `spec`. */
gboolean tps_table_spec_from_wire (const TpsWireTableSpec *wire, const gchar *name,
                                   TpsTableSpec *spec, GError **error);
TpsWireTableSpec *tps_table_spec_to_wire (const TpsTableSpec *spec);

/* -- failures -- */

/* Creates the ServiceError that the services return for `error`, with its code, message and
 * retry_after_ms. */
TpsWireServiceError *tps_service_error_to_wire (const GError *error);

/* Returns `failure` as an error in the domain TPS_ERROR; the caller owns it. An unknown code
 * becomes INTERNAL. */
GError *tps_service_error_from_wire (const TpsWireServiceError *failure);

G_END_DECLS
