/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* While a FLOAT32 table has no writer, its bags are pooled in place, about TPS_TABLE_QUIET_BYTES at
 * a time. Otherwise the rows of a few bags are copied to a stage, which fits into the first-level
 * cache, and the bags are pooled there. Each copy is a row as it was between two updates. A bag
 * that is larger than the stage is pooled in parts. The first row of each later part is the result
 * of the previous parts.
 */

#include "runtime/server/tables/host/bag_pool.h"

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/kernels/rows.h"

/* The maximum numbers of rows and bags that are pooled in place at a time: pool_in_place() has
 * arrays of these sizes on the stack. */
#define MAX_QUIET_ROWS 1024
#define MAX_QUIET_BAGS 1024

#define STAGE_BYTES (16 << 10)
#define MIN_STAGE_ROWS 8
#define MAX_STAGE_ROWS 256
#define MAX_STAGE_BAGS 256

/* Rows with at most MAX_NARROW_DIM columns have their stage on the stack. The stage of rows with
 * more than MAX_WIDE_DIM columns holds two rows: the previous result and the next row. */
#define MAX_NARROW_DIM ((gsize) (STAGE_BYTES / MIN_STAGE_ROWS / sizeof (gfloat)))
#define MAX_WIDE_DIM ((gsize) 4096)
#define MIN_WIDE_STAGE_ROWS 2

typedef struct
{
  const TpsTableBags *bags;
  gsize dim;
  gsize capacity;                 /* rows */
  gfloat *rows;                   /* [capacity, dim] */
  guint8 *raw;                    /* the rows in the table's dtype; `rows` if it is FLOAT32 */
  gint64 numbers[MAX_STAGE_ROWS]; /* 0, 1, ... */
  gint64 offsets[MAX_STAGE_BAGS];
  gfloat weights[MAX_STAGE_ROWS]; /* of a part */
  _Alignas(64) guint8 narrow[2 * STAGE_BYTES];
} Stage;

static gsize
stage_rows (gsize dim)
{
  if (dim > MAX_WIDE_DIM)
    return MIN_WIDE_STAGE_ROWS;
  return CLAMP (STAGE_BYTES / (dim * sizeof (gfloat)), MIN_STAGE_ROWS, MAX_STAGE_ROWS);
}

gsize
tps_table_pool_get_stage_bytes (const TpsTable *table)
{
  gsize n_copies = table->spec.dtype == TPS_DTYPE_FLOAT32 ? 1 : 2;

  if (table->dim <= MAX_NARROW_DIM)
    return 0;
  return n_copies * stage_rows (table->dim) * sizeof (gfloat) * table->dim;
}

static void
stage_init (Stage *stage, const TpsTableBags *bags, gpointer memory)
{
  gsize dim = bags->table->dim;
  gsize rows_bytes = stage_rows (dim) * dim * sizeof (gfloat);
  guint8 *rows = memory != NULL ? memory : stage->narrow;

  stage->bags = bags;
  stage->dim = dim;
  stage->capacity = stage_rows (dim);
  stage->rows = (gfloat *) (gpointer) rows;
  stage->raw = bags->table->spec.dtype == TPS_DTYPE_FLOAT32 ? rows : rows + rows_bytes;
  for (gsize i = 0; i < stage->capacity; i++)
    stage->numbers[i] = (gint64) i;
}

/* Copies the rows of indices [first, first + n) to rows [to, to + n) of the stage. */
static void
stage_fill (Stage *stage, gsize first, gsize n, gsize to)
{
  const TpsTableBags *bags = stage->bags;
  TpsTable *table = bags->table;
  guint8 *raw = stage->raw + to * table->row_bytes;

  tps_table_read_rows (table, bags->slots + first, bags->base, n, bags->n_indices - first - n, raw);
  if (table->spec.dtype != TPS_DTYPE_FLOAT32)
    tps_cpu_cast (TPS_DTYPE_FLOAT32, stage->rows + to * stage->dim, table->spec.dtype, raw,
                  n * stage->dim);
}

/* Pools rows [0, n_rows) of the stage. The stage's offsets must have been set. */
static void
stage_pool (Stage *stage, gsize n_rows, gsize n_bags, const gfloat *weights, TpsPooling pooling,
            gfloat *output)
{
  TpsBags bags = {
    .rows = (gint64) n_rows,
    .dim = (gint64) stage->dim,
    .indices = stage->numbers,
    .n_indices = n_rows,
    .offsets = stage->offsets,
    .n_bags = n_bags,
    .weights = weights,
    .pooling = pooling,
  };

  tps_cpu_embedding_pool (&bags, stage->rows, output);
}

static gsize
bag_start (const TpsTableBags *bags, gsize bag)
{
  return bag == bags->n_bags ? bags->n_indices : (gsize) bags->offsets[bag];
}

/* -- whole bags -- */

/* Sets the offsets of as many bags from `begin` on as fit into the stage, and returns their number.
 * Returns 0 if the first bag is larger than the stage. */
static gsize
take_bags (Stage *stage, gsize begin, gsize end)
{
  gsize first = bag_start (stage->bags, begin);
  gsize n_bags = 0;

  while (n_bags < MAX_STAGE_BAGS && begin + n_bags < end
         && bag_start (stage->bags, begin + n_bags + 1) - first <= stage->capacity)
    {
      stage->offsets[n_bags] = (gint64) (bag_start (stage->bags, begin + n_bags) - first);
      n_bags++;
    }
  return n_bags;
}

