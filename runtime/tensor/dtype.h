/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Element types. */

#pragma once

#include <thriftps/tensor.h>

G_BEGIN_DECLS

/* Returns TRUE if `value` is a TpsDType. */
gboolean tps_dtype_is_valid (gint value);

/* Returns TRUE for floating-point types. `dtype` must be valid. */
gboolean tps_dtype_is_floating (TpsDType dtype);

/* Convert one value. Conversions round to nearest, ties to even. An overflow gives infinity; a NaN
 * gives a quiet NaN. */
guint16 tps_float16_from_float (gfloat value);
gfloat tps_float16_to_float (guint16 bits);
guint16 tps_bfloat16_from_float (gfloat value);
gfloat tps_bfloat16_to_float (guint16 bits);

G_END_DECLS
