/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of rows at arbitrary addresses. The sum of a column has the same bits as an addition of the
 * rows one by one.
 *
 * The loop handles a group of 64, 32 or 16 columns, one row after another. The sums of the group
 * stay in registers (at most 4 of AVX-512, 8 of AVX2) from the first row to the last, and each row
 * is read from front to back. The alternative, which adds eight rows column by column, needs no
 * more instructions but took a fifth longer if the rows came from memory.
 *
 * Later rows are prefetched meanwhile. The prefetch goes to the second-level cache, because the
 * first level has room for only about 16 lines in flight. If the processor fetches lines in pairs
 * (`fetch_bytes` of runtime/machine/tuning.h), the prefetch requests every other line. The step is
 * a constant in each of the two variants, so that their loops can be unrolled.
 *
 * Embedding bags, forward and backward. Rows are added one by one in the given order; the backward
 * pass adds them in the order of tree_sum.h. Means are divided once per bag: after the sum, and
 * before the backward pass. FLOAT16 and BFLOAT16 rows are converted to FLOAT32 and then combined,
 * in the given order. */

#include "runtime/device/cpu/kernels/rows.h"

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/group.h"
#include "runtime/device/cpu/kernels/tree_sum.h"
#include "runtime/device/cpu/kernels/vectorize.h"
#include "runtime/machine/tuning.h"

#define WIDE 64
#define LINE 64 /* bytes */
#define PAIR_OF_LINES (2 * LINE)

/* The number of rows whose addresses are computed at once, and the bounds of the prefetch distance
 * in rows. Within these bounds, `pool_ahead_bytes` determines the distance. The values were
 * measured with rows of 16 to 1024 floats in tables of 256 MiB. */
#define WINDOW_ROWS 256
#define MAX_ROWS_AHEAD 48
#define MIN_ROWS_AHEAD 2

/* Pointers to the rows of positions [begin, end), and to the `n_ahead` rows after them, which are
 * only prefetched. */
typedef struct
{
  const TpsBags *bags;
  const gfloat *table;
  gsize begin, end;
  gsize n_ahead;
  const gfloat *rows[WINDOW_ROWS + MAX_ROWS_AHEAD];
} Window;

typedef struct
{
  const TpsBags *bags;
  TpsDType dtype;
  const guint8 *table;
  gfloat *row; /* [dim] */
} HalfPool;

/* Prefetches `n` columns of a later row, in steps of `step` bytes. */
TPS_INLINE void
prefetch_columns (const gfloat *columns, gsize n, gsize step)
{
  for (gsize byte = 0; byte < n * sizeof columns[0]; byte += step)
    __builtin_prefetch ((const guint8 *) columns + byte, 0, 2);
}

/* Adds columns [first, first + wide) of all rows. `wide` is at most WIDE. */
TPS_INLINE void
add_columns (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize n_rows,
             gsize n_ahead, gsize first, const gsize wide, gsize step)
{
  gfloat sums[WIDE];

  for (gsize d = 0; d < wide; d++)
    sums[d] = sum[first + d];
  for (gsize i = 0; i < n_rows; i++)
    {
      const gfloat *row = rows[i] + first;

      /* The prefetch also keeps gcc from merging two rows into one loop, which it would not
       * vectorise. */
      prefetch_columns (rows[i + n_ahead] + first, wide, step);
      for (gsize d = 0; d < wide; d++)
        sums[d] += weights != NULL ? weights[i] * row[d] : row[d];
    }
  for (gsize d = 0; d < wide; d++)
    sum[first + d] = sums[d];
}

TPS_INLINE void
add_last_of_4 (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize first, gsize n)
{
  const gfloat *a = rows[0] + first, *b = rows[1] + first;
  const gfloat *c = rows[2] + first, *e = rows[3] + first;
  gfloat *s = sum + first;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize d = 0; d < n; d++)
    s[d] = weights != NULL ? (((s[d] + weights[0] * a[d]) + weights[1] * b[d]) + weights[2] * c[d])
                                 + weights[3] * e[d]
                           : (((s[d] + a[d]) + b[d]) + c[d]) + e[d];
}

