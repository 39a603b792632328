/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of optimizers on the CPU, one file each. Bits: every operation rounds once to
 * float, in the order that the formula of the file states; factors are rounded to float first. The
 * same on every CPU.
 */

#pragma once

#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

/* What is the same for all rows of one step, computed once. */
typedef struct
{
  const TpsOptimizerSpec *spec; /* resolved; borrowed */
  gint64 step;                  /* the number of this one, from 1 */
  gfloat learning_rate, momentum, weight_decay, epsilon, beta1, beta2, l1, l2, beta;
  gfloat correction1, correction2; /* ADAM: see adam.c */
} TpsOptimizerStep;

typedef struct
{
  const gchar *name;
  TpsOptimizerKind kind;
  gsize (*state_per_row) (const TpsOptimizerSpec *spec, gsize dim);
  /* values [dim], gradient [dim], state [state_per_row]; no overlap, float alignment. Thread: any,
   * one row one at a time. */
  void (*update_row) (const TpsOptimizerStep *step, gfloat *values, const gfloat *gradient,
                      gfloat *state, gsize dim);
} TpsCpuOptimizer;

/* `spec` is resolved, `step` >= 1. */
void tps_cpu_optimizer_step_init (TpsOptimizerStep *step, const TpsOptimizerSpec *spec,
                                  gint64 number);

/* Static. `kind` is known. */
const TpsCpuOptimizer *tps_cpu_optimizer_get (TpsOptimizerKind kind);

G_END_DECLS
