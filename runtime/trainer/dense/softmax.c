/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <math.h>

#include "runtime/trainer/dense/layers.h"

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
