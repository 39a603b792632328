/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stochastic gradient descent, dense and by rows. There is one loop for each combination of
 * factors. */

#include "runtime/device/cpu/kernels/descent.h"
#include "runtime/device/cpu/kernels/vectorize.h"

typedef struct
{
  gfloat learning_rate, momentum, weight_decay;
} Factors;

/* Rounds the factors to float; see TpsSgdFactors. */
static Factors
to_float (const TpsSgdFactors *factors)
{
  return (Factors) {
    .learning_rate = (gfloat) factors->learning_rate,
    .momentum = (gfloat) factors->momentum,
    .weight_decay = (gfloat) factors->weight_decay,
  };
}

TPS_TARGET_CLONES static void
step_plain (gfloat *values, const gfloat *gradient, Factors f, gsize n)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n; i++)
    values[i] -= f.learning_rate * gradient[i];
}

TPS_TARGET_CLONES static void
step_decay (gfloat *values, const gfloat *gradient, Factors f, gsize n)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n; i++)
    values[i] -= f.learning_rate * (gradient[i] + f.weight_decay * values[i]);
}

TPS_TARGET_CLONES static void
step_momentum (gfloat *values, const gfloat *gradient, gfloat *velocity, Factors f, gsize n)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n; i++)
    {
      gfloat v = f.momentum * velocity[i] + gradient[i];

      velocity[i] = v;
      values[i] -= f.learning_rate * v;
    }
}

TPS_TARGET_CLONES static void
step_momentum_decay (gfloat *values, const gfloat *gradient, gfloat *velocity, Factors f, gsize n)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n; i++)
    {
      gfloat v = f.momentum * velocity[i] + (gradient[i] + f.weight_decay * values[i]);

      velocity[i] = v;
      values[i] -= f.learning_rate * v;
    }
}

/* Chooses the loop that computes only the terms in use. */
static void
step (Factors f, gfloat *values, const gfloat *gradient, gfloat *velocity, gsize n)
{
  gboolean has_momentum = velocity != NULL && f.momentum != 0;

  if (has_momentum && f.weight_decay != 0)
    step_momentum_decay (values, gradient, velocity, f, n);
  else if (has_momentum)
    step_momentum (values, gradient, velocity, f, n);
  else if (f.weight_decay != 0)
    step_decay (values, gradient, f, n);
  else
    step_plain (values, gradient, f, n);
}

void
tps_cpu_sgd (const TpsSgdFactors *factors, gfloat *values, const gfloat *gradient, gfloat *velocity,
             gsize n_elems)
{
  step (to_float (factors), values, gradient, velocity, n_elems);
}

void
tps_cpu_sgd_rows (const TpsSgdFactors *factors, gfloat *values, const gint64 *indices,
                  const gfloat *gradients, gfloat *velocity, gsize n_rows, gsize dim)
{
  Factors f = to_float (factors);

  for (gsize i = 0; i < n_rows; i++)
    {
      gsize first = (gsize) indices[i] * dim;

      step (f, values + first, gradients + i * dim, velocity != NULL ? velocity + first : NULL,
            dim);
    }
}
