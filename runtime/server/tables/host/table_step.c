/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table_step.h"

#include <string.h>

#include "runtime/base/parallel.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/tree_sum.h"
#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/machine/tuning.h"

/* -- table sum -- */

/* The sums of a step's contributions, by the tree of runtime/device/backend.h.
 *
 * A thread adds up the contributions to a row when it changes the row. A row is hot if it has so
 * many contributions that one thread would work on it while the others wait. The contributions to a
 * hot row are divided into blocks, each of which is a subtree of two levels. Threads add up all
 * blocks before the first row is changed. The sums of the blocks are the input of the next level of
 * the tree, so the result has the same bits as without blocks.
 *
 * Thread: a working space must be used by one thread at a time. */

#define TPS_TABLE_SUM_MAX_LEVELS 8 /* of 32^8 contributions and more */

/* Rows with at most this number of columns have their working space on the stack. */
#define TPS_TABLE_SUM_MAX_NARROW_DIM 512

typedef struct
{
  gfloat *sum;     /* [dim] */
  gfloat *scratch; /* [2, dim], for the optimizer */
  gfloat *levels;  /* [n_levels, dim] */
} TpsTableSumSpace;

/* Changes the rows of groups [begin, end), with a working space. */
typedef void (*TpsTableSumFunc) (const TpsTableStep *step, gsize begin, gsize end,
                                 const TpsTableSumSpace *space);

/* A block has the contributions of two levels of the tree. A row with the contributions of at least
 * two blocks is hot. */
#define BLOCK_TERMS (TPS_SUM_CHUNK * TPS_SUM_CHUNK)
#define HOT_TERMS (2 * BLOCK_TERMS)

/* The rows of a working space: a sum, and two rows for the optimizer; then the levels of the
 * tree. */
#define FIRST_ROWS 3
#define MAX_WORKING_ROWS (FIRST_ROWS + TPS_TABLE_SUM_MAX_LEVELS)

