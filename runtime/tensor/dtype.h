/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Element types. The numbers are those of the wire. */

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

/* Whether `value` is one of the above. */
gboolean tps_dtype_is_valid (gint value);

/* Bytes of an element; `dtype` must be valid. */
gsize tps_dtype_size (TpsDType dtype);

/* "FLOAT32", …; "dtype 77" style names do not exist: invalid values give "UNKNOWN". Static. */
const gchar *tps_dtype_name (TpsDType dtype);

gboolean tps_dtype_is_floating (TpsDType dtype);

/* Scalar conversions, round to nearest, ties to even; overflow gives infinity, NaN stays NaN
 * (quiet). */
guint16 tps_float16_from_float (gfloat value);
gfloat tps_float16_to_float (guint16 bits);
guint16 tps_bfloat16_from_float (gfloat value);
gfloat tps_bfloat16_to_float (guint16 bits);

G_END_DECLS
