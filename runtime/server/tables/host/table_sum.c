/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table_sum.h"

#include <string.h>

#include "runtime/base/parallel.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/vectorize.h"

/* A block has the contributions of two levels of the tree. A row with the contributions of at least
 * two blocks is hot. */
#define BLOCK_TERMS (TPS_SUM_CHUNK * TPS_SUM_CHUNK)
#define HOT_TERMS (2 * BLOCK_TERMS)

/* The rows of a working space: a sum, and two rows for the optimizer; then the levels of the
 * tree. */
#define FIRST_ROWS 3
#define MAX_WORKING_ROWS (FIRST_ROWS + TPS_TABLE_SUM_MAX_LEVELS)

gsize
tps_table_sum_count_floats (const TpsTableStep *step)
{
  return (FIRST_ROWS + step->n_levels) * step->table->dim;
}

void
tps_table_sum_reserve (TpsTableStep *step, TpsScratch *scratch, TpsWorkerPool *workers)
{
  gsize max_hot = step->capacity / HOT_TERMS;

  if (max_hot == 0 || workers == NULL)
    return;
  step->places.hot = tps_scratch_reserve (scratch, max_hot, sizeof step->hot[0]);
  step->places.hot_sums = tps_scratch_reserve (scratch, step->capacity / BLOCK_TERMS + max_hot,
                                               step->table->dim * sizeof (gfloat));
}

void
tps_table_sum_begin (TpsTableStep *step, const TpsScratch *scratch)
{
  if (step->places.hot == 0)
    return;
  step->hot = tps_scratch_at (scratch, step->places.hot);
  step->hot_sums = tps_scratch_at (scratch, step->places.hot_sums);
}

static TpsTableSumSpace
divide_space (const TpsTableStep *step, gfloat *memory)
{
  gsize dim = step->table->dim;

  return (TpsTableSumSpace) {
    .sum = memory,
    .scratch = memory + dim,
    .levels = memory + FIRST_ROWS * dim,
  };
}

/* Adds up the contributions at sorted positions [begin, end), as a tree
 * (runtime/device/backend.h). */
TPS_INLINE void
add_terms (const TpsTableStep *step, gsize begin, gsize end, const TpsTableSumSpace *space,
           gfloat *sum)
{
  const gsize *order = step->groups.order;
  const gfloat *weights = step->weights;
  TpsDType dtype = step->dtype;
  gsize dim = step->table->dim;
  TpsTreeSum tree;

  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, dim, sum, space->levels, dim * sizeof sum[0]);
  for (gsize i = begin; i < end; i++)
    {
      gconstpointer gradient = step->gradients[order[i]];

      if (tps_tree_sum_next (&tree))
        tps_cpu_scale (dtype, sum, gradient, weights != NULL ? weights[order[i]] : 1, dim);
      else if (weights == NULL)
        tps_cpu_accumulate (dtype, sum, gradient, dim);
      else
        tps_cpu_scale_accumulate (dtype, sum, gradient, weights[order[i]], dim);
    }
  tps_tree_sum_finish (&tree);
}

/* ---- hot rows -------------------------------------------------------------------------------- */

static gsize
count_blocks (gsize n_terms)
{
  return (n_terms + BLOCK_TERMS - 1) / BLOCK_TERMS;
}

/* Returns the last group that begins at or before sorted position `i`. */
static gsize
group_at (const TpsCpuGroups *groups, gsize i)
{
  gsize low = 0, high = groups->n_groups;

  while (high - low > 1)
    {
      gsize middle = low + (high - low) / 2;

      if (groups->starts[middle] <= i)
        low = middle;
      else
        high = middle;
    }
  return low;
}

/* Finds the hot rows. The contributions to a row have neighbouring sorted positions. Any HOT_TERMS
 * neighbouring positions include exactly one of the tested positions, so no hot row is missed. */
static void
find_hot (TpsTableStep *step)
{
  const TpsCpuGroups *groups = &step->groups;
  gsize n_saved = 0;

  step->n_hot = step->n_blocks = 0;
  for (gsize i = HOT_TERMS - 1; i < step->n; i += HOT_TERMS)
    {
      gsize u = group_at (groups, i);
      gsize n = groups->starts[u + 1] - groups->starts[u];

      if (n < HOT_TERMS || (step->n_hot > 0 && step->hot[step->n_hot - 1].group == u))
        continue;
      n_saved += n - count_blocks (n);
      step->hot[step->n_hot++] = (TpsHotRow) { u, step->n_blocks, n_saved };
      step->n_blocks += count_blocks (n);
    }
}

