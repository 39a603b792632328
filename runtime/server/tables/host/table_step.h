/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One step of a table: gradients of rows, in any order and with repeats, are added up and passed to
 * the optimizer.
 *
 *   reserve()   reserves the step's temporary space for the maximum number of contributions
 *   begin()     takes the provided space
 *   add()       adds a contribution
 *   group()     finds equal rows; does not read rows, so that it may run before the command's turn
 *   run()       changes rows
 */

#pragma once

#include "runtime/device/cpu/kernels/group.h"
#include "runtime/server/tables/host/scratch.h"
#include "runtime/server/tables/host/table.h"

/* A row that has so many contributions that several threads add them up, in blocks. */
typedef struct
{
  gsize group;
  gsize first_block; /* in `hot_sums` */
  gsize n_saved;     /* contributions minus blocks, of this row and all hot rows before it */
} TpsHotRow;

/* The contributions to the step. Borrowed gradients must stay in place until tps_table_step_run()
 * returns. */
typedef struct
{
  TpsTable *table; /* borrowed */
  TpsDType dtype;  /* of the gradients: FLOAT32, FLOAT16 or BFLOAT16 */
  gsize capacity;
  gsize n;
  gsize max_parts;
  gint64 *slots;            /* [capacity] */
  gconstpointer *gradients; /* [capacity], each [dim] */
  gfloat *weights;          /* [capacity]; NULL = all are 1 */
  guint n_levels;           /* of the tree by which contributions are added */
  gfloat *wide;             /* [max_parts] working spaces; NULL = rows are narrow */
  TpsHotRow *hot;           /* [n_hot], ascending; NULL = no row can be hot */
  gsize n_hot, n_blocks;
  gfloat *hot_sums; /* [n_blocks, dim] */
  gpointer group_memory;
  struct
  {
    gsize slots, gradients, weights, wide, groups, hot, hot_sums;
  } places; /* in the scratch */

  TpsCpuGroups groups;
  TpsOptimizerStep optimizer_step;
  gsize n_parts;
  gboolean is_assignment;
  gint64 as_of_lsn;    /* of an assignment; 0 = none */
  gint64 lsn, number;  /* of the command, and of the step among those of the table */
  const TpsTurn *turn; /* if another step may run in parallel */
} TpsTableStep;

/* Reserves space for at most `capacity` contributions. Allocates no memory. */
void tps_table_step_reserve (TpsTableStep *step, TpsScratch *scratch, TpsTable *table,
                             TpsDType dtype, gsize capacity, gboolean has_weights,
                             TpsWorkerPool *workers);
/* Begins to use `scratch`, which must have been provided and must outlive the step. */
void tps_table_step_begin (TpsTableStep *step, const TpsScratch *scratch);

/* Makes the step an assignment: rows are set to the values of tps_table_step_add(), of which the
 * last counts. Rows that changed after `as_of_lsn` (0 = no such limit) are left out. Does not count
 * as a step of the table. */
void tps_table_step_assign (TpsTableStep *step, gint64 as_of_lsn);

static inline void
tps_table_step_add (TpsTableStep *step, gint64 slot, gconstpointer gradient, gfloat weight)
{
  step->slots[step->n] = slot;
  step->gradients[step->n] = gradient;
  if (step->weights != NULL)
    step->weights[step->n] = weight;
  step->n++;
}

/* Groups the contributions by row: after the last contribution was added, and before run(). */
void tps_table_step_group (TpsTableStep *step);

/* Returns TRUE if the step is short enough for one thread, so that the next step need not wait for
 * its end. Must be called after group(). */
gboolean tps_table_step_is_short (const TpsTableStep *step);

/* Takes the step of command `lsn`. Contributions to a row are added in the order of their addition,
 * as a tree; each product with a weight and each sum is rounded once to float. `turn` must be given
 * if this is the only step of a push that may follow and be followed; it then runs on the calling
 * thread alone. Otherwise no other step of the table may run, and workers may help. Lookups may run
 * at the same time. */
void tps_table_step_run (TpsTableStep *step, gint64 lsn, const TpsTurn *turn,
                         TpsWorkerPool *workers);
