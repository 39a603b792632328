/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Steps of tables in the host's memory. Contributions to a row are added in the order of the
 * gradients. They are listed and grouped by row before the push's turn. */

#include "runtime/server/tables/rows_on_host.h"

#include "runtime/device/cpu/kernels/elementwise.h"

static gboolean
is_mine (const TpsTable *table)
{
  return table->row_store == &tps_rows_on_host;
}

/* ---- temporary space ------------------------------------------------------------------------- */

void
tps_rows_on_host_reserve (TpsApply *apply)
{
  for (guint i = 0; i < apply->n_parts; i++)
    {
      TpsApplyPart *part = &apply->parts[i];

      if (is_mine (part->open.table) && part->open.bags.pooling == TPS_POOLING_MEAN)
        part->place_of_scaled = tps_scratch_reserve (
            &apply->scratch, tps_apply_part_count_cells (part), sizeof part->scaled[0]);
    }
  for (guint s = 0; s < apply->n_steps; s++)
    {
      TpsApplyStep *step = &apply->steps[s];

      if (is_mine (step->table))
        tps_table_step_reserve (&step->host, &apply->scratch, step->table, apply->parts[0].dtype,
                                step->n_contributions, step->has_weights,
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

  part->scaled = tps_scratch_at (&apply->scratch, part->place_of_scaled);
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

/* ---- the step -------------------------------------------------------------------------------- */

void
tps_rows_on_host_begin (TpsApply *apply)
{
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table))
      tps_table_step_begin (&apply->steps[s].host, &apply->scratch);
  if (apply->push->is_assignment)
    tps_table_step_assign (&apply->steps[0].host, apply->push->as_of_lsn);
  for (guint i = 0; i < apply->n_parts; i++)
    if (is_mine (apply->parts[i].open.table))
      add_bags (apply, &apply->parts[i]);
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table))
      tps_table_step_group (&apply->steps[s].host);
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
  for (guint s = 0; s < apply->n_steps; s++)
    if (is_mine (apply->steps[s].table) && !apply->tables[s].is_skipped)
      tps_table_step_run (&apply->steps[s].host, lsn, turn_beside_others (&apply->turns[s]),
                          tps_table_store_get_workers (apply->store));
  return TRUE;
}
