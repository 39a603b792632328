/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bias, ReLU and softmax. */

#include <math.h>
#include <string.h>

#include "runtime/cpu/layers.h"
#include "runtime/cpu/vectorize.h"

TPS_TARGET_CLONES static void
add (gfloat *sum, const gfloat *addend, gsize n)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n; i++)
    sum[i] += addend[i];
}

void
tps_cpu_bias_add (gfloat *values, const gfloat *bias, gsize rows, gsize columns)
{
  for (gsize row = 0; row < rows; row++)
    add (values + row * columns, bias, columns);
}

void
tps_cpu_column_sum (gfloat *sums, const gfloat *values, gsize rows, gsize columns)
{
  if (columns > 0)
    memset (sums, 0, columns * sizeof sums[0]);
  for (gsize row = 0; row < rows; row++)
    add (sums, values + row * columns, columns);
}

TPS_TARGET_CLONES void
tps_cpu_relu (gfloat *output, const gfloat *input, gsize n_elems)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n_elems; i++)
    output[i] = input[i] <= 0 ? 0 : input[i];
}

TPS_TARGET_CLONES void
tps_cpu_relu_backward (gfloat *input_gradient, const gfloat *output_gradient, const gfloat *output,
                       gsize n_elems)
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

void
tps_cpu_softmax (gfloat *output, const gfloat *input, gsize rows, gsize columns)
{
  for (gsize row = 0; row < rows; row++, input += columns, output += columns)
    {
      gfloat max = largest (input, columns);
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

void
tps_cpu_softmax_backward (gfloat *input_gradient, const gfloat *output_gradient,
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