static gsize
table_sum_count_floats (const TpsTableStep *step)
{
  return (FIRST_ROWS + step->n_levels) * step->table->dim;
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

/* Returns the work that is left after table_sum_add_blocks() for the groups before `u`: the
 * number of their rows, of their blocks of hot rows, and of their contributions to other rows. */
static gsize
table_sum_work_before (const TpsTableStep *step, gsize u)
{
  gsize n_hot = count_hot_before (step, u);

  return step->groups.starts[u] + u - (n_hot > 0 ? step->hot[n_hot - 1].n_saved : 0);
}

/* Calls `run` for groups [begin, end) with the working space of part `part`. */
static void
table_sum_run_part (const TpsTableStep *step, gsize part, gsize begin, gsize end,
                    TpsTableSumFunc run)
{
  _Alignas(64) gfloat narrow[MAX_WORKING_ROWS * TPS_TABLE_SUM_MAX_NARROW_DIM];
  TpsTableSumSpace space = divide_space (
      step, step->wide != NULL ? step->wide + part * table_sum_count_floats (step) : narrow);

  run (step, begin, end, &space);
}

static void
blocks_part (gpointer user_data, gsize part)
{
  TpsTableStep *step = user_data;

  table_sum_run_part (step, part, part * step->n_blocks / step->n_parts,
                      (part + 1) * step->n_blocks / step->n_parts, add_blocks);
}

/* Finds the hot rows of a grouped step and adds up their blocks. Returns when all blocks are
 * complete. If `workers` is NULL, no row is hot. */
static void
table_sum_add_blocks (TpsTableStep *step, TpsWorkerPool *workers)
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

/* -- table step -- */

/* The number of rows by which prefetches precede updates. A fetch from memory takes about as long
 * as a few updates. The number does not depend much on the machine, because faster processors have
 * faster memory. */
#define AHEAD 6
#define MAX_AHEAD_BYTES 1024 /* of a gradient */
#define CACHE_LINE 64

/* The number of rows between two publications of the progress (table.h). */
#define REPORT_ROWS 16

/* Returns the bytes that a step moves: it reads `n` contributions, and reads and writes `n_rows`
 * rows with their state. */
static gsize
bytes_of (const TpsTableStep *step, gsize n, gsize n_rows)
{
  const TpsTable *table = step->table;
  gsize row = 2 * (table->row_bytes + table->state_per_row * sizeof (gfloat));

  return n * (table->dim * tps_dtype_size (step->dtype) + sizeof (gint64)) + n_rows * row;
}

void
tps_table_step_reserve (TpsTableStep *step, TpsScratch *scratch, TpsTable *table, TpsDType dtype,
                        gsize capacity, gboolean has_weights, TpsWorkerPool *workers)
{
  gsize max_hot = capacity / HOT_TERMS;
  gsize n_threads = workers != NULL ? tps_worker_pool_get_n_threads (workers) + 1 : 1;

  *step = (TpsTableStep) {
    .table = table,
    .dtype = dtype,
    .capacity = capacity,
    .n_levels = MIN (tps_tree_sum_levels (capacity), TPS_TABLE_SUM_MAX_LEVELS),
  };
  step->places.slots = tps_scratch_reserve (scratch, capacity, sizeof step->slots[0]);
  step->places.gradients = tps_scratch_reserve (scratch, capacity, sizeof step->gradients[0]);
  step->places.groups = tps_scratch_reserve (scratch, capacity + 1, TPS_CPU_GROUPS_BYTES);
  if (has_weights)
    step->places.weights = tps_scratch_reserve (scratch, capacity, sizeof step->weights[0]);
  /* for hot rows, if threads could share them */
  if (max_hot > 0 && workers != NULL)
    {
      step->places.hot = tps_scratch_reserve (scratch, max_hot, sizeof step->hot[0]);
      step->places.hot_sums = tps_scratch_reserve (scratch, capacity / BLOCK_TERMS + max_hot,
                                                   table->dim * sizeof (gfloat));
    }
  step->max_parts = G_MAXSIZE;
  if (table->dim <= TPS_TABLE_SUM_MAX_NARROW_DIM)
    return;
  /* Each part has a working space of its own, so there are at most as many parts as threads. */
  step->max_parts = tps_parallel_count_parts (workers, bytes_of (step, capacity, capacity),
                                              MIN (n_threads, MAX (capacity, 1)));
  step->places.wide = tps_scratch_reserve (scratch, step->max_parts * table_sum_count_floats (step),
                                           sizeof (gfloat));
}

void
tps_table_step_begin (TpsTableStep *step, const TpsScratch *scratch)
{
  step->slots = tps_scratch_at (scratch, step->places.slots);
  step->gradients = tps_scratch_at (scratch, step->places.gradients);
  step->group_memory = tps_scratch_at (scratch, step->places.groups);
  if (step->places.weights > 0)
    step->weights = tps_scratch_at (scratch, step->places.weights);
  if (step->places.hot > 0)
    {
      step->hot = tps_scratch_at (scratch, step->places.hot);
      step->hot_sums = tps_scratch_at (scratch, step->places.hot_sums);
    }
  if (step->places.wide > 0)
    step->wide = tps_scratch_at (scratch, step->places.wide);
}

void
tps_table_step_assign (TpsTableStep *step, gint64 as_of_lsn)
{
  step->is_assignment = TRUE;
  step->as_of_lsn = as_of_lsn;
}

void
tps_table_step_group (TpsTableStep *step)
{
  if (step->n > 0)
    tps_cpu_groups_init (&step->groups, step->group_memory, step->slots, step->n);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Prefetches the row of group `u` and its first gradient, which another core may have received. */
static void
prefetch_group (const TpsTableStep *step, gsize u)
{
  const TpsCpuGroups *groups = &step->groups;
  const guint8 *gradient = step->gradients[groups->order[groups->starts[u]]];
  gsize n_bytes = step->table->dim * tps_dtype_size (step->dtype);

  tps_table_prefetch_update (step->table, groups->ids[u]);
  for (gsize i = 0; i < MIN (n_bytes, MAX_AHEAD_BYTES); i += CACHE_LINE)
    __builtin_prefetch (gradient + i);
}

static void
assign_row (const TpsTableStep *step, gsize u, const TpsTableSumSpace *space)
{
  const TpsCpuGroups *groups = &step->groups;
  gsize last = groups->order[groups->starts[u + 1] - 1];

  tps_table_assign_row (step->table, step->lsn, groups->ids[u], step->dtype, step->gradients[last],
                        step->as_of_lsn, space->scratch);
}

/* Returns the sum of group `u` [dim]. Most rows have a single contribution, which is itself the
 * sum; all other sums lie in the working space. */
static const gfloat *
add_up (const TpsTableStep *step, gsize u, const TpsTableSumSpace *space)
{
  const TpsCpuGroups *groups = &step->groups;
  gsize begin = groups->starts[u];
  gsize end = groups->starts[u + 1];

  if (end - begin == 1 && step->weights == NULL && step->dtype == TPS_DTYPE_FLOAT32)
    return step->gradients[groups->order[begin]];
  if (end - begin >= HOT_TERMS && step->n_hot > 0)
    add_hot (step, &step->hot[count_hot_before (step, u)], end - begin, space);
  else
    add_terms (step, begin, end, space, space->sum);
  return space->sum;
}

static void
step_rows (const TpsTableStep *step, gsize begin, gsize end, const TpsTableSumSpace *space)
{
  const TpsCpuGroups *groups = &step->groups;
  gint64 limit = step->turn != NULL ? 0 : G_MAXINT64; /* rows below this slot may be changed */

  tps_table_begin_updates (step->table);
  for (gsize u = begin; u < end; u++)
    {
      if (step->turn != NULL && u % REPORT_ROWS == 0)
        tps_table_pace_publish (step->table->pace, step->turn, groups->ids[u]);
      if (groups->ids[u] >= limit)
        limit = tps_table_pace_wait (step->table->pace, step->turn, groups->ids[u]);
      if (u + AHEAD < end)
        prefetch_group (step, u + AHEAD);
      if (step->is_assignment)
        assign_row (step, u, space);
      else
        tps_table_update_row (step->table, &step->optimizer_step, step->lsn, groups->ids[u],
                              add_up (step, u, space), space->scratch);
    }
  tps_table_end_updates (step->table);
}

/* Returns the first group of a part. All parts have about the same amount of work. */
static gsize
first_of_part (const TpsTableStep *step, gsize part)
{
  gsize low = 0, high = step->groups.n_groups;
  gsize wanted;

  if (part == 0 || part == step->n_parts)
    return part == 0 ? low : high;
  wanted = table_sum_work_before (step, high) / step->n_parts * part;
  while (low < high)
    {
      gsize middle = low + (high - low) / 2;

      if (table_sum_work_before (step, middle) < wanted)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

static void
step_part (gpointer user_data, gsize part)
{
  TpsTableStep *step = user_data;

  table_sum_run_part (step, part, first_of_part (step, part), first_of_part (step, part + 1),
                      step_rows);
}

static void
update_rows (TpsTableStep *step, TpsWorkerPool *workers)
{
  gsize n_groups = step->groups.n_groups;

  if (step->n == 0)
    return;
  table_sum_add_blocks (step, workers);
  step->n_parts = tps_parallel_count_parts (workers, bytes_of (step, step->n, n_groups),
                                            MIN (n_groups, step->max_parts));
  tps_parallel_run (workers, step->n_parts, step_part, step);
}

static void
count_step (TpsTableStep *step)
{
  TpsTable *table = step->table;

  step->number = table->n_steps;
  if (step->is_assignment)
    return;
  step->number = ++table->n_steps;
  tps_cpu_optimizer_step_init (&step->optimizer_step, &table->spec.optimizer, step->number);
}

static void
set_progress (const TpsTableStep *step)
{
  if (step->table->lsns != NULL)
    tps_table_set_progress (step->table, (TpsTableProgress) { step->lsn, step->number });
}

/* Runs the step in parallel with the previous step of the table and with the next step. The
 * published progress covers all previous steps, so the step must wait for the end of the previous
 * step before it publishes. */
static void
run_beside_others (TpsTableStep *step)
{
  TpsTablePace *pace = step->table->pace;

  tps_table_pace_wait (pace, step->turn, -1); /* steps must be counted in order */
  count_step (step);
  tps_table_pace_begin (pace, step->turn);
  update_rows (step, NULL);
  if (step->table->lsns != NULL)
    tps_table_pace_wait (pace, step->turn, G_MAXINT64 - 1);
  set_progress (step);
  tps_table_pace_publish (pace, step->turn, G_MAXINT64);
}

void
tps_table_step_run (TpsTableStep *step, gint64 lsn, const TpsTurn *turn, TpsWorkerPool *workers)
{
  step->lsn = lsn;
  step->turn = turn;
  if (turn != NULL)
    {
      run_beside_others (step);
      return;
    }
  count_step (step);
  update_rows (step, workers);
  set_progress (step);
}

gboolean
tps_table_step_is_short (const TpsTableStep *step)
{
  return bytes_of (step, step->n, step->n > 0 ? step->groups.n_groups : 0)
         <= tps_tuning_get ()->short_step_bytes;
}