TPS_INLINE void
add_last_of_1 (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize first, gsize n)
{
  const gfloat *a = rows[0] + first;
  gfloat *s = sum + first;

  TPS_INDEPENDENT_ITERATIONS
  for (gsize d = 0; d < n; d++)
    s[d] += weights != NULL ? weights[0] * a[d] : a[d];
}

TPS_INLINE void
add_last_columns (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize n_rows,
                  gsize n_ahead, gsize first, gsize n, gsize step)
{
  gsize i = 0;

  for (gsize j = n_ahead; j < n_rows + n_ahead; j++)
    prefetch_columns (rows[j] + first, n, step);
  for (; i + 4 <= n_rows; i += 4)
    add_last_of_4 (sum, rows + i, weights != NULL ? weights + i : NULL, first, n);
  for (; i < n_rows; i++)
    add_last_of_1 (sum, rows + i, weights != NULL ? weights + i : NULL, first, n);
}

TPS_INLINE void
add_rows (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize n_rows,
          gsize n_ahead, gsize dim, gsize step)
{
  gsize first = 0;

  for (; first + WIDE <= dim; first += WIDE)
    add_columns (sum, rows, weights, n_rows, n_ahead, first, WIDE, step);
  if (first + WIDE / 2 <= dim)
    {
      add_columns (sum, rows, weights, n_rows, n_ahead, first, WIDE / 2, step);
      first += WIDE / 2;
    }
  if (first + WIDE / 4 <= dim)
    {
      add_columns (sum, rows, weights, n_rows, n_ahead, first, WIDE / 4, step);
      first += WIDE / 4;
    }
  if (first < dim)
    add_last_columns (sum, rows, weights, n_rows, n_ahead, first, dim - first, step);
}

TPS_TARGET_CLONES void
tps_cpu_add_rows (gfloat *sum, const gfloat *const *rows, gsize n_rows, gsize n_ahead, gsize dim)
{
  if (tps_tuning_get ()->fetch_bytes >= PAIR_OF_LINES)
    add_rows (sum, rows, NULL, n_rows, n_ahead, dim, PAIR_OF_LINES);
  else
    add_rows (sum, rows, NULL, n_rows, n_ahead, dim, LINE);
}

/* As tps_cpu_add_rows(), but adds weights[i] * rows[i][d]. Each product is rounded before it is
 * added. */
TPS_TARGET_CLONES static void
add_weighted_rows (gfloat *sum, const gfloat *const *rows, const gfloat *weights, gsize n_rows,
                   gsize n_ahead, gsize dim)
{
  if (tps_tuning_get ()->fetch_bytes >= PAIR_OF_LINES)
    add_rows (sum, rows, weights, n_rows, n_ahead, dim, PAIR_OF_LINES);
  else
    add_rows (sum, rows, weights, n_rows, n_ahead, dim, LINE);
}

static gsize
bag_count (const TpsBags *bags, gsize bag)
{
  return tps_bag_start (bags, bag + 1) - tps_bag_start (bags, bag);
}

/* Returns the bag of each position in the list of indices. The caller owns the array. */
static gsize *
bags_of_positions (const TpsBags *bags)
{
  gsize *bag_of = g_new (gsize, bags->n_indices);

  for (gsize bag = 0; bag < bags->n_bags; bag++)
    for (gsize i = tps_bag_start (bags, bag); i < tps_bag_start (bags, bag + 1); i++)
      bag_of[i] = bag;
  return bag_of;
}

static gfloat *
floats_of (TpsBuffer *buffer)
{
  return (gfloat *) (gpointer) tps_buffer_get_data (buffer);
}

TPS_TARGET_CLONES static void
add_row (gfloat *sum, const gfloat *row, gsize dim)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize d = 0; d < dim; d++)
    sum[d] += row[d];
}

TPS_TARGET_CLONES static void
add_scaled_row (gfloat *sum, const gfloat *row, gfloat weight, gsize dim)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize d = 0; d < dim; d++)
    sum[d] += weight * row[d];
}

TPS_TARGET_CLONES static void
scale_row (gfloat *product, const gfloat *row, gfloat weight, gsize dim)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize d = 0; d < dim; d++)
    product[d] = weight * row[d];
}

