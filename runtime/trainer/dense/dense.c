/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dense operations of the CPU, which are complete when they return. */

#include "runtime/trainer/dense/dense.h"

#include "runtime/device/cpu/kernels/descent.h"
#include "runtime/trainer/dense/blas.h"
#include "runtime/trainer/dense/layers.h"

static void
cpu_gemm (TpsStream *stream, const TpsGemm *gemm)
{
  tps_cpu_gemm (gemm);
}

static void
cpu_bias_add (TpsStream *stream, gfloat *values, const gfloat *bias, gsize rows, gsize columns)
{
  tps_cpu_bias_add (values, bias, rows, columns);
}

static void
cpu_column_sum (TpsStream *stream, gfloat *sums, const gfloat *values, gsize rows, gsize columns)
{
  tps_cpu_column_sum (sums, values, rows, columns);
}

static void
cpu_relu (TpsStream *stream, gfloat *output, const gfloat *input, gsize n_elems)
{
  tps_cpu_relu (output, input, n_elems);
}

static void
cpu_relu_backward (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                   const gfloat *output, gsize n_elems)
{
  tps_cpu_relu_backward (input_gradient, output_gradient, output, n_elems);
}

static void
cpu_softmax (TpsStream *stream, gfloat *output, const gfloat *input, gsize rows, gsize columns)
{
  tps_cpu_softmax (output, input, rows, columns);
}

static void
cpu_softmax_backward (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                      const gfloat *output, gsize rows, gsize columns)
{
  tps_cpu_softmax_backward (input_gradient, output_gradient, output, rows, columns);
}

static void
cpu_cross_entropy (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
                   const gint64 *target, gsize rows, gsize columns)
{
  tps_cpu_cross_entropy (loss, input_gradient, input, target, rows, columns);
}

static void
cpu_l1_loss (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
             const gfloat *target, gsize n_elems)
{
  tps_cpu_l1_loss (loss, input_gradient, input, target, n_elems);
}

static void
cpu_sgd (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values, const gfloat *gradient,
         gfloat *velocity, gsize n_elems)
{
  tps_cpu_sgd (factors, values, gradient, velocity, n_elems);
}

static void
cpu_sgd_rows (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values,
              const gint64 *indices, const gfloat *gradients, gfloat *velocity, gsize n_rows,
              gsize dim)
{
  tps_cpu_sgd_rows (factors, values, indices, gradients, velocity, n_rows, dim);
}

const TpsDenseOps tps_cpu_dense_ops = {
  .gemm = cpu_gemm,
  .bias_add = cpu_bias_add,
  .column_sum = cpu_column_sum,
  .relu = cpu_relu,
  .relu_backward = cpu_relu_backward,
  .softmax = cpu_softmax,
  .softmax_backward = cpu_softmax_backward,
  .cross_entropy = cpu_cross_entropy,
  .l1_loss = cpu_l1_loss,
  .sgd = cpu_sgd,
  .sgd_rows = cpu_sgd_rows,
};
