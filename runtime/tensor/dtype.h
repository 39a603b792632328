/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Element types. */

#pragma once

#include <thriftps/tensor.h>

G_BEGIN_DECLS

/* Returns TRUE if `value` is a TpsDType. */
gboolean tps_dtype_is_valid (gint value);

/* Returns TRUE for floating-point types. `dtype` must be valid. */
gboolean tps_dtype_is_floating (TpsDType dtype);

G_END_DECLS
