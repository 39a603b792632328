/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <math.h>

#include "runtime/trainer/dense/layers.h"

void
tps_cpu_l1_loss (gdouble *loss, gfloat *input_gradient, const gfloat *input, const gfloat *target,
                 gsize n_elems)
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
