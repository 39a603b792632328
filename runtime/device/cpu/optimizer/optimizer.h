/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of optimizers on the CPU, with one file for each optimizer. Every operation rounds
 * once to float, in the order of the formula in the optimizer's file; factors are rounded to float
 * first. The bits are the same on every CPU.
 */

#pragma once

#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

/* The values that all rows of one step share, computed once. */
typedef struct
{
  const TpsOptimizerSpec *spec; /* resolved; borrowed */
  gint64 step;                  /* the number of this step, from 1 */
  gfloat learning_rate, momentum, weight_decay, epsilon, beta1, beta2, l1, l2, beta;
  gfloat correction1, correction2; /* ADAM only: see adam.c */
} TpsOptimizerStep;

typedef struct
{
  const gchar *name;
  TpsOptimizerKind kind;
  /* Returns the number of floats of state for a row of `dim` values. */
  gsize (*state_per_row) (const TpsOptimizerSpec *spec, gsize dim);
  /* Updates values [dim] and state [state_per_row] by gradient [dim]. The arrays must not overlap
   * and must be aligned to float. Thread: any; a row must be updated by one thread at a time. */
  void (*update_row) (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                      gfloat *state, gsize dim);
} TpsCpuOptimizer;

/* Prepares step `number` (from 1). `step` borrows `spec`, which must be resolved. */
void tps_cpu_optimizer_step_init (TpsOptimizerStep *step, const TpsOptimizerSpec *spec,
                                  gint64 number);

/* Returns the optimizer of a known `kind`. Static. */
const TpsCpuOptimizer *tps_cpu_optimizer_get (TpsOptimizerKind kind);

G_END_DECLS