/* Returns the number of hot groups before group `u`. */
static gsize
count_hot_before (const TpsTableStep *step, gsize u)
{
  gsize low = 0, high = step->n_hot;

  while (low < high)
    {
      gsize middle = low + (high - low) / 2;

      if (step->hot[middle].group < u)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static void
add_blocks (const TpsTableStep *step, gsize begin, gsize end, const TpsTableSumSpace *space)
{
  const TpsHotRow *row = step->hot;

  for (gsize block = begin; block < end; block++)
    {
      gsize first;

      while (row + 1 < step->hot + step->n_hot && row[1].first_block <= block)
        row++;
      first = step->groups.starts[row->group] + (block - row->first_block) * BLOCK_TERMS;
      add_terms (step, first, MIN (first + BLOCK_TERMS, step->groups.starts[row->group + 1]), space,
                 step->hot_sums + block * step->table->dim);
    }
}

/* Adds up the sums of the row's blocks. They form the list that remains after two levels of the
 * tree. */
static void
add_hot (const TpsTableStep *step, const TpsHotRow *row, gsize n_terms,
         const TpsTableSumSpace *space)
{
  gsize dim = step->table->dim;
  const gfloat *block = step->hot_sums + row->first_block * dim;
  TpsTreeSum tree;

  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, dim, space->sum, space->levels,
                     dim * sizeof space->sum[0]);
  for (gsize i = 0; i < count_blocks (n_terms); i++, block += dim)
    if (tps_tree_sum_next (&tree))
      memcpy (space->sum, block, dim * sizeof block[0]);
    else
      tps_cpu_accumulate (TPS_DTYPE_FLOAT32, space->sum, block, dim);
  tps_tree_sum_finish (&tree);
}

const gfloat *
tps_table_sum_add_up (const TpsTableStep *step, gsize u, const TpsTableSumSpace *space)
{
  const TpsCpuGroups *groups = &step->groups;
  gsize begin = groups->starts[u];
  gsize end = groups->starts[u + 1];

  if (end - begin >= HOT_TERMS && step->n_hot > 0)
    add_hot (step, &step->hot[count_hot_before (step, u)], end - begin, space);
  else
    add_terms (step, begin, end, space, space->sum);
  return space->sum;
}

gsize
tps_table_sum_work_before (const TpsTableStep *step, gsize u)
{
  gsize n_hot = count_hot_before (step, u);

  return step->groups.starts[u] + u - (n_hot > 0 ? step->hot[n_hot - 1].n_saved : 0);
}

void
tps_table_sum_run_part (const TpsTableStep *step, gsize part, gsize begin, gsize end,
                        TpsTableSumFunc run)
{
  _Alignas(64) gfloat narrow[MAX_WORKING_ROWS * TPS_TABLE_SUM_MAX_NARROW_DIM];
  TpsTableSumSpace space = divide_space (
      step, step->wide != NULL ? step->wide + part * tps_table_sum_count_floats (step) : narrow);

  run (step, begin, end, &space);
}

static void
blocks_part (gpointer user_data, gsize part)
{
  TpsTableStep *step = user_data;

  tps_table_sum_run_part (step, part, part * step->n_blocks / step->n_parts,
                          (part + 1) * step->n_blocks / step->n_parts, add_blocks);
}

void
tps_table_sum_add_blocks (TpsTableStep *step, TpsWorkerPool *workers)
{
  gsize row_bytes;

  step->n_hot = 0;
  if (step->hot == NULL || workers == NULL || step->is_assignment)
    return;
  find_hot (step);
  row_bytes = step->table->dim * tps_dtype_size (step->dtype);
  step->n_parts = tps_parallel_count_parts (workers, step->n_blocks * BLOCK_TERMS * row_bytes,
                                            MIN (step->n_blocks, step->max_parts));
  if (step->n_parts <= 1)
    step->n_hot = 0;
  else
    tps_parallel_run (workers, step->n_parts, blocks_part, step);
}
