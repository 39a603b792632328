/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The checks of a gradient's structure, for readers of messages and of generated objects. Errors:
 * TPS_ERROR_INVALID_ARGUMENT. `path` names the struct in errors. Thread: any. */

#pragma once

#include "plugin/wire/field_path.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Refuses a gradient that is both dense and sparse. */
gboolean tps_gradient_check_form (const TpsFieldPath *path, gboolean is_dense, gboolean is_sparse,
                                  GError **error);

/* Checks the `n_dims` dimensions of the whole matrix, [rows, dim], against the shape of the
 * values. */
gboolean tps_sparse_check (const TpsFieldPath *path, const TpsShape *values, const gint64 *dims,
                           guint n_dims, GError **error);

G_END_DECLS
