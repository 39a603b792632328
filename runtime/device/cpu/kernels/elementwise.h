/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elementwise arithmetic in host memory, below the backend table (runtime/device/backend.h): for
 * code that is on the CPU anyway.
 *
 * Every function works on `n_elems` elements, aligned to their size; NULL is allowed where n_elems
 * is 0. Element i of a result depends on element i of the operands only, so a long array may be cut
 * anywhere, for cache blocks or threads, with the same bits. The bits are the same on every CPU;
 * only which NaN a NaN is is not promised.
 *
 * Gradients are added up in the sum's type: FLOAT64 for FLOAT64, FLOAT32 for FLOAT32, FLOAT16 and
 * BFLOAT16. Other gradient types are a bug of the caller. Thread: any; no allocation, nothing
 * blocks, nothing fails.
 */

#pragma once

#include "runtime/tensor/dtype.h"

G_BEGIN_DECLS

/* The type in which gradients of `dtype` are added up; `dtype` must be floating point. */
TpsDType tps_cpu_sum_dtype (TpsDType dtype);

/* to[i] = from[i], converted: one rounding, to nearest even; to an integer towards zero, saturated,
 * NaN gives 0. All pairs. The arrays must not overlap unless they are the same array of the same
 * type. (Starts a sum: -0 stays -0, which 0 + x would not do.) */
void tps_cpu_cast (TpsDType to_dtype, gpointer to, TpsDType from_dtype, gconstpointer from,
                   gsize n_elems);

/* sum[i] = a[i] + b[i]: exact conversions to the sum's type, one rounding; tps_cpu_scale() with
 * weight 1 and then tps_cpu_accumulate() give the same bits. `sum` may be `a` or `b` where the
 * types are equal. */
void tps_cpu_add (TpsDType dtype, gpointer sum, gconstpointer a, gconstpointer b, gsize n_elems);

/* sum[i] += gradient[i]: exact conversion to the sum's type, one rounding. */
void tps_cpu_accumulate (TpsDType dtype, gpointer sum, gconstpointer gradient, gsize n_elems);

/* sum[i] = weight * gradient[i]: the product rounded to the sum's type. Weight 1 gives
 * tps_cpu_cast()'s bits. */
void tps_cpu_scale (TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
                    gsize n_elems);

/* sum[i] += weight * gradient[i]: the product rounded to the sum's type, then the sum. Weight 1
 * gives tps_cpu_accumulate()'s bits. */
void tps_cpu_scale_accumulate (TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
                               gsize n_elems);

/* average[i] = sum[i] / divisor, rounded once, to `dtype`; the sum is of the sum's type. `average`
 * may be `sum` where the types are equal, else they must not overlap. (One rounding holds for every
 * divisor that a float represents, such as every count up to 2^24; for others the quotient passes
 * through a double.) */
void tps_cpu_divide (TpsDType dtype, gpointer average, gconstpointer sum, gdouble divisor,
                     gsize n_elems);

/* values[i] = value, converted as by tps_cpu_cast() from FLOAT64. */
void tps_cpu_fill (TpsDType dtype, gpointer values, gdouble value, gsize n_elems);

G_END_DECLS
