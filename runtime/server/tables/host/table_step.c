/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table_step.h"

#include "runtime/base/parallel.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/tree_sum.h"

/* The number of rows that are prefetched while one is updated. */
#define AHEAD 6
#define MAX_AHEAD_BYTES 1024 /* of a gradient */
#define CACHE_LINE 64

/* One thread runs a step of up to about a fifth of a millisecond alone, since waking another thread
 * takes a good part of that. */
#define MAX_SHORT_BYTES (2 << 20)

/* Rows between two reports of progress. */
#define REPORT_ROWS 16

/* Rows with at most so many columns have their working space on the stack. */
#define MAX_NARROW_DIM 512

/* Rows of working space: a sum, a row of cells, two for the optimizer; then levels of trees, and
 * two rows for counts. */
#define MAX_LEVELS 8 /* of 32^8 contributions and more */
#define FIRST_ROWS 4
#define COUNT_ROWS (sizeof (gsize) / sizeof (gfloat))
#define MAX_WORKING_ROWS (FIRST_ROWS + 2 * MAX_LEVELS + COUNT_ROWS)

static gsize
bytes_of (const TpsTableStep *step, gsize n, gsize n_rows)
{
  const TpsTable *table = step->table;
  gsize row = 2 * (table->row_bytes + table->state_per_row * sizeof (gfloat));

  return n * (table->dim * tps_dtype_size (step->dtype) + sizeof (gint64)) + n_rows * row;
}

/* An even number, so that the counts of every part are aligned. */
static gsize
count_working_rows (const TpsTableStep *step)
{
  return (FIRST_ROWS + step->n_levels + step->n_cell_levels + COUNT_ROWS + 1) / 2 * 2;
}

/* Every part of a wide table has working space of its own, so there are at most as many parts as
 * threads. */
static gsize
count_max_parts (const TpsTableStep *step, TpsWorkerPool *workers)
{
  gsize n_threads = workers != NULL ? tps_worker_pool_get_n_threads (workers) + 1 : 1;

  return step->table->dim > MAX_NARROW_DIM ? n_threads : G_MAXSIZE;
}

void
tps_table_step_reserve (TpsTableStep *step, TpsScratch *scratch, TpsTable *table, TpsDType dtype,
                        gsize capacity, gsize max_bags, gboolean has_weights,
                        TpsWorkerPool *workers)
{
  *step = (TpsTableStep) {
    .table = table,
    .dtype = dtype,
    .capacity = capacity,
    .n_levels = MIN (tps_tree_sum_levels (capacity), MAX_LEVELS),
    .n_cell_levels = MIN (tps_tree_sum_levels (max_bags), MAX_LEVELS),
  };
  step->places.slots = tps_scratch_reserve (scratch, capacity, sizeof step->slots[0]);
  step->places.gradients = tps_scratch_reserve (scratch, capacity, sizeof step->gradients[0]);
  step->places.groups = tps_scratch_reserve (scratch, capacity + 1, TPS_CPU_GROUPS_BYTES);
  if (max_bags > 0)
    step->places.cell_rows = tps_scratch_reserve (scratch, capacity, sizeof step->cell_rows[0]);
  if (has_weights)
    step->places.weights = tps_scratch_reserve (scratch, capacity, sizeof step->weights[0]);
  step->max_parts = count_max_parts (step, workers);
  if (step->max_parts == G_MAXSIZE)
    return;
  step->max_parts = tps_parallel_count_parts (workers, bytes_of (step, capacity, capacity),
                                              MIN (step->max_parts, MAX (capacity, 1)));
  step->places.wide = tps_scratch_reserve (scratch, step->max_parts * count_working_rows (step),
                                           table->dim * sizeof (gfloat));
}

