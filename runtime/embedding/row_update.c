/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/embedding/row_update.h"

#include "runtime/buffer.h"
#include "runtime/cpu/elementwise.h"
#include "runtime/embedding/parallel.h"

/* Rows that are fetched ahead while one is updated. */
#define AHEAD 6

void
tps_row_update_init (TpsRowUpdate *update, TpsTable *table, TpsDType dtype, gsize capacity,
                     gboolean is_weighted)
{
  *update = (TpsRowUpdate) {
    .table = tps_table_ref (table),
    .dtype = dtype,
    .capacity = capacity,
    .slots = g_new (gint64, capacity),
    .gradients = g_new (gconstpointer, capacity),
    .weights = is_weighted ? g_new (gfloat, capacity) : NULL,
  };
}

void
tps_row_update_clear (TpsRowUpdate *update)
{
  g_clear_pointer (&update->groups, tps_cpu_groups_free);
  g_clear_pointer (&update->table, tps_table_unref);
  g_free (update->slots);
  g_free (update->gradients);
  g_free (update->weights);
}

/* The sum of group `u`: in `sum`, or where it lies already. */
static const gfloat *
add_up (const TpsRowUpdate *update, gsize u, gfloat *sum)
{
  const TpsCpuGroups *groups = update->groups;
  gsize dim = update->table->dim;
  gsize begin = groups->starts[u];
  gsize end = groups->starts[u + 1];
  gconstpointer first = update->gradients[groups->order[begin]];

  if (update->weights == NULL && end - begin == 1 && update->dtype == TPS_DTYPE_FLOAT32)
    return first;
  if (update->weights == NULL)
    tps_cpu_cast (TPS_DTYPE_FLOAT32, sum, update->dtype, first, dim);
  else
    tps_cpu_scale (update->dtype, sum, first, update->weights[groups->order[begin]], dim);
  for (gsize i = begin + 1; i < end; i++)
    {
      gsize position = groups->order[i];

      if (update->weights == NULL)
        tps_cpu_accumulate (update->dtype, sum, update->gradients[position], dim);
      else
        tps_cpu_scale_accumulate (update->dtype, sum, update->gradients[position],
                                  update->weights[position], dim);
    }
  return sum;
}

static void
update_part (gpointer user_data, gsize part)
{
  TpsRowUpdate *update = user_data;
  const TpsCpuGroups *groups = update->groups;
  gsize dim = update->table->dim;
  gsize begin = part * groups->n_groups / update->n_parts;
  gsize end = (part + 1) * groups->n_groups / update->n_parts;
  g_autoptr (TpsBuffer) memory = tps_buffer_new (3 * dim * sizeof (gfloat));
  gfloat *scratch = (gfloat *) (gpointer) tps_buffer_get_data (memory);

  tps_table_begin_updates (update->table);
  for (gsize u = begin; u < end; u++)
    {
      const gfloat *sum;

      if (u + AHEAD < end)
        tps_table_prefetch_update (update->table, groups->ids[u + AHEAD]);
      sum = add_up (update, u, scratch);
      tps_table_update_row (update->table, &update->step, groups->ids[u], sum, scratch + dim);
    }
  tps_table_end_updates (update->table);
}

static gsize
update_bytes (const TpsRowUpdate *update)
{
  const TpsTable *table = update->table;
  gsize row = 2 * (table->row_bytes + table->state_per_row * sizeof (gfloat));

  return update->n * (table->dim * tps_dtype_size (update->dtype) + sizeof (gint64))
         + update->groups->n_groups * row;
}

void
tps_row_update_run (TpsRowUpdate *update, TpsWorkerPool *workers)
{
  TpsTable *table = update->table;
  gint64 n_before = atomic_fetch_add (&table->n_steps, 1);

  tps_cpu_optimizer_step_init (&update->step, &table->spec.optimizer, n_before + 1);
  if (update->n == 0)
    return;
  update->groups = tps_cpu_groups_new (update->slots, update->n);
  update->n_parts = tps_parallel_count_parts (workers, update_bytes (update),
                                              update->groups->n_groups);
  tps_parallel_run (workers, update->n_parts, update_part, update);
}
