/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dense operations of the CPU, which are complete when they return. */

#include "runtime/trainer/dense/dense.h"

#include <math.h>
#include <string.h>

#include "runtime/device/cpu/kernels/descent.h"
#include "runtime/device/cpu/kernels/tree_sum.h"
#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/trainer/dense/blas.h"

TPS_TARGET_CLONES static void
add (gfloat *sum, const gfloat *addend, gsize n)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n; i++)
    sum[i] += addend[i];
}

static void
cpu_bias_add (TpsStream *stream, gfloat *values, const gfloat *bias, gsize rows, gsize columns)
{
  for (gsize row = 0; row < rows; row++)
    add (values + row * columns, bias, columns);
}

static void
cpu_column_sum (TpsStream *stream, gfloat *sums, const gfloat *values, gsize rows, gsize columns)
{
  gsize row_bytes = columns * sizeof sums[0];
  g_autoptr (TpsBuffer) levels = tps_buffer_new (tps_tree_sum_levels (rows) * row_bytes);
  TpsTreeSum tree;

  if (columns > 0)
    memset (sums, 0, row_bytes);
  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, columns, sums, tps_buffer_get_data (levels),
                     row_bytes);
  for (gsize row = 0; row < rows; row++)
    {
      /* The sum of a chunk starts at 0. It equals the sum of the rows, but is never -0. */
      if (tps_tree_sum_next (&tree) && row_bytes > 0)
        memset (sums, 0, row_bytes);
      add (sums, values + row * columns, columns);
    }
  tps_tree_sum_finish (&tree);
}

TPS_TARGET_CLONES static void
cpu_relu (TpsStream *stream, gfloat *output, const gfloat *input, gsize n_elems)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n_elems; i++)
    output[i] = input[i] <= 0 ? 0 : input[i];
}

TPS_TARGET_CLONES static void
cpu_relu_backward (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                   const gfloat *output, gsize n_elems)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n_elems; i++)
    {
      gfloat gradient = output_gradient[i];

      input_gradient[i] = output[i] > 0 ? gradient : 0;
    }
}

static gfloat
largest (const gfloat *values, gsize n)
{
  gfloat max = values[0];

  for (gsize i = 1; i < n; i++)
    max = values[i] > max ? values[i] : max;
  return max;
}

static void
cpu_softmax (TpsStream *stream, gfloat *output, const gfloat *input, gsize rows, gsize columns)
{
  for (gsize row = 0; row < rows; row++, input += columns, output += columns)
    {
      gfloat max = largest (input, columns); /* subtracted, so that expf() cannot overflow */
      gdouble sum = 0;

      for (gsize i = 0; i < columns; i++)
        {
          output[i] = expf (input[i] - max);
          sum += (gdouble) output[i];
        }
      for (gsize i = 0; i < columns; i++)
        output[i] = (gfloat) ((gdouble) output[i] / sum);
    }
}

static void
cpu_softmax_backward (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                      const gfloat *output, gsize rows, gsize columns)
{
  for (gsize row = 0; row < rows; row++)
    {
      gsize first = row * columns;
      gdouble product = 0;

      for (gsize i = first; i < first + columns; i++)
        product += (gdouble) output_gradient[i] * (gdouble) output[i];
      for (gsize i = first; i < first + columns; i++)
        input_gradient[i] = output[i] * (output_gradient[i] - (gfloat) product);
    }
}

/* The sums of losses are computed in double, so that the mean of many rows stays accurate. */

/* Returns -log softmax (row)[target]. Writes (softmax - one hot) / rows to `gradient`, which may be
 * NULL or equal to `row`. */
static gdouble
cross_entropy_row (gfloat *gradient, const gfloat *row, gsize target, gsize rows, gsize columns)
{
  gfloat chosen = row[target];
  gfloat max = largest (row, columns);
  gdouble sum = 0;
  gdouble factor;

  if (gradient == NULL)
    {
      for (gsize i = 0; i < columns; i++)
        sum += (gdouble) expf (row[i] - max);
      return log (sum) + (gdouble) max - (gdouble) chosen;
    }
  for (gsize i = 0; i < columns; i++)
    {
      gradient[i] = expf (row[i] - max);
      sum += (gdouble) gradient[i];
    }
  factor = 1 / (sum * (gdouble) rows);
  for (gsize i = 0; i < columns; i++)
    gradient[i] = (gfloat) ((gdouble) gradient[i] * factor);
  gradient[target] = (gfloat) (exp ((gdouble) (chosen - max)) * factor - 1 / (gdouble) rows);
  return log (sum) + (gdouble) max - (gdouble) chosen;
}

static void
cpu_cross_entropy (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
                   const gint64 *target, gsize rows, gsize columns)
{
  gdouble sum = 0;

  for (gsize row = 0; row < rows; row++)
    sum += cross_entropy_row (input_gradient != NULL ? input_gradient + row * columns : NULL,
                              input + row * columns, (gsize) target[row], rows, columns);
  if (loss != NULL)
    *loss = rows > 0 ? sum / (gdouble) rows : 0;
}

static void
cpu_l1_loss (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
             const gfloat *target, gsize n_elems)
{
  gfloat step = n_elems > 0 ? 1 / (gfloat) n_elems : 0;
  gdouble sum = 0;

  for (gsize i = 0; i < n_elems; i++)
    {
      gfloat difference = input[i] - target[i];

      sum += (gdouble) fabsf (difference);
      /* 0 * difference is 0, or NaN if the difference is NaN. */
      if (input_gradient != NULL)
        input_gradient[i] = difference > 0 ? step : difference < 0 ? -step : 0 * difference;
    }
  if (loss != NULL)
    *loss = n_elems > 0 ? sum / (gdouble) n_elems : 0;
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
  .gemm = tps_cpu_gemm,
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
