/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elementwise arithmetic in host memory, below the backend table (runtime/device/backend.h).
 *
 * Every function works on `n_elems` elements, aligned to their size; pointers may be NULL if
 * n_elems is 0. Element i of a result depends only on element i of the operands, so a long array
 * can be cut anywhere. The bits are the same on every CPU, except for the payload of a NaN.
 *
 * Gradients are summed in the sum's type: FLOAT64 for FLOAT64, and FLOAT32 for FLOAT32, FLOAT16 and
 * BFLOAT16. Any other gradient type is a bug in the caller. Thread: any. */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Returns the type in which gradients of `dtype` are summed. `dtype` must be floating point. */
TpsDType tps_cpu_sum_dtype (TpsDType dtype);

/* As `cast` of the backend table. Can start a sum: it keeps the sign of -0, whereas 0 + -0 is 0. */
void tps_cpu_cast (TpsDType to_dtype, gpointer to, TpsDType from_dtype, gconstpointer from,
                   gsize n_elems);

/* sum[i] = a[i] + b[i], in the sum's type, rounded once: the bits of tps_cpu_scale() with weight 1
 * and tps_cpu_accumulate(). `sum` may be `a` or `b` if the types are equal. */
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

/* average[i] = sum[i] / divisor, to `dtype`; `sum` is of the sum's type. In place only for equal
 * types. Rounded once if a float can represent the divisor, such as counts up to 2^24; other
 * quotients are rounded to double first. */
void tps_cpu_divide (TpsDType dtype, gpointer average, gconstpointer sum, gdouble divisor,
                     gsize n_elems);

/* values[i] = value, which is converted as tps_cpu_cast() converts FLOAT64. */
void tps_cpu_fill (TpsDType dtype, gpointer values, gdouble value, gsize n_elems);

G_END_DECLS
