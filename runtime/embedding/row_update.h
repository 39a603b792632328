/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One step of a table: gradients of rows, in any order and with repeats, added up and given to the optimizer. */

#pragma once

#include "runtime/cpu/group.h"
#include "runtime/embedding/table.h"

G_BEGIN_DECLS

/* What contributes to the step. Borrowed gradients stay where they are until tps_row_update_run() returns. */
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
  TpsOptimizerStep step;
  gsize n_parts;
} TpsRowUpdate;

/* `table` is referenced. */
void tps_row_update_init (TpsRowUpdate *update, TpsTable *table, TpsDType dtype, gsize capacity,
                          gboolean is_weighted);
void tps_row_update_clear (TpsRowUpdate *update);

/* At most `capacity` of them. */
static inline void
tps_row_update_add (TpsRowUpdate *update, gint64 slot, gconstpointer gradient, gfloat weight)
{
  update->slots[update->n] = slot;
  update->gradients[update->n] = gradient;
  if (update->weights != NULL)
    update->weights[update->n] = weight;
  update->n++;
}

/* Takes the step. Contributions to a row are added in the order in which they came; each product with a weight and each
 * sum rounds once to float. */
void tps_row_update_run (TpsRowUpdate *update, TpsWorkerPool *workers);

G_END_DECLS
