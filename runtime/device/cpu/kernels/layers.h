/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Arithmetic of layers, losses and optimizers in host memory, below the backend table. Each
 * function implements the slot of the same name in runtime/device/backend.h. Thread: any. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

void tps_cpu_bias_add (gfloat *values, const gfloat *bias, gsize rows, gsize columns);
void tps_cpu_column_sum (gfloat *sums, const gfloat *values, gsize rows, gsize columns);

void tps_cpu_relu (gfloat *output, const gfloat *input, gsize n_elems);
void tps_cpu_relu_backward (gfloat *input_gradient, const gfloat *output_gradient,
                            const gfloat *output, gsize n_elems);

void tps_cpu_softmax (gfloat *output, const gfloat *input, gsize rows, gsize columns);
void tps_cpu_softmax_backward (gfloat *input_gradient, const gfloat *output_gradient,
                               const gfloat *output, gsize rows, gsize columns);

void tps_cpu_cross_entropy (gdouble *loss, gfloat *input_gradient, const gfloat *input,
                            const gint64 *target, gsize rows, gsize columns);
void tps_cpu_l1_loss (gdouble *loss, gfloat *input_gradient, const gfloat *input,
                      const gfloat *target, gsize n_elems);

void tps_cpu_sgd (const TpsSgdFactors *factors, gfloat *values, const gfloat *gradient,
                  gfloat *velocity, gsize n_elems);
void tps_cpu_sgd_rows (const TpsSgdFactors *factors, gfloat *values, const gint64 *indices,
                       const gfloat *gradients, gfloat *velocity, gsize n_rows, gsize dim);

G_END_DECLS
