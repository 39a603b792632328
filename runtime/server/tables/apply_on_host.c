/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Steps of tables in the host's memory.
 *
 * Contributions to a row are added in the order of the gradients. The contributions of a MAX
 * gradient are known only in the push's turn, so a table with a MAX gradient gets all of its
 * contributions in the turn. For all other tables, contributions are added and grouped by row
 * before the turn. */

#include "runtime/server/tables/rows_on_host.h"

#include "runtime/base/parallel.h"
#include "runtime/device/cpu/kernels/elementwise.h"

static gboolean
is_mine (const TpsTable *table)
{
  return table->row_store == &tps_rows_on_host;
}

/* ---- temporary space ------------------------------------------------------------------------- */

static gsize
count_max_parts (const TpsApplyPart *part, TpsWorkerPool *workers)
{
  const TpsTableBags *bags = &part->open.bags;
  gsize n_threads = workers != NULL ? tps_worker_pool_get_n_threads (workers) + 1 : 1;
  gboolean is_wide = tps_table_pool_get_stage_bytes (bags->table) > 0;

  return tps_parallel_count_parts (workers, bags->n_indices * bags->table->row_bytes,
                                   is_wide ? MIN (bags->n_bags, n_threads) : bags->n_bags);
}

static void
reserve_max (TpsApply *apply, TpsApplyPart *part)
{
  TpsScratch *scratch = &apply->scratch;
  gsize n_cells = tps_apply_part_count_cells (part);

  part->reports_maxima = !part->has_maxima;
  if (part->reports_maxima)
    part->places.maxima = tps_scratch_reserve (scratch, n_cells + 1, sizeof part->maxima[0]);
  part->n_parts = count_max_parts (part, tps_table_store_get_workers (apply->store));
  part->places.pooled = tps_scratch_reserve (scratch, n_cells, sizeof (gfloat));
  part->places.stages = tps_scratch_reserve (scratch, part->n_parts,
                                             tps_table_pool_get_stage_bytes (part->open.table));
  part->places.ids = tps_scratch_reserve (scratch, n_cells, sizeof (gint64));
  part->places.cells = tps_scratch_reserve (scratch, n_cells, sizeof (gsize));
  part->places.groups = tps_scratch_reserve (scratch, n_cells + 1, TPS_CPU_GROUPS_BYTES);
}

void
tps_rows_on_host_reserve (TpsApply *apply)
{
  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];

      if (!is_mine (part->open.table))
        continue;
      if (tps_apply_part_is_max (part))
        reserve_max (apply, part);
      else if (part->open.bags.pooling == TPS_POOLING_MEAN)
        part->places.scaled = tps_scratch_reserve (
            &apply->scratch, tps_apply_part_count_cells (part), sizeof part->scaled[0]);
    }
  for (guint s = 0; s < apply->n_steps; s++)
    {
      TpsApplyStep *step = &apply->steps[s];

      if (is_mine (step->table))
        tps_table_step_reserve (&step->host, &apply->scratch, step->table, apply->parts[0].dtype,
                                step->n_contributions, step->max_bags, step->has_weights,
                                tps_table_store_get_workers (apply->store));
    }
}

/* ---- contributions --------------------------------------------------------------------------- */

static gsize
bag_start (const TpsTableBags *bags, gsize bag)
{
  if (bag == bags->n_bags)
    return bags->n_indices;
  return bags->offsets != NULL ? (gsize) bags->offsets[bag] : bag;
}

static void
divide_by_counts (TpsApply *apply, TpsApplyPart *part)
{
  const TpsTableBags *bags = &part->open.bags;
  const gfloat *gradient = part->gradient;
  gsize dim = bags->table->dim;

  part->scaled = tps_scratch_at (&apply->scratch, part->places.scaled);
  for (gsize bag = 0; bag < bags->n_bags; bag++)
    {
      gsize count = bag_start (bags, bag + 1) - bag_start (bags, bag);

      tps_cpu_divide (TPS_DTYPE_FLOAT32, part->scaled + bag * dim, gradient + bag * dim,
                      (gfloat) MAX (count, 1), dim);
    }
}

/* Adds each row of the gradient as a contribution to one row of the table. */
static void
add_rows (TpsTableStep *step, const TpsApplyPart *part, gsize row_bytes)
{
  const TpsTableBags *bags = &part->open.bags;
  const guint8 *row = part->gradient;

  for (gsize i = 0; i < bags->n_indices; i++, row += row_bytes)
    tps_table_step_add (step, bags->slots[i] - bags->base, row, 1);
}