TPS_TARGET_CLONES static void
divide_row (gfloat *quotient, const gfloat *row, gfloat divisor, gsize dim)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize d = 0; d < dim; d++)
    quotient[d] = row[d] / divisor;
}

/* Returns pointers to the rows from position `first` on. Reduces `*n` to the number of pointers in
 * the window, which is at least 1. The next `n_ahead` pointers may be prefetched; after the last
 * index, they point to the last row. */
static const gfloat *const *
rows_from (Window *window, gsize first, gsize *n)
{
  const TpsBags *bags = window->bags;

  if (first >= window->end)
    {
      window->begin = first;
      window->end = MIN (first + WINDOW_ROWS, bags->n_indices);
      for (gsize i = first; i < window->end + window->n_ahead; i++)
        window->rows[i - first] = window->table
                                  + (gsize) bags->indices[MIN (i, bags->n_indices - 1)]
                                        * (gsize) bags->dim;
    }
  *n = MIN (*n, window->end - first);
  return window->rows + (first - window->begin);
}

static void
sum_bag (Window *window, gsize bag, gfloat *output)
{
  const TpsBags *bags = window->bags;
  gsize dim = (gsize) bags->dim;
  gsize first = tps_bag_start (bags, bag);
  gsize end = tps_bag_start (bags, bag + 1);

  for (gsize d = 0; d < dim; d++)
    output[d] = first < end ? TPS_NOTHING : 0;
  for (gsize n; first < end; first += n)
    {
      const gfloat *const *rows;

      n = end - first;
      rows = rows_from (window, first, &n);
      if (bags->weights != NULL)
        add_weighted_rows (output, rows, bags->weights + first, n, window->n_ahead, dim);
      else
        tps_cpu_add_rows (output, rows, n, window->n_ahead, dim);
    }
}

void
tps_cpu_embedding_pool (const TpsBags *bags, const gfloat *table, gfloat *output)
{
  gsize dim = (gsize) bags->dim;
  Window window;

  /* The array `rows` stays uninitialised, because most of it would be cleared for nothing. */
  window.bags = bags;
  window.table = table;
  window.begin = window.end = 0;
  window.n_ahead = CLAMP (tps_tuning_get ()->pool_ahead_bytes
                              / MAX (1, (gsize) bags->dim * sizeof table[0]),
                          MIN_ROWS_AHEAD, MAX_ROWS_AHEAD);
  for (gsize bag = 0; bag < bags->n_bags; bag++)
    {
      gfloat *pooled = output + bag * dim;

      sum_bag (&window, bag, pooled);
      if (bags->pooling == TPS_POOLING_MEAN && bag_count (bags, bag) > 0)
        divide_row (pooled, pooled, (gfloat) bag_count (bags, bag), dim);
    }
}

/* Returns, for each bag, the contribution of one index without its weight. For MEAN, this is the
 * gradient of the bag divided by its count. For other kinds it is the gradient itself, and NULL is
 * returned. */
static TpsBuffer *
divide_by_counts (const TpsBags *bags, const gfloat *output_gradient)
{
  gsize dim = (gsize) bags->dim;
  TpsBuffer *scaled;

  if (bags->pooling != TPS_POOLING_MEAN)
    return NULL;
  scaled = tps_buffer_new (bags->n_bags * dim * sizeof (gfloat));
  for (gsize bag = 0; bag < bags->n_bags; bag++)
    divide_row (floats_of (scaled) + bag * dim, output_gradient + bag * dim,
                (gfloat) MAX (1, bag_count (bags, bag)), dim);
  return scaled;
}

static void
sum_group (const TpsBags *bags, const TpsCpuGroups *groups, gsize u, const gsize *bag_of,
           const gfloat *gradient, gfloat *levels, gfloat *sum)
{
  gsize dim = (gsize) bags->dim;
  TpsTreeSum tree;

  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, dim, sum, levels, dim * sizeof sum[0]);
  for (gsize i = groups->starts[u]; i < groups->starts[u + 1]; i++)
    {
      gsize position = groups->order[i];
      const gfloat *row = gradient + bag_of[position] * dim;
      gfloat weight = bags->weights != NULL ? bags->weights[position] : 1;

      if (tps_tree_sum_next (&tree))
        scale_row (sum, row, weight, dim);
      else if (bags->weights != NULL)
        add_scaled_row (sum, row, weight, dim);
      else
        add_row (sum, row, dim);
    }
  tps_tree_sum_finish (&tree);
}