void
tps_table_step_begin (TpsTableStep *step, const TpsScratch *scratch)
{
  step->slots = tps_scratch_at (scratch, step->places.slots);
  step->gradients = tps_scratch_at (scratch, step->places.gradients);
  step->group_memory = tps_scratch_at (scratch, step->places.groups);
  if (step->places.cell_rows > 0)
    step->cell_rows = tps_scratch_at (scratch, step->places.cell_rows);
  if (step->places.weights > 0)
    step->weights = tps_scratch_at (scratch, step->places.weights);
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
tps_table_step_add_cells (TpsTableStep *step, gint64 slot, const TpsCellRow *row)
{
  step->cell_rows[step->n] = *row;
  tps_table_step_add (step, slot, NULL, 1);
}

void
tps_table_step_group (TpsTableStep *step)
{
  if (step->n > 0)
    tps_cpu_groups_init (&step->groups, step->group_memory, step->slots, step->n);
}

/* ---- adding up ------------------------------------------------------------------------------- */

typedef struct
{
  gfloat *sum, *cells; /* [dim] */
  gfloat *scratch;     /* [2, dim] */
  gfloat *levels;      /* [n_levels, dim] */
  TpsCellSums cell_sums;
} WorkingSpace;

static WorkingSpace
divide_space (const TpsTableStep *step, gfloat *memory)
{
  gsize dim = step->table->dim;
  gfloat *counts = memory + FIRST_ROWS * dim; /* aligned: an even number of rows before */
  gfloat *levels = counts + COUNT_ROWS * dim;

  return (WorkingSpace) {
    .sum = memory,
    .cells = memory + dim,
    .scratch = memory + 2 * dim,
    .levels = levels,
    .cell_sums = { dim, (gsize *) (gpointer) counts, levels + step->n_levels * dim },
  };
}

/* Contribution `i`, of the step's dtype; a row of cells is spread to `space->cells`. */
static gconstpointer
gradient_at (const TpsTableStep *step, gsize i, const WorkingSpace *space)
{
  const TpsCellRow *row;

  if (step->gradients[i] != NULL)
    return step->gradients[i];
  row = &step->cell_rows[i];
  tps_cell_sums_add_up (&space->cell_sums, row->gradient, row->cells, row->n_cells, space->cells);
  return space->cells;
}

/* The sum of group `u`, as a tree (runtime/device/backend.h): in `space->sum`, or in place. */
static const gfloat *
add_up (const TpsTableStep *step, gsize u, const WorkingSpace *space)
{
  const TpsCpuGroups *groups = &step->groups;
  gsize dim = step->table->dim;
  gsize begin = groups->starts[u];
  gsize end = groups->starts[u + 1];
  gfloat *sum = space->sum;
  TpsTreeSum tree;

  if (step->weights == NULL && end - begin == 1 && step->dtype == TPS_DTYPE_FLOAT32)
    return gradient_at (step, groups->order[begin], space);
  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, dim, sum, space->levels, dim * sizeof sum[0]);
  for (gsize i = begin; i < end; i++)
    {
      gsize position = groups->order[i];
      gconstpointer gradient = gradient_at (step, position, space);
      gfloat weight = step->weights != NULL ? step->weights[position] : 1;

      if (tps_tree_sum_next (&tree))
        tps_cpu_scale (step->dtype, sum, gradient, weight, dim);
      else if (step->weights == NULL)
        tps_cpu_accumulate (step->dtype, sum, gradient, dim);
      else
        tps_cpu_scale_accumulate (step->dtype, sum, gradient, weight, dim);
    }
  tps_tree_sum_finish (&tree);
  return sum;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Prefetches the row of group `u` and its first gradient, which another core may have received. */
static void
prefetch_group (const TpsTableStep *step, gsize u)
{
  const TpsCpuGroups *groups = &step->groups;
  const guint8 *gradient = step->gradients[groups->order[groups->starts[u]]];
  gsize n_bytes = gradient != NULL ? step->table->dim * tps_dtype_size (step->dtype) : 0;

  tps_table_prefetch_update (step->table, groups->ids[u]);
  for (gsize i = 0; i < MIN (n_bytes, MAX_AHEAD_BYTES); i += CACHE_LINE)
    __builtin_prefetch (gradient + i);
}

/* Assigns the last of the values that were added for group `u`. */
static void
assign_row (const TpsTableStep *step, gsize u, const WorkingSpace *space)
{
  const TpsCpuGroups *groups = &step->groups;
  gsize last = groups->order[groups->starts[u + 1] - 1];

  tps_table_assign_row (step->table, step->lsn, groups->ids[u], step->dtype, step->gradients[last],
                        step->as_of_lsn, space->scratch);
}

static void
step_rows (const TpsTableStep *step, gsize begin, gsize end, gfloat *memory)
{
  const TpsCpuGroups *groups = &step->groups;
  WorkingSpace space = divide_space (step, memory);
  gint64 limit = step->turn != NULL ? 0 : G_MAXINT64; /* rows below it may be changed */

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
        assign_row (step, u, &space);
      else
        tps_table_update_row (step->table, &step->optimizer_step, step->lsn, groups->ids[u],
                              add_up (step, u, &space), space.scratch);
    }
  tps_table_end_updates (step->table);
}

static void
step_part (gpointer user_data, gsize part)
{
  TpsTableStep *step = user_data;
  gsize begin = part * step->groups.n_groups / step->n_parts;
  gsize end = (part + 1) * step->groups.n_groups / step->n_parts;
  gsize wide_floats = count_working_rows (step) * step->table->dim;
  _Alignas(64) gfloat narrow[MAX_WORKING_ROWS * MAX_NARROW_DIM];

  step_rows (step, begin, end, step->wide != NULL ? step->wide + part * wide_floats : narrow);
}

static void
update_rows (TpsTableStep *step, TpsWorkerPool *workers)
{
  gsize n_groups = step->groups.n_groups;

  if (step->n == 0)
    return;
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

/* Runs in parallel with the step before it and the one after. Its progress covers all steps up to
 * it, so it must wait for the step before. */
static void
run_beside_others (TpsTableStep *step)
{
  TpsTablePace *pace = step->table->pace;

  tps_table_pace_wait (pace, step->turn, -1);
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
  return bytes_of (step, step->n, step->n > 0 ? step->groups.n_groups : 0) <= MAX_SHORT_BYTES;
}
