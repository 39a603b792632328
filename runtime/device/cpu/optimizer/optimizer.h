/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of optimizers on the CPU. Every operation rounds once to float, in the order of
 * the formulas in optimizer.c; factors are rounded to float first. */

#pragma once

#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

/* The values that all rows of one step share, computed once. */
typedef struct
{
  const TpsOptimizerSpec *spec; /* resolved; borrowed */
  gint64 step;                  /* the number of this step, from 1 */
  gfloat learning_rate, momentum, weight_decay, epsilon, beta1, beta2, l1, l2, beta;
  gfloat correction1, correction2; /* if it counts steps: see ADAM */
} TpsOptimizerStep;

/* Updates values [dim] and state [tps_optimizer_state_per_row()] by gradient [dim], without overlap
 * and aligned to float. Thread: any; a row: one at a time. */
typedef void TpsUpdateRow (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                           gfloat *state, gsize dim);

/* Prepares step `number` (from 1). `step` borrows `spec`, which must be resolved. */
void tps_cpu_optimizer_step_init (TpsOptimizerStep *step, const TpsOptimizerSpec *spec,
                                  gint64 number);

TpsUpdateRow *tps_cpu_optimizer_get (TpsOptimizerKind kind);

G_END_DECLS
