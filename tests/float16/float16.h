/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Conversions of FLOAT16 and BFLOAT16 in scalar code, as a reference for the kernels. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Convert one value. Conversions round to nearest, ties to even. An overflow gives infinity; a NaN
 * gives a quiet NaN. */
guint16 tps_float16_from_float (gfloat value);
gfloat tps_float16_to_float (guint16 bits);
guint16 tps_bfloat16_from_float (gfloat value);
gfloat tps_bfloat16_to_float (guint16 bits);

G_END_DECLS
