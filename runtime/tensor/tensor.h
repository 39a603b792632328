/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tensors; thriftps/tensor.h has their public functions. */

#pragma once

#include <thriftps/tensor.h>

#include "runtime/base/buffer.h"

G_BEGIN_DECLS

/* Moves `from`, which is empty afterwards, to `to`, whose previous elements are released. */
void tps_tensor_move (TpsTensor *to, TpsTensor *from);

/* Initializes a tensor that borrows the elements of `view`. They must not be written. */
void tps_tensor_init_borrowed (TpsTensor *tensor, TpsTensorView view);

/* Returns TRUE for the all-zero value. A tensor that merely has no elements is not empty. */
gboolean tps_tensor_is_empty (const TpsTensor *tensor);

/* Element types. */

gboolean tps_dtype_is_valid (gint value);

gboolean tps_dtype_is_floating (TpsDType dtype);

G_END_DECLS
