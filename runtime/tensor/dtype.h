/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Element types. The numeric values are part of the wire format. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_DTYPE_FLOAT32 = 1,
  TPS_DTYPE_FLOAT64 = 2,
  TPS_DTYPE_FLOAT16 = 3,
  TPS_DTYPE_BFLOAT16 = 4,
  TPS_DTYPE_INT32 = 5,
  TPS_DTYPE_INT64 = 6,
} TpsDType;

/* Returns TRUE if `value` is one of the types above. */
gboolean tps_dtype_is_valid (gint value);

/* Returns the size of an element in bytes. `dtype` must be valid. */
gsize tps_dtype_size (TpsDType dtype);

/* Returns the name, such as "FLOAT32", or "UNKNOWN" for an invalid value. Static. */
const gchar *tps_dtype_name (TpsDType dtype);

/* Returns TRUE for floating-point types. `dtype` must be valid. */
gboolean tps_dtype_is_floating (TpsDType dtype);

/* Convert one value. Conversions round to nearest, ties to even. An overflow gives infinity; a NaN
 * gives a quiet NaN. */
guint16 tps_float16_from_float (gfloat value);
gfloat tps_float16_to_float (guint16 bits);
guint16 tps_bfloat16_from_float (gfloat value);
gfloat tps_bfloat16_to_float (guint16 bits);

G_END_DECLS
