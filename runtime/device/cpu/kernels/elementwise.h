/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elementwise arithmetic in host memory, below the backend table (runtime/device/backend.h), for
 * code that always runs on the CPU.
 *
 * Every function works on `n_elems` elements, which must be aligned to their size; pointers may be
 * NULL if n_elems is 0. Element i of a result depends only on element i of the operands, so a long
 * array can be cut anywhere, for cache blocks or for threads, without a change of the bits. The
 * bits are the same on every CPU, except for the payload of a NaN.
 *
 * Gradients are summed in the sum's type: FLOAT64 for FLOAT64, and FLOAT32 for FLOAT32, FLOAT16 and
 * BFLOAT16. Any other gradient type is a bug in the caller. Thread: any. The functions do not
 * allocate, block or fail.
 */

#pragma once

#include "runtime/tensor/dtype.h"

G_BEGIN_DECLS

/* Returns the type in which gradients of `dtype` are summed. `dtype` must be floating point. */
TpsDType tps_cpu_sum_dtype (TpsDType dtype);

/* to[i] = from[i], for all pairs of types. Rounds once, to nearest even. A conversion to an integer
 * truncates towards zero and saturates; NaN gives 0. The arrays must not overlap unless they are
 * the same array of the same type. A cast can start a sum and keeps the sign of -0, whereas 0 + -0
 * would be 0. */
void tps_cpu_cast (TpsDType to_dtype, gpointer to, TpsDType from_dtype, gconstpointer from,
                   gsize n_elems);

/* sum[i] = a[i] + b[i]: converts to the sum's type exactly and rounds once. tps_cpu_scale() with
 * weight 1 followed by tps_cpu_accumulate() gives the same bits. `sum` may be `a` or `b` if the
 * types are equal. */
void tps_cpu_add (TpsDType dtype, gpointer sum, gconstpointer a, gconstpointer b, gsize n_elems);

/* sum[i] += gradient[i]: converts to the sum's type exactly and rounds once. */
void tps_cpu_accumulate (TpsDType dtype, gpointer sum, gconstpointer gradient, gsize n_elems);

/* sum[i] = weight * gradient[i]: rounds the product to the sum's type. Weight 1 gives the bits of
 * tps_cpu_cast(). */
void tps_cpu_scale (TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
                    gsize n_elems);

/* sum[i] += weight * gradient[i]: rounds the product to the sum's type, and then the sum. Weight 1
 * gives the bits of tps_cpu_accumulate(). */
void tps_cpu_scale_accumulate (TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
                               gsize n_elems);

/* average[i] = sum[i] / divisor, rounded once, to `dtype`; `sum` is of the sum's type. `average`
 * may be `sum` if the types are equal; otherwise the arrays must not overlap. The result is rounded
 * only once if a float can represent the divisor, such as every count up to 2^24. For other
 * divisors, the quotient is rounded to double first. */
void tps_cpu_divide (TpsDType dtype, gpointer average, gconstpointer sum, gdouble divisor,
                     gsize n_elems);

/* values[i] = value, which is converted as tps_cpu_cast() converts FLOAT64. */
void tps_cpu_fill (TpsDType dtype, gpointer values, gdouble value, gsize n_elems);

G_END_DECLS