/* Returns memory for the levels of trees of at most `n_terms` terms, and for one more row. */
static TpsBuffer *
tree_room (gsize n_terms, gsize dim)
{
  return tps_buffer_new ((tps_tree_sum_levels (n_terms) + 1) * dim * sizeof (gfloat));
}

gsize
tps_cpu_embedding_backward_rows (const TpsBags *bags, const gfloat *output_gradient,
                                 gint64 *unique_indices, gfloat *row_gradients)
{
  gsize dim = (gsize) bags->dim;
  g_autoptr (TpsBuffer) scaled = NULL;
  g_autoptr (TpsCpuGroups) groups = NULL;
  g_autofree gsize *bag_of = NULL;
  g_autoptr (TpsBuffer) room = NULL;
  const gfloat *gradient;

  if (bags->n_indices == 0)
    return 0;
  scaled = divide_by_counts (bags, output_gradient);
  gradient = scaled != NULL ? floats_of (scaled) : output_gradient;
  groups = tps_cpu_groups_new (bags->indices, bags->n_indices);
  bag_of = bags_of_positions (bags);
  memcpy (unique_indices, groups->ids, groups->n_groups * sizeof unique_indices[0]);
  room = tree_room (bags->n_indices, dim);
  for (gsize u = 0; u < groups->n_groups; u++)
    sum_group (bags, groups, u, bag_of, gradient, floats_of (room), row_gradients + u * dim);
  return groups->n_groups;
}

void
tps_cpu_embedding_backward (const TpsBags *bags, const gfloat *output_gradient,
                            gfloat *table_gradient)
{
  gsize dim = (gsize) bags->dim;
  g_autoptr (TpsBuffer) scaled = divide_by_counts (bags, output_gradient);
  const gfloat *gradient = scaled != NULL ? floats_of (scaled) : output_gradient;
  g_autoptr (TpsCpuGroups) groups = NULL;
  g_autofree gsize *bag_of = NULL;
  g_autoptr (TpsBuffer) room = NULL;
  gfloat *sum;

  if (bags->rows * bags->dim > 0)
    memset (table_gradient, 0, (gsize) bags->rows * dim * sizeof table_gradient[0]);
  groups = tps_cpu_groups_new (bags->indices, bags->n_indices);
  bag_of = bags_of_positions (bags);
  room = tree_room (bags->n_indices, dim);
  sum = floats_of (room);
  for (gsize u = 0; u < groups->n_groups; u++)
    {
      sum_group (bags, groups, u, bag_of, gradient, sum + dim, sum);
      add_row (table_gradient + (gsize) groups->ids[u] * dim, sum, dim); /* which is 0 */
    }
}

static void
sum_half_bag (const HalfPool *pool, gsize first, gsize end, gfloat *output)
{
  gsize dim = (gsize) pool->bags->dim;
  const gfloat *row = pool->row;

  for (gsize d = 0; d < dim; d++)
    output[d] = first < end ? TPS_NOTHING : 0;
  for (gsize i = first; i < end; i++)
    {
      tps_cpu_cast (
          TPS_DTYPE_FLOAT32, pool->row, pool->dtype,
          pool->table + (gsize) pool->bags->indices[i] * dim * tps_dtype_size (pool->dtype), dim);
      if (pool->bags->weights != NULL)
        add_weighted_rows (output, &row, pool->bags->weights + i, 1, 0, dim);
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
  HalfPool pool = { bags, dtype, table, (gfloat *) (gpointer) tps_buffer_get_data (row) };

  for (gsize bag = 0; bag < bags->n_bags; bag++)
    {
      gsize first = tps_bag_start (bags, bag), end = tps_bag_start (bags, bag + 1);
      gfloat *pooled = output + bag * dim;

      sum_half_bag (&pool, first, end, pooled);
      if (bags->pooling == TPS_POOLING_MEAN && first < end)
        tps_cpu_divide (TPS_DTYPE_FLOAT32, pooled, pooled, (gfloat) (end - first), dim);
    }
}
