/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table_step.h"

#include "runtime/base/parallel.h"
#include "runtime/machine/tuning.h"
#include "runtime/server/tables/host/table_sum.h"

/* The number of rows by which prefetches precede updates. A fetch from memory takes about as long
 * as a few updates. The number does not depend much on the machine, because faster processors have
 * faster memory. */
#define AHEAD 6
#define MAX_AHEAD_BYTES 1024 /* of a gradient */
#define CACHE_LINE 64

/* The number of rows between two publications of the progress (table_pace.h). */
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

/* Each part of a step of a wide table has a working space of its own, so there are at most as many
 * parts as threads. */
static gsize
count_max_parts (const TpsTableStep *step, TpsWorkerPool *workers)
{
  gsize n_threads = workers != NULL ? tps_worker_pool_get_n_threads (workers) + 1 : 1;

  return step->table->dim > TPS_TABLE_SUM_MAX_NARROW_DIM ? n_threads : G_MAXSIZE;
}

void
tps_table_step_reserve (TpsTableStep *step, TpsScratch *scratch, TpsTable *table, TpsDType dtype,
                        gsize capacity, gboolean has_weights, TpsWorkerPool *workers)
{
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
  tps_table_sum_reserve (step, scratch, workers);
  step->max_parts = count_max_parts (step, workers);
  if (step->max_parts == G_MAXSIZE)
    return;
  step->max_parts = tps_parallel_count_parts (workers, bytes_of (step, capacity, capacity),
                                              MIN (step->max_parts, MAX (capacity, 1)));
  step->places.wide = tps_scratch_reserve (
      scratch, step->max_parts * tps_table_sum_count_floats (step), sizeof (gfloat));
}

void
tps_table_step_begin (TpsTableStep *step, const TpsScratch *scratch)
{
  step->slots = tps_scratch_at (scratch, step->places.slots);
  step->gradients = tps_scratch_at (scratch, step->places.gradients);
  step->group_memory = tps_scratch_at (scratch, step->places.groups);
  if (step->places.weights > 0)
    step->weights = tps_scratch_at (scratch, step->places.weights);
  tps_table_sum_begin (step, scratch);
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

/* Assigns the last value that was added for group `u`. */
static void
assign_row (const TpsTableStep *step, gsize u, const TpsTableSumSpace *space)
{
  const TpsCpuGroups *groups = &step->groups;
  gsize last = groups->order[groups->starts[u + 1] - 1];

  tps_table_assign_row (step->table, step->lsn, groups->ids[u], step->dtype, step->gradients[last],
                        step->as_of_lsn, space->scratch);
}

/* Returns the sum of group `u`. Most rows have a single contribution, which is itself the sum. */
static const gfloat *
add_up (const TpsTableStep *step, gsize u, const TpsTableSumSpace *space)
{
  const gsize *starts = step->groups.starts;

  if (starts[u + 1] - starts[u] == 1 && step->weights == NULL && step->dtype == TPS_DTYPE_FLOAT32)
    return step->gradients[step->groups.order[starts[u]]];
  return tps_table_sum_add_up (step, u, space);
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
  wanted = tps_table_sum_work_before (step, high) / step->n_parts * part;
  while (low < high)
    {
      gsize middle = low + (high - low) / 2;

      if (tps_table_sum_work_before (step, middle) < wanted)
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

  tps_table_sum_run_part (step, part, first_of_part (step, part), first_of_part (step, part + 1),
                          step_rows);
}

static void
update_rows (TpsTableStep *step, TpsWorkerPool *workers)
{
  gsize n_groups = step->groups.n_groups;

  if (step->n == 0)
    return;
  tps_table_sum_add_blocks (step, workers);
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
