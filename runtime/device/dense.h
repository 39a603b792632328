/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Dense operations of devices: a second table of functions, which only trainers use. The rules are
 * those of TpsDeviceOps (runtime/device/backend.h), but the bits of gemm, softmax and losses (other
 * than L1's gradient) may differ between devices. runtime/trainer/dense has the CPU's functions. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

typedef struct
{
  gboolean transpose_a, transpose_b;
  gsize m, n, k;
  gfloat alpha, beta;
  const gfloat *a; /* [m, k]; [k, m] if transpose_a */
  const gfloat *b; /* [k, n]; [n, k] if transpose_b */
  gfloat *c;       /* [m, n]; not read if beta is 0; must not overlap a or b */
} TpsGemm;

/* All operations only enqueue. */
struct TpsDenseOps
{
  /* c = alpha * op (a) op (b) + beta * c. */
  void (*gemm) (TpsStream *stream, const TpsGemm *gemm);
  /* values [rows, columns] += bias [columns], for each row. */
  void (*bias_add) (TpsStream *stream, gfloat *values, const gfloat *bias, gsize rows,
                    gsize columns);
  /* sums [columns] = 0 + the sum over the rows of values [rows, columns], as a tree. */
  void (*column_sum) (TpsStream *stream, gfloat *sums, const gfloat *values, gsize rows,
                      gsize columns);

  /* output[i] = input[i] > 0 ? input[i] : 0; NaN stays NaN. May be in place. */
  void (*relu) (TpsStream *stream, gfloat *output, const gfloat *input, gsize n_elems);
  /* input_gradient[i] = output[i] > 0 ? output_gradient[i] : 0. May be in place. */
  void (*relu_backward) (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                         const gfloat *output, gsize n_elems);

  /* Computes output [rows, columns], the softmax of each row of the input. May be in place. columns
   * must be > 0 if rows > 0. */
  void (*softmax) (TpsStream *stream, gfloat *output, const gfloat *input, gsize rows,
                   gsize columns);
  /* input_gradient = output * (output_gradient - s), where s is the sum of output_gradient * output
   * over the row. May be in place. */
  void (*softmax_backward) (TpsStream *stream, gfloat *input_gradient,
                            const gfloat *output_gradient, const gfloat *output, gsize rows,
                            gsize columns);

  /* The cross-entropy of the log-softmax of the rows of input [rows, columns] with the classes
   * target [rows], averaged over the rows; 0 without rows. *loss must lie in memory that the device
   * can write. `loss` and input_gradient [rows, columns] may be NULL; the gradient may be in
   * place. */
  void (*cross_entropy) (TpsStream *stream, gdouble *loss, gfloat *input_gradient,
                         const gfloat *input, const gint64 *target, gsize rows, gsize columns);
  /* Computes the mean of |input - target|. The gradient is sign (input - target) / n_elems, and 0
   * for equal values. The outputs are as for cross_entropy. */
  void (*l1_loss) (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
                   const gfloat *target, gsize n_elems);

  /* Updates n_elems values by one step. `velocity` [n_elems] must be zero before the first step;
   * see TpsSgdFactors. */
  void (*sgd) (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values,
               const gfloat *gradient, gfloat *velocity, gsize n_elems);
  /* Updates the rows `indices` [n_rows], unique, of values [rows, dim] and of velocity by one step;
   * `gradients` is [n_rows, dim]. Other rows do not change, not even by decay. */
  void (*sgd_rows) (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values,
                    const gint64 *indices, const gfloat *gradients, gfloat *velocity, gsize n_rows,
                    gsize dim);
};

G_END_DECLS
