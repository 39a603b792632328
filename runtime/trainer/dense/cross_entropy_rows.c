/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums are computed in double, so that the mean of many rows stays accurate. */

#include <math.h>

#include "runtime/trainer/dense/layers.h"

/* Returns -log softmax (row)[target]. Writes (softmax - one hot) / rows to `gradient`, which may be
 * NULL or equal to `row`. */
static gdouble
cross_entropy_row (gfloat *gradient, const gfloat *row, gsize target, gsize rows, gsize columns)
{
  gfloat chosen = row[target];
  gfloat max = row[0];
  gdouble sum = 0;
  gdouble factor;

  for (gsize i = 1; i < columns; i++)
    max = row[i] > max ? row[i] : max;
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

void
tps_cpu_cross_entropy (gdouble *loss, gfloat *input_gradient, const gfloat *input,
                       const gint64 *target, gsize rows, gsize columns)
{
  gdouble sum = 0;

  for (gsize row = 0; row < rows; row++)
    sum += cross_entropy_row (input_gradient != NULL ? input_gradient + row * columns : NULL,
                              input + row * columns, (gsize) target[row], rows, columns);
  if (loss != NULL)
    *loss = rows > 0 ? sum / (gdouble) rows : 0;
}