static void
pool_whole_bags (Stage *stage, gsize begin, gsize n_bags, gfloat *output)
{
  const TpsTableBags *bags = stage->bags;
  gsize first = bag_start (bags, begin);
  gsize n_rows = bag_start (bags, begin + n_bags) - first;

  stage_fill (stage, first, n_rows, 0);
  stage_pool (stage, n_rows, n_bags, bags->weights != NULL ? bags->weights + first : NULL,
              bags->pooling, output);
}

/* -- a bag in parts -- */

/* Returns the weights of the rows of a part. The previous result, row 0 of a later part, has weight
 * 1. */
static const gfloat *
part_weights (Stage *stage, gsize first, gsize n, gboolean is_first)
{
  if (stage->bags->weights == NULL)
    return NULL;
  if (is_first)
    return stage->bags->weights + first;
  stage->weights[0] = 1;
  memcpy (stage->weights + 1, stage->bags->weights + first, n * sizeof stage->weights[0]);
  return stage->weights;
}

static void
pool_in_parts (Stage *stage, gsize bag, gfloat *output)
{
  const TpsTableBags *bags = stage->bags;
  gsize begin = bag_start (bags, bag);
  gsize end = bag_start (bags, bag + 1);
  gsize n;

  stage->offsets[0] = 0;
  for (gsize first = begin; first < end; first += n)
    {
      gboolean is_first = first == begin;
      gsize n_before = is_first ? 0 : 1;

      n = MIN (end - first, stage->capacity - n_before);
      if (!is_first)
        memcpy (stage->rows, output, stage->dim * sizeof output[0]);
      stage_fill (stage, first, n, n_before);
      stage_pool (stage, n_before + n, 1, part_weights (stage, first, n, is_first), TPS_POOLING_SUM,
                  output);
    }
  if (bags->pooling == TPS_POOLING_MEAN)
    tps_cpu_divide (TPS_DTYPE_FLOAT32, output, output, (gfloat) (end - begin), stage->dim);
}

/* Pools copies of the rows: as many bags at a time as fit into the stage, or one larger bag in
 * parts. */
static void
pool_staged (const TpsTableBags *bags, gsize begin, gsize end, gfloat *output, gpointer memory)
{
  gsize dim = bags->table->dim;
  Stage stage;

  stage_init (&stage, bags, memory);
  for (gsize bag = begin, n_bags; bag < end; bag += n_bags)
    {
      gfloat *pooled = output + (bag - begin) * dim;

      n_bags = take_bags (&stage, bag, end);
      if (n_bags > 0)
        {
          pool_whole_bags (&stage, bag, n_bags, pooled);
          continue;
        }
      pool_in_parts (&stage, bag, pooled);
      n_bags = 1;
    }
}

/* -- bags in place -- */

/* Returns the number of bags from `begin` on that one quiet read may cover; 0 if the first bag is
 * too large. */
static gsize
count_quiet_bags (const TpsTableBags *bags, gsize begin, gsize end)
{
  gsize capacity = CLAMP (TPS_TABLE_QUIET_BYTES / bags->table->row_bytes, MIN_STAGE_ROWS,
                          MAX_QUIET_ROWS);
  gsize first = bag_start (bags, begin);
  gsize n_bags = 0;

  while (n_bags < MAX_QUIET_BAGS && begin + n_bags < end
         && bag_start (bags, begin + n_bags + 1) - first <= capacity)
    n_bags++;
  return n_bags;
}

/* Must be called in a quiet read, with the number of bags from count_quiet_bags(). */
static void
pool_in_place (const TpsTableBags *bags, gsize begin, gsize n_bags, gfloat *output)
{
  gsize first = bag_start (bags, begin);
  gsize n_rows = bag_start (bags, begin + n_bags) - first;
  gint64 numbers[MAX_QUIET_ROWS];
  gint64 offsets[MAX_QUIET_BAGS];
  TpsBags in_place = {
    .rows = bags->table->spec.shard.n_rows,
    .dim = (gint64) bags->table->dim,
    .indices = bags->slots + first,
    .n_indices = n_rows,
    .offsets = offsets,
    .n_bags = n_bags,
    .weights = bags->weights != NULL ? bags->weights + first : NULL,
    .pooling = bags->pooling,
  };

  for (gsize bag = 0; bag < n_bags; bag++)
    offsets[bag] = bags->offsets[begin + bag] - (gint64) first;
  if (bags->base != 0)
    {
      for (gsize i = 0; i < n_rows; i++)
        numbers[i] = bags->slots[first + i] - bags->base;
      in_place.indices = numbers;
    }
  tps_cpu_embedding_pool (&in_place, (const gfloat *) (gconstpointer) bags->table->rows, output);
}

void
tps_table_pool_bags (const TpsTableBags *bags, gsize begin, gsize end, gfloat *output,
                     gpointer stage)
{
  TpsTable *table = bags->table;

  for (gsize bag = begin, n_bags; bag < end; bag += n_bags)
    {
      gfloat *pooled = output + (bag - begin) * table->dim;

      n_bags = count_quiet_bags (bags, bag, end);
      if (n_bags > 0 && table->spec.dtype == TPS_DTYPE_FLOAT32
          && tps_table_begin_quiet_read (table))
        {
          pool_in_place (bags, bag, n_bags, pooled);
          tps_table_end_quiet_read (table);
          continue;
        }
      n_bags = MAX (n_bags, 1);
      pool_staged (bags, bag, bag + n_bags, pooled, stage);
    }
}
