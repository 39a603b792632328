/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/table_step.h"

#include "runtime/base/buffer.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/tree_sum.h"
#include "runtime/base/parallel.h"

/* Rows that are fetched ahead while one is updated. */
#define AHEAD 6

void
tps_table_step_init (TpsTableStep *step, TpsTable *table, TpsDType dtype, gsize capacity,
                     gboolean is_weighted)
{
  *step = (TpsTableStep) {
    .table = tps_table_ref (table),
    .dtype = dtype,
    .capacity = capacity,
    .slots = g_new (gint64, capacity),
    .gradients = g_new (gconstpointer, capacity),
    .weights = is_weighted ? g_new (gfloat, capacity) : NULL,
  };
}

void
tps_table_step_clear (TpsTableStep *step)
{
  g_clear_pointer (&step->groups, tps_cpu_groups_free);
  g_clear_pointer (&step->table, tps_table_unref);
  g_free (step->slots);
  g_free (step->gradients);
  g_free (step->weights);
}

/* The sum of group `u`, as a tree (runtime/device/backend.h): in `sum`, or where it lies already. */
static const gfloat *
add_up (const TpsTableStep *step, gsize u, gfloat *levels, gfloat *sum)
{
  const TpsCpuGroups *groups = step->groups;
  gsize dim = step->table->dim;
  gsize begin = groups->starts[u];
  gsize end = groups->starts[u + 1];
  TpsTreeSum tree;

  if (step->weights == NULL && end - begin == 1 && step->dtype == TPS_DTYPE_FLOAT32)
    return step->gradients[groups->order[begin]];
  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, dim, sum, levels, dim * sizeof sum[0]);
  for (gsize i = begin; i < end; i++)
    {
      gsize position = groups->order[i];
      gfloat weight = step->weights != NULL ? step->weights[position] : 1;

      if (tps_tree_sum_next (&tree))
        tps_cpu_scale (step->dtype, sum, step->gradients[position], weight, dim);
      else if (step->weights == NULL)
        tps_cpu_accumulate (step->dtype, sum, step->gradients[position], dim);
      else
        tps_cpu_scale_accumulate (step->dtype, sum, step->gradients[position], weight, dim);
    }
  tps_tree_sum_finish (&tree);
  return sum;
}

static void
step_part (gpointer user_data, gsize part)
{
  TpsTableStep *step = user_data;
  const TpsCpuGroups *groups = step->groups;
  gsize dim = step->table->dim;
  gsize begin = part * groups->n_groups / step->n_parts;
  gsize end = (part + 1) * groups->n_groups / step->n_parts;
  gsize n_scratch = 3 + tps_tree_sum_levels (step->n);
  g_autoptr (TpsBuffer) memory = tps_buffer_new (n_scratch * dim * sizeof (gfloat));
  gfloat *scratch = (gfloat *) (gpointer) tps_buffer_get_data (memory);

  tps_table_begin_updates (step->table);
  for (gsize u = begin; u < end; u++)
    {
      const gfloat *sum;

      if (u + AHEAD < end)
        tps_table_prefetch_update (step->table, groups->ids[u + AHEAD]);
      sum = add_up (step, u, scratch + 3 * dim, scratch);
      tps_table_update_row (step->table, &step->optimizer_step, groups->ids[u], sum, scratch + dim);
    }
  tps_table_end_updates (step->table);
}

static gsize
step_bytes (const TpsTableStep *step)
{
  const TpsTable *table = step->table;
  gsize row = 2 * (table->row_bytes + table->state_per_row * sizeof (gfloat));

  return step->n * (table->dim * tps_dtype_size (step->dtype) + sizeof (gint64))
         + step->groups->n_groups * row;
}

void
tps_table_step_run (TpsTableStep *step, TpsWorkerPool *workers)
{
  TpsTable *table = step->table;
  gint64 n_before = atomic_fetch_add (&table->n_steps, 1);

  tps_cpu_optimizer_step_init (&step->optimizer_step, &table->spec.optimizer, n_before + 1);
  if (step->n == 0)
    return;
  step->groups = tps_cpu_groups_new (step->slots, step->n);
  step->n_parts = tps_parallel_count_parts (workers, step_bytes (step), step->groups->n_groups);
  tps_parallel_run (workers, step->n_parts, step_part, step);
}
