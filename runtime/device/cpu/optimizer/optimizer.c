/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/cpu/optimizer/optimizer.h"

#include <math.h>

#define ROW_FUNCTION(NAME, name, number) [number] = tps_cpu_##name##_row,

static TpsUpdateRow *const functions[] = { TPS_OPTIMIZERS (ROW_FUNCTION) };

/* Returns base^exponent. pow() is not used, because its last bit differs between CPUs. */
static gdouble
power (gdouble base, gint64 exponent)
{
  gdouble product = 1;

  for (; exponent > 0; exponent /= 2, base *= base)
    if (exponent % 2 == 1)
      product *= base;
  return product;
}

void
tps_cpu_optimizer_step_init (TpsOptimizerStep *step, const TpsOptimizerSpec *spec, gint64 number)
{
  g_assert (number >= 1);
  *step = (TpsOptimizerStep) {
    .spec = spec,
    .step = number,
    .learning_rate = (gfloat) spec->learning_rate,
    .momentum = (gfloat) spec->momentum,
    .weight_decay = (gfloat) spec->weight_decay,
    .epsilon = (gfloat) spec->epsilon,
    .beta1 = (gfloat) spec->beta1,
    .beta2 = (gfloat) spec->beta2,
    .l1 = (gfloat) spec->l1,
    .l2 = (gfloat) spec->l2,
    .beta = (gfloat) spec->beta,
  };
  if (!tps_optimizer_counts_steps (spec))
    return;
  step->correction1 = (gfloat) (spec->learning_rate / (1 - power (spec->beta1, number)));
  step->correction2 = (gfloat) sqrt (1 - power (spec->beta2, number));
}

TpsUpdateRow *
tps_cpu_optimizer_get (TpsOptimizerKind kind)
{
  g_assert ((gsize) kind < G_N_ELEMENTS (functions) && functions[kind] != NULL);
  return functions[kind];
}
