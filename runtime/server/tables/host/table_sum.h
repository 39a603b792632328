/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The sums of a step's contributions, by the tree of runtime/device/backend.h.
 *
 * A thread adds up the contributions to a row when it changes the row. A row is hot if it has so
 * many contributions that one thread would work on it while the others wait. The contributions to a
 * hot row are divided into blocks, each of which is a subtree of two levels. Threads add up all
 * blocks before the first row is changed. The sums of the blocks are the input of the next level of
 * the tree, so the result has the same bits as without blocks.
 *
 * Thread: a working space must be used by one thread at a time. */

#pragma once

#include "runtime/device/cpu/kernels/tree_sum.h"
#include "runtime/server/tables/host/table_step.h"

G_BEGIN_DECLS

#define TPS_TABLE_SUM_MAX_LEVELS 8 /* of 32^8 contributions and more */

/* Rows with at most this number of columns have their working space on the stack. */
#define TPS_TABLE_SUM_MAX_NARROW_DIM 512

typedef struct
{
  gfloat *sum;     /* [dim] */
  gfloat *scratch; /* [2, dim], for the optimizer */
  gfloat *levels;  /* [n_levels, dim] */
} TpsTableSumSpace;

/* Returns the number of floats of a working space. */
gsize tps_table_sum_count_floats (const TpsTableStep *step);

/* Reserve and begin to use the space for hot rows, if threads could share them. The capacity of the
 * step must have been set. */
void tps_table_sum_reserve (TpsTableStep *step, TpsScratch *scratch, TpsWorkerPool *workers);
void tps_table_sum_begin (TpsTableStep *step, const TpsScratch *scratch);

/* Finds the hot rows of a grouped step and adds up their blocks. Returns when all blocks are
 * complete. If `workers` is NULL, no row is hot. */
void tps_table_sum_add_blocks (TpsTableStep *step, TpsWorkerPool *workers);

/* Changes the rows of groups [begin, end), with a working space. */
typedef void (*TpsTableSumFunc) (const TpsTableStep *step, gsize begin, gsize end,
                                 const TpsTableSumSpace *space);

/* Calls `run` for groups [begin, end) with the working space of part `part`. */
void tps_table_sum_run_part (const TpsTableStep *step, gsize part, gsize begin, gsize end,
                             TpsTableSumFunc run);

/* Returns the sum of group `u` [dim], which lies in the working space. The sum of a single
 * contribution may be the contribution itself. */
const gfloat *tps_table_sum_add_up (const TpsTableStep *step, gsize u,
                                    const TpsTableSumSpace *space);

/* Returns the work that is left after tps_table_sum_add_blocks() for the groups before `u`: the
 * number of their rows, of their blocks of hot rows, and of their contributions to other rows. */
gsize tps_table_sum_work_before (const TpsTableStep *step, gsize u);

G_END_DECLS
