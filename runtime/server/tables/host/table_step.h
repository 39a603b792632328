/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One step of a table: gradients of rows, in any order and with repeats, added up and given to the optimizer. */

#pragma once

#include "runtime/device/cpu/kernels/group.h"
#include "runtime/server/tables/host/table.h"

G_BEGIN_DECLS

/* What contributes to the step. Borrowed gradients stay where they are until tps_table_step_run() returns. */
typedef struct
{
  TpsTable *table;
  TpsDType dtype; /* of the gradients: FLOAT32, FLOAT16 or BFLOAT16 */
  gsize capacity;
  gsize n;
  gint64 *slots;            /* [capacity] */
  gconstpointer *gradients; /* [capacity], each [dim] */
  gfloat *weights;          /* [capacity], or NULL: all 1 */

  TpsCpuGroups *groups;
  TpsOptimizerStep optimizer_step;
  gsize n_parts;
} TpsTableStep;

/* `table` is referenced. */
void tps_table_step_init (TpsTableStep *step, TpsTable *table, TpsDType dtype, gsize capacity,
                          gboolean is_weighted);
void tps_table_step_clear (TpsTableStep *step);

/* At most `capacity` of them. */
static inline void
tps_table_step_add (TpsTableStep *step, gint64 slot, gconstpointer gradient, gfloat weight)
{
  step->slots[step->n] = slot;
  step->gradients[step->n] = gradient;
  if (step->weights != NULL)
    step->weights[step->n] = weight;
  step->n++;
}

/* Takes the step. Contributions to a row are added in the order in which they came, as a tree (runtime/device/backend.h); each
 * product with a weight and each sum rounds once to float. */
void tps_table_step_run (TpsTableStep *step, TpsWorkerPool *workers);

G_END_DECLS
