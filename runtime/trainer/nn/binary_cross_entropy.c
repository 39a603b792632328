/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <math.h>

#include "runtime/trainer/nn/dlrm_model.h"

gdouble
tps_binary_cross_entropy (const gfloat *logits, const gfloat *labels, gsize rows, gdouble divisor,
                          gfloat *gradient)
{
  gdouble sum = 0;

  for (gsize i = 0; i < rows; i++)
    {
      gdouble logit = (gdouble) logits[i], label = (gdouble) labels[i];
      gdouble smaller = exp (-fabs (logit)); /* in (0, 1], never overflows */
      gdouble probability = logit >= 0 ? 1 / (1 + smaller) : smaller / (1 + smaller);

      sum += fmax (logit, 0) - logit * label + log1p (smaller);
      gradient[i] = (gfloat) ((probability - label) / divisor);
    }
  return sum;
}
