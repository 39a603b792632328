/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bags of FLOAT16 or BFLOAT16 rows. Each row is converted to FLOAT32 and then combined, in the
 * given order. */

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/rows.h"

typedef struct
{
  const TpsBags *bags;
  TpsDType dtype;
  const guint8 *table;
  gfloat *row; /* [dim] */
} Pool;

/* Converts the row of the index at `position`. */
static void
read_row (const Pool *pool, gsize position, gfloat *to)
{
  gsize dim = (gsize) pool->bags->dim;
  gsize row = (gsize) pool->bags->indices[position];

  tps_cpu_cast (TPS_DTYPE_FLOAT32, to, pool->dtype,
                pool->table + row * dim * tps_dtype_size (pool->dtype), dim);
}

static void
sum_bag (const Pool *pool, gsize first, gsize end, gfloat *output)
{
  gsize dim = (gsize) pool->bags->dim;
  const gfloat *row = pool->row;

  for (gsize d = 0; d < dim; d++)
    output[d] = first < end ? TPS_NOTHING : 0;
  for (gsize i = first; i < end; i++)
    {
      read_row (pool, i, pool->row);
      if (pool->bags->weights != NULL)
        tps_cpu_add_weighted_rows (output, &row, pool->bags->weights + i, 1, 0, dim);
      else
        tps_cpu_add_rows (output, &row, 1, 0, dim);
    }
}

void
tps_cpu_embedding_pool_half (const TpsBags *bags, TpsDType dtype, gconstpointer table,
                             gfloat *output)
{
  gsize dim = (gsize) bags->dim;
  g_autoptr (TpsBuffer) row = tps_buffer_new (MAX (dim, 1) * sizeof (gfloat));
  Pool pool = { bags, dtype, table, (gfloat *) (gpointer) tps_buffer_get_data (row) };

  for (gsize bag = 0; bag < bags->n_bags; bag++)
    {
      gsize first = tps_bag_start (bags, bag), end = tps_bag_start (bags, bag + 1);
      gfloat *pooled = output + bag * dim;

      sum_bag (&pool, first, end, pooled);
      if (bags->pooling == TPS_POOLING_MEAN && first < end)
        tps_cpu_divide (TPS_DTYPE_FLOAT32, pooled, pooled, (gfloat) (end - first), dim);
    }
}
