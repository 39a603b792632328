/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/table_steps/step_rows.h"

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/rows.h"
#include "runtime/device/cpu/kernels/tree_sum.h"

void
tps_step_rows_init (TpsStepRows *rows, gsize dim)
{
  *rows = (TpsStepRows) { .dim = dim };
}

void
tps_step_rows_clear (TpsStepRows *rows)
{
  g_free (rows->memory);
  g_free (rows->rows);
  g_free (rows->stale);
  g_free (rows->stale_groups);
  g_free (rows->sums);
  *rows = (TpsStepRows) { .dim = rows->dim };
}

/* -- ids -- */

static void
reserve_ids (TpsStepRows *rows, gsize n_ids)
{
  if (rows->memory != NULL && n_ids <= rows->capacity)
    return;
  rows->capacity = n_ids;
  g_free (rows->memory);
  rows->memory = g_malloc ((n_ids + 1) * TPS_CPU_GROUPS_BYTES);
  rows->rows = g_renew (const gfloat *, rows->rows, n_ids);
  rows->stale = g_renew (gint64, rows->stale, n_ids);
  rows->stale_groups = g_renew (gsize, rows->stale_groups, n_ids);
}

void
tps_step_rows_set_bags (TpsStepRows *rows, const TpsStepBags *bags)
{
  rows->bags = *bags;
  rows->n_stale = 0;
  reserve_ids (rows, bags->n_ids);
  tps_cpu_groups_init (&rows->groups, rows->memory, bags->ids, bags->n_ids);
}

/* Adds `ids` to the marked ids in one merge, because both lists and the groups are in ascending
 * order. */
void
tps_step_rows_mark_stale (TpsStepRows *rows, const gint64 *ids, gsize n)
{
  const TpsCpuGroups *groups = &rows->groups;
  gsize n_marked = rows->n_stale, at = 0, marked = 0, n_stale = 0;
  g_autofree gsize *before = NULL;

  if (n_marked > 0)
    before = g_memdup2 (rows->stale_groups, n_marked * sizeof *before);
  for (gsize u = 0; u < groups->n_groups; u++)
    {
      gboolean is_marked = marked < n_marked && before[marked] == u;

      while (at < n && ids[at] < groups->ids[u])
        at++;
      marked += is_marked;
      if (!is_marked && (at == n || ids[at] != groups->ids[u]))
        continue;
      rows->stale[n_stale] = groups->ids[u];
      rows->stale_groups[n_stale++] = u;
    }
  rows->n_stale = n_stale;
}

/* -- rows -- */

static void
set_row (TpsStepRows *rows, gsize group, const gfloat *values)
{
  const TpsCpuGroups *groups = &rows->groups;

  for (gsize i = groups->starts[group]; i < groups->starts[group + 1]; i++)
    rows->rows[groups->order[i]] = values;
}

void
tps_step_rows_take_all (TpsStepRows *rows, const gfloat *values)
{
  for (gsize u = 0; u < rows->groups.n_groups; u++)
    set_row (rows, u, values + u * rows->dim);
}

void
tps_step_rows_take_stale (TpsStepRows *rows, const gfloat *values)
{
  for (gsize i = 0; i < rows->n_stale; i++)
    set_row (rows, rows->stale_groups[i], values + i * rows->dim);
  rows->n_stale = 0;
}

static gsize
get_end (const TpsStepBags *bags, gsize bag)
{
  return bag + 1 < bags->n_bags ? (gsize) bags->offsets[bag + 1] : bags->n_ids;
}

void
tps_step_rows_pool (const TpsStepRows *rows, TpsStepVectors vectors)
{
  gsize row_bytes = rows->dim * sizeof (gfloat);

  for (gsize bag = 0; bag < rows->bags.n_bags; bag++)
    {
      gsize first = (gsize) rows->bags.offsets[bag], end = get_end (&rows->bags, bag);
      gfloat *vector = vectors.values + bag * vectors.stride;

      if (end == first)
        {
          memset (vector, 0, row_bytes);
          continue;
        }
      memcpy (vector, rows->rows[first], row_bytes);
      tps_cpu_add_rows (vector, rows->rows + first + 1, end - first - 1, 0, rows->dim);
    }
}

/* -- gradients -- */

/* Returns the bag of each position [n_ids], owned by the caller. */
static guint32 *
list_bags (const TpsStepBags *bags)
{
  guint32 *bag_of = g_new (guint32, bags->n_ids);

  for (gsize bag = 0; bag < bags->n_bags; bag++)
    for (gsize i = (gsize) bags->offsets[bag]; i < get_end (bags, bag); i++)
      bag_of[i] = (guint32) bag;
  return bag_of;
}

static void
add_up_group (const TpsStepRows *rows, gsize group, const guint32 *bag_of, TpsStepVectors gradients,
              gfloat *levels)
{
  const TpsCpuGroups *groups = &rows->groups;
  gfloat *sum = rows->sums + group * rows->dim;
  gsize row_bytes = rows->dim * sizeof *sum;
  TpsTreeSum tree;

  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, rows->dim, sum, levels, row_bytes);
  for (gsize i = groups->starts[group]; i < groups->starts[group + 1]; i++)
    {
      const gfloat *gradient = gradients.values + bag_of[groups->order[i]] * gradients.stride;

      if (tps_tree_sum_next (&tree))
        memcpy (sum, gradient, row_bytes);
      else
        tps_cpu_accumulate (TPS_DTYPE_FLOAT32, sum, gradient, rows->dim);
    }
  tps_tree_sum_finish (&tree);
}

void
tps_step_rows_add_up (TpsStepRows *rows, TpsStepVectors gradients)
{
  gsize n_floats = rows->groups.n_groups * rows->dim;
  g_autofree guint32 *bag_of = list_bags (&rows->bags);
  g_autofree gfloat *levels = g_new (gfloat, tps_tree_sum_levels (rows->bags.n_ids) * rows->dim);

  if (n_floats > rows->sums_capacity)
    {
      g_free (rows->sums);
      rows->sums = g_new (gfloat, n_floats);
      rows->sums_capacity = n_floats;
    }
  for (gsize u = 0; u < rows->groups.n_groups; u++)
    add_up_group (rows, u, bag_of, gradients, levels);
}