static void
add_bags (TpsApply *apply, TpsApplyPart *part)
{
  const TpsTableBags *bags = &part->open.bags;
  TpsTableStep *step = &apply->steps[part->step].host;
  gsize row_bytes = bags->table->dim * tps_dtype_size (part->dtype);
  const guint8 *row;

  if (bags->offsets == NULL)
    {
      add_rows (step, part, row_bytes);
      return;
    }
  if (bags->pooling == TPS_POOLING_MEAN)
    divide_by_counts (apply, part);
  row = part->scaled != NULL ? (const guint8 *) part->scaled : part->gradient;
  for (gsize bag = 0; bag < bags->n_bags; bag++, row += row_bytes)
    for (gsize i = bag_start (bags, bag); i < bag_start (bags, bag + 1); i++)
      tps_table_step_add (step, bags->slots[i] - bags->base, row,
                          bags->weights != NULL ? bags->weights[i] : 1);
}

typedef struct
{
  const TpsApplyPart *part;
  gfloat *pooled;
  guint8 *stages;
  gsize stage_bytes;
} MaxCall;

static void
max_part (gpointer user_data, gsize number)
{
  const MaxCall *call = user_data;
  const TpsApplyPart *part = call->part;
  const TpsTableBags *bags = &part->open.bags;
  gsize begin = number * bags->n_bags / part->n_parts;
  gsize end = (number + 1) * bags->n_bags / part->n_parts;
  gsize first = begin * bags->table->dim;

  tps_table_pool_bags (bags, begin, end, call->pooled + first, part->maxima + first,
                       call->stage_bytes > 0 ? call->stages + number * call->stage_bytes : NULL);
}

/* Finds the maxima of the present rows, unless they come from a record. */
static void
find_maxima (TpsApply *apply, const TpsApplyPart *part)
{
  MaxCall call = {
    .part = part,
    .pooled = tps_scratch_at (&apply->scratch, part->places.pooled),
    .stages = tps_scratch_at (&apply->scratch, part->places.stages),
    .stage_bytes = tps_table_pool_get_stage_bytes (part->open.table),
  };

  if (!part->has_maxima)
    tps_parallel_run (tps_table_store_get_workers (apply->store), part->n_parts, max_part, &call);
}

/* Adds one contribution for each row that has maxima: the cells of the gradient in which this row
 * is the maximum. */
static void
add_maxima (TpsApply *apply, const TpsApplyPart *part)
{
  TpsTableStep *step = &apply->steps[part->step].host;
  gint64 *ids = tps_scratch_at (&apply->scratch, part->places.ids);
  gsize *cells = tps_scratch_at (&apply->scratch, part->places.cells);
  TpsCpuGroups groups;
  gsize n = 0;

  for (gsize cell = 0; cell < tps_apply_part_count_cells (part); cell++)
    if (part->maxima[cell] >= 0)
      {
        ids[n] = part->maxima[cell];
        cells[n++] = cell;
      }
  tps_cpu_groups_init (&groups, tps_scratch_at (&apply->scratch, part->places.groups), ids, n);
  /* From positions in `ids` to cells. */
  for (gsize i = 0; i < n; i++)
    groups.order[i] = cells[groups.order[i]];
  for (gsize u = 0; u < groups.n_groups; u++)
    {
      TpsCellRow row = { part->gradient, groups.order + groups.starts[u],
                         groups.starts[u + 1] - groups.starts[u] };

      tps_table_step_add_cells (step, groups.ids[u], &row);
    }
}

/* Adds the contributions to tables in the host's memory. If `in_turn` is FALSE, these are the
 * tables without a MAX gradient, otherwise the tables with one. */
static void
add_contributions (TpsApply *apply, gboolean in_turn)
{
  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];

      if (!is_mine (part->open.table) || apply->steps[part->step].has_max != in_turn)
        continue;
      if (!tps_apply_part_is_max (part))
        {
          add_bags (apply, part);
          continue;
        }
      find_maxima (apply, part);
      add_maxima (apply, part);
    }
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table) && apply->steps[s].has_max == in_turn)
      tps_table_step_group (&apply->steps[s].host);
}

/* ---- the step -------------------------------------------------------------------------------- */

void
tps_rows_on_host_begin (TpsApply *apply)
{
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table))
      tps_table_step_begin (&apply->steps[s].host, &apply->scratch);
  if (apply->push->is_assignment)
    tps_table_step_assign (&apply->steps[0].host, apply->push->as_of_lsn);
  add_contributions (apply, FALSE);
}

/* Returns the turn if the step may run in parallel with its neighbours, otherwise NULL. */
static const TpsTurn *
turn_beside_others (const TpsTurn *turn)
{
  return turn->ordered->may_follow ? turn : NULL;
}

gboolean
tps_rows_on_host_may_follow (const TpsApplyStep *step)
{
  return tps_table_step_is_short (&step->host);
}

gboolean
tps_rows_on_host_run (TpsApply *apply, gint64 lsn, G_GNUC_UNUSED GError **error)
{
  add_contributions (apply, TRUE);
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table) && !apply->tables[s].is_skipped)
      tps_table_step_run (&apply->steps[s].host, lsn, turn_beside_others (&apply->turns[s]),
                          tps_table_store_get_workers (apply->store));
  return TRUE;
}
