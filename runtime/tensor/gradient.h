/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Gradients; thriftps/tensor.h has the type. */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Moves `from`, which is NONE afterwards, to `to`, whose previous contents are released. */
void tps_gradient_move (TpsGradient *to, TpsGradient *from);

/* Initialises `gradient` as a further owner of the elements of `other`. */
void tps_gradient_init_ref (TpsGradient *gradient, const TpsGradient *other);

/* Checks the weight, the floating-point dtype, indices INT64 [nnz] in [0, rows), and values [nnz,
 * dim]. Reads all indices. Errors: INVALID_ARGUMENT; the message names the value and its
 * position. */
gboolean tps_gradient_check (const TpsGradient *gradient, GError **error);

/* Describes a gradient: "dense FLOAT32 [30, 100]", "sparse FLOAT32 [1024, 64]" (the shape of the
 * whole matrix), or "no data". Owned by the caller. */
gchar *tps_gradient_to_string (const TpsGradient *gradient);

G_END_DECLS
