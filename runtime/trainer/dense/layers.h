/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Arithmetic of layers and losses in host memory, below the table of dense operations. Each
 * function implements the slot of the same name in runtime/device/dense.h, which has the full
 * contract. Arrays are borrowed and lie in host memory. The functions never fail. Thread: any. */

#pragma once

#include "runtime/device/dense.h"

G_BEGIN_DECLS

/* Adds bias [columns] to each row of values [rows, columns]. */
void tps_cpu_bias_add (gfloat *values, const gfloat *bias, gsize rows, gsize columns);
/* Writes sums [columns], the sum over the rows of values [rows, columns], added as a tree. */
void tps_cpu_column_sum (gfloat *sums, const gfloat *values, gsize rows, gsize columns);

/* Sets output[i] = max (input[i], 0); [n_elems] each. NaN stays NaN. May be in place. */
void tps_cpu_relu (gfloat *output, const gfloat *input, gsize n_elems);
/* Sets input_gradient[i] to output_gradient[i] where output[i] > 0, otherwise to 0; [n_elems] each.
 * May be in place. */
void tps_cpu_relu_backward (gfloat *input_gradient, const gfloat *output_gradient,
                            const gfloat *output, gsize n_elems);

/* Writes output [rows, columns], the softmax of each row of `input`. May be in place. `columns`
 * must be > 0 if `rows` is. */
void tps_cpu_softmax (gfloat *output, const gfloat *input, gsize rows, gsize columns);
/* Writes the gradient of the input of a softmax from its `output` and the gradient of the output;
 * [rows, columns] each. May be in place. */
void tps_cpu_softmax_backward (gfloat *input_gradient, const gfloat *output_gradient,
                               const gfloat *output, gsize rows, gsize columns);

/* Writes *loss, the mean cross-entropy of the rows of input [rows, columns] with the classes target
 * [rows], and its gradient [rows, columns]. `loss` and `input_gradient` may be NULL; the gradient
 * may be in place. */
void tps_cpu_cross_entropy (gdouble *loss, gfloat *input_gradient, const gfloat *input,
                            const gint64 *target, gsize rows, gsize columns);
/* Writes *loss, the mean of |input - target|, and its gradient; arrays are [n_elems]. `loss` and
 * `input_gradient` may be NULL; the gradient may be in place. */
void tps_cpu_l1_loss (gdouble *loss, gfloat *input_gradient, const gfloat *input,
                      const gfloat *target, gsize n_elems);

G_END_DECLS
