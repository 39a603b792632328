/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A dense fold visits its data block by block. For each item, in order, it hashes the item's block
 * (if a digest is needed), and adds it to the block of the sum. After the last item of the last
 * fold, it divides the block of the sum. Each byte of a gradient is thus read from memory once,
 * while the block of the sum stays in the cache. A new sum begins as the sum of the first two
 * items, which saves a copy of the first item.
 *
 * A sum of sparse gradients has rows in ascending order of their ids, each id once. A row of the
 * sum is the sum, in the order of the folds, of the gradients that contain the row; other gradients
 * leave the row unchanged (zero is not added). A first pass counts the rows of the union, and a
 * second pass merges the rows. There are two shortcuts: the first gradient becomes the sum in place
 * if possible, and a gradient without new rows is added in place. */

#include "runtime/server/averaging/reduction.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/machine/tuning.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/device_memory.h"

typedef struct
{
  gint64 id;
  gint64 position; /* of the row in the gradient */
} Row;

/* A gradient's rows in ascending order of (id, position). */
typedef struct
{
  const gint64 *ids;
  const guint8 *values;
  Row *sorted; /* NULL = `ids` are strictly ascending */
  gint64 n_rows;
  gsize dim;
  gsize row_bytes;
  gsize sum_row_bytes;
  TpsDType dtype;
  TpsDType sum_dtype;
  gdouble weight;
  gpointer scratch;  /* one row of the sum's type; NULL if `sorted` is NULL */
  TpsBuffer *memory; /* of `sorted` and `scratch` */
} Rows;

typedef struct
{
  gsize offset; /* in elements */
  gsize n_elems;
  guint index;
} Block;

static gint64
id_at (const Rows *rows, gint64 i)
{
  return rows->sorted == NULL ? rows->ids[i] : rows->sorted[i].id;
}

static const guint8 *
values_at (const Rows *rows, gint64 i)
{
  gint64 position = rows->sorted == NULL ? i : rows->sorted[i].position;

  return rows->values + (gsize) position * rows->row_bytes;
}

static gboolean
ascends_strictly (const gint64 *ids, gint64 n_ids)
{
  for (gint64 i = 1; i < n_ids; i++)
    if (ids[i] <= ids[i - 1])
      return FALSE;
  return TRUE;
}

/* Equal ids are compared by position, because qsort() is not stable. */
static int
compare_rows (const void *a, const void *b)
{
  const Row *left = a;
  const Row *right = b;

  if (left->id != right->id)
    return left->id < right->id ? -1 : 1;
  return left->position < right->position ? -1 : 1;
}

static gboolean
sort_rows (Rows *rows, TpsBufferPool *buffers, GError **error)
{
  gsize n_rows = (gsize) rows->n_rows;

  rows->memory = tps_buffer_pool_get (buffers, n_rows * sizeof (Row) + rows->sum_row_bytes, error);
  if (rows->memory == NULL)
    {
      g_prefix_error (error, "no memory to sort %" G_GSIZE_FORMAT " rows: ", n_rows);
      return FALSE;
    }
  rows->sorted = (Row *) (gpointer) tps_buffer_get_data (rows->memory);
  rows->scratch = rows->sorted + n_rows;
  for (gint64 i = 0; i < rows->n_rows; i++)
    rows->sorted[i] = (Row) { .id = rows->ids[i], .position = i };
  qsort (rows->sorted, n_rows, sizeof *rows->sorted, compare_rows);
  return TRUE;
}

static gboolean
rows_init (Rows *rows, const TpsGradient *gradient, TpsBufferPool *buffers, GError **error)
{
  TpsDType dtype = gradient->values.shape.dtype;

  *rows = (Rows) {
    .ids = tps_tensor_data (&gradient->indices),
    .values = tps_tensor_data (&gradient->values),
    .n_rows = gradient->values.shape.dims[0],
    .dim = (gsize) gradient->values.shape.dims[1],
    .dtype = dtype,
    .sum_dtype = tps_cpu_sum_dtype (dtype),
    .weight = gradient->weight,
  };
  rows->row_bytes = rows->dim * tps_dtype_size (dtype);
  rows->sum_row_bytes = rows->dim * tps_dtype_size (rows->sum_dtype);
  return ascends_strictly (rows->ids, rows->n_rows) || sort_rows (rows, buffers, error);
}

static gint64
end_of_group (const Rows *rows, gint64 i)
{
  gint64 end = i + 1;

  while (rows->sorted != NULL && end < rows->n_rows && rows->sorted[end].id == rows->sorted[i].id)
    end++;
  return end;
}

/* Adds rows [begin, end), which have the same id, to `row` of the sum. If `is_new` is TRUE, sets
 * `row` instead. */
static void
add_group (const Rows *rows, gint64 begin, gint64 end, gpointer row, gboolean is_new)
{
  gconstpointer values = values_at (rows, begin);
  TpsDType dtype = rows->dtype;

  if (end - begin > 1)
    {
      tps_cpu_cast (rows->sum_dtype, rows->scratch, dtype, values, rows->dim);
      for (gint64 i = begin + 1; i < end; i++)
        tps_cpu_accumulate (dtype, rows->scratch, values_at (rows, i), rows->dim);
      values = rows->scratch;
      dtype = rows->sum_dtype;
    }
  if (is_new)
    tps_cpu_scale (dtype, row, values, rows->weight, rows->dim);
  else
    tps_cpu_scale_accumulate (dtype, row, values, rows->weight, rows->dim);
}

static gint64
count_union (const gint64 *sum_ids, gint64 n_sum, const Rows *rows)
{
  gint64 n_union = 0;
  gint64 s = 0;

  for (gint64 i = 0; i < rows->n_rows; i = end_of_group (rows, i), n_union++)
    {
      gint64 id = id_at (rows, i);

      for (; s < n_sum && sum_ids[s] < id; s++)
        n_union++;
      if (s < n_sum && sum_ids[s] == id)
        s++;
    }
  return n_union + (n_sum - s);
}

static void
add_in_place (TpsGradient *sum, const Rows *rows)
{
  const gint64 *sum_ids = tps_tensor_data (&sum->indices);
  guint8 *row = tps_tensor_data (&sum->values);
  gint64 s = 0;

  for (gint64 i = 0, end; i < rows->n_rows; i = end)
    {
      end = end_of_group (rows, i);
      while (sum_ids[s] != id_at (rows, i))
        s++;
      add_group (rows, i, end, row + (gsize) s * rows->sum_row_bytes, FALSE);
    }
}

/* Writes the union of `sum` and `rows` to `ids` and `values`, which must have room for it. */
static void
write_union (const TpsGradient *sum, gint64 n_sum, const Rows *rows, gint64 *ids, guint8 *values)
{
  const gint64 *sum_ids = tps_tensor_data (&sum->indices);
  const guint8 *sum_values = tps_tensor_data (&sum->values);
  gsize row_bytes = rows->sum_row_bytes;
  gint64 s = 0;
  gint64 i = 0;

  for (; s < n_sum || i < rows->n_rows; ids++, values += row_bytes)
    {
      gboolean from_sum = s < n_sum && (i == rows->n_rows || sum_ids[s] <= id_at (rows, i));
      gboolean from_rows = i < rows->n_rows && (s == n_sum || id_at (rows, i) <= sum_ids[s]);
      gint64 end = from_rows ? end_of_group (rows, i) : i;

      *ids = from_sum ? sum_ids[s] : id_at (rows, i);
      if (from_sum && row_bytes > 0)
        memcpy (values, sum_values + (gsize) s * row_bytes, row_bytes);
      if (from_rows)
        add_group (rows, i, end, values, !from_sum);
      s += from_sum;
      i = end;
    }
}

static gboolean
allocate_sum (TpsTensor *tensor, const TpsShape *shape, TpsBufferPool *buffers, GError **error)
{
  gsize n_bytes = tps_shape_n_bytes (shape);
  TpsBuffer *buffer = tps_buffer_pool_get (buffers, n_bytes, error);

  if (buffer == NULL)
    {
      g_prefix_error (error, "no memory for a sum of %" G_GSIZE_FORMAT " bytes: ", n_bytes);
      return FALSE;
    }
  tps_tensor_init_take (tensor, shape, buffer, 0);
  return TRUE;
}

static gboolean
grow_sparse_sum (TpsGradient *sum, gint64 n_sum, gint64 n_union, const Rows *rows,
                 TpsBufferPool *buffers, GError **error)
{
  TpsShape ids_shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { n_union } };
  TpsShape values_shape = { .dtype = rows->sum_dtype,
                            .n_dims = 2,
                            .dims = { n_union, (gint64) rows->dim } };
  g_auto (TpsTensor) ids = { 0 };
  g_auto (TpsTensor) values = { 0 };

  if (!allocate_sum (&ids, &ids_shape, buffers, error)
      || !allocate_sum (&values, &values_shape, buffers, error))
    return FALSE;
  write_union (sum, n_sum, rows, tps_tensor_data (&ids), tps_tensor_data (&values));
  tps_tensor_move (&sum->indices, &ids);
  tps_tensor_move (&sum->values, &values);
  return TRUE;
}

static gboolean
begin_sparse_sum (TpsGradient *sum, TpsGradient *gradient, const Rows *rows, TpsBufferPool *buffers,
                  GError **error)
{
  if (rows->sorted == NULL && rows->dtype == rows->sum_dtype && gradient->weight == 1
      && gradient->values.buffer != NULL && tps_buffer_is_exclusive (gradient->values.buffer))
    {
      tps_tensor_move (&sum->indices, &gradient->indices);
      tps_tensor_move (&sum->values, &gradient->values);
    }
  else if (!grow_sparse_sum (sum, 0, count_union (NULL, 0, rows), rows, buffers, error))
    return FALSE;
  sum->kind = TPS_GRADIENT_SPARSE;
  sum->rows = gradient->rows;
  return TRUE;
}

static gboolean
add_rows (TpsGradient *sum, const Rows *rows, TpsBufferPool *buffers, GError **error)
{
  gint64 n_sum = sum->indices.shape.dims[0];
  gint64 n_union = count_union (tps_tensor_data (&sum->indices), n_sum, rows);

  if (n_union > n_sum)
    return grow_sparse_sum (sum, n_sum, n_union, rows, buffers, error);
  add_in_place (sum, rows);
  return TRUE;
}

/* sum += weight * gradient. `sum` must be TPS_GRADIENT_NONE before the first call. It then is
 * sparse, with values of the type in which the gradients' dtype is added up; the elements of `sum`
 * must have no other owner. If an unsorted gradient repeats rows, these are combined first, in
 * their given order. May take over the memory of `gradient`; the caller must clear `gradient` in
 * any case. New memory comes from `buffers`. Errors: TPS_ERROR_RESOURCE_EXHAUSTED. Thread: one at a
 * time for each sum. */
static gboolean
add_sparse (TpsGradient *sum, TpsGradient *gradient, TpsBufferPool *buffers, GError **error)
{
  gboolean ok;
  Rows rows;

  if (!rows_init (&rows, gradient, buffers, error))
    return FALSE;
  ok = sum->kind == TPS_GRADIENT_NONE ? begin_sparse_sum (sum, gradient, &rows, buffers, error)
                                      : add_rows (sum, &rows, buffers, error);
  g_clear_pointer (&rows.memory, tps_buffer_unref);
  return ok;
}

void
tps_reduction_init (TpsReduction *reduction, gboolean is_sum, TpsBufferPool *buffers)
{
  *reduction = (TpsReduction) {
    .is_sum = is_sum,
    .buffers = buffers != NULL ? buffers : tps_buffer_pool_get_default (),
  };
}

void
tps_reduction_clear (TpsReduction *reduction)
{
  tps_gradient_clear (&reduction->sum);
  g_clear_pointer (&reduction->device_sum, tps_device_sum_free);
}

/* Returns TRUE if the elements of the item contribute to the sum. */
static gboolean
has_share (const TpsFoldItem *item)
{
  return item->gradient.kind != TPS_GRADIENT_NONE && item->gradient.weight > 0;
}

/* Returns TRUE if the elements are in the device's memory, where the host cannot read them. */
static gboolean
is_there (const TpsFoldItem *item)
{
  return tps_device_memory_of_tensor (&item->gradient.dense) != NULL;
}

/* Returns TRUE if the gradients of the fold are dense, and sets `shape` to their shape. */
static gboolean
find_dense_shape (const TpsFold *fold, TpsShape *shape)
{
  const TpsGradient *dense = &fold->reduction->sum;

  for (guint i = 0; i < fold->n_items && dense->kind != TPS_GRADIENT_DENSE; i++)
    dense = &fold->items[i]->gradient;
  if (dense->kind != TPS_GRADIENT_DENSE)
    return FALSE;
  *shape = dense->dense.shape;
  shape->dtype = fold->reduction->dtype; /* the dtype of a sum may be wider */
  return TRUE;
}

/* Returns TRUE if the elements of the gradient can become the sum in place: the gradient must have
 * weight 1, the sum's type and no other owner. */
static gboolean
can_adopt (const TpsGradient *gradient)
{
  TpsDType dtype = gradient->dense.shape.dtype;

  return gradient->weight == 1 && tps_cpu_sum_dtype (dtype) == dtype
         && gradient->dense.buffer != NULL && tps_buffer_is_exclusive (gradient->dense.buffer);
}

gboolean
tps_reduction_gains_by_waiting (const TpsReduction *reduction, const TpsFoldItem *item)
{
  return reduction->on_device == NULL && reduction->sum.kind == TPS_GRADIENT_NONE
         && item->gradient.kind == TPS_GRADIENT_DENSE && has_share (item)
         && !can_adopt (&item->gradient);
}

static TpsBufferPool *
choose_pool (const TpsReduction *reduction, const TpsGradient *gradient)
{
  const TpsBuffer *buffer = gradient->dense.buffer;

  return reduction->shared_buffers != NULL && buffer != NULL && tps_buffer_is_shared (buffer)
             ? reduction->shared_buffers
             : reduction->buffers;
}

/* Provides memory for the sum, or takes over the memory of the first gradient. */
static gboolean
begin_dense_sum (TpsFold *fold, GError **error)
{
  TpsReduction *reduction = fold->reduction;
  TpsGradient *first = &fold->items[fold->first]->gradient;
  TpsShape shape = first->dense.shape;
  TpsBufferPool *pool;

  shape.dtype = tps_cpu_sum_dtype (shape.dtype);
  /* Only a sum of the gradients' type becomes the average. */
  pool = shape.dtype == reduction->dtype ? choose_pool (reduction, first) : reduction->buffers;
  /* A small buffer must not become the sum: it stays charged to its request, which the average
   * outlives. */
  fold->is_adopted = can_adopt (first)
                     && tps_buffer_get_size (first->dense.buffer) >= TPS_BUFFER_MAX_SMALL;
  if (fold->is_adopted)
    tps_tensor_init_ref (&reduction->sum.dense, &first->dense);
  else if (!allocate_sum (&reduction->sum.dense, &shape, pool, error))
    return FALSE;
  reduction->sum.kind = TPS_GRADIENT_DENSE;
  return TRUE;
}

/* Begins a sum on the device. The reduction keeps only the shape of the sum. */
static gboolean
begin_device_sum (TpsFold *fold, GError **error)
{
  TpsReduction *reduction = fold->reduction;

  reduction->device_sum = tps_device_sum_new (reduction->on_device, reduction->dtype,
                                              (gsize) tps_shape_n_elems (&fold->shape), error);
  if (reduction->device_sum == NULL)
    return FALSE;
  reduction->sum.kind = TPS_GRADIENT_DENSE;
  reduction->sum.dense.shape = fold->shape;
  return TRUE;
}

/* Returns TRUE if the average needs separate host memory: the sum has a wider type, or it is on the
 * device although a gradient came from host memory. */
static gboolean
needs_output (const TpsFold *fold)
{
  const TpsReduction *reduction = fold->reduction;

  if (fold->average == NULL)
    return FALSE;
  return reduction->device_sum != NULL ? reduction->has_host_share
                                       : reduction->sum.dense.shape.dtype != reduction->dtype;
}

static gboolean
begin_dense (TpsFold *fold, GError **error)
{
  TpsReduction *reduction = fold->reduction;
  gboolean has_sum = reduction->sum.kind != TPS_GRADIENT_NONE;

  fold->n_blocks = MAX (1, tps_digest_n_blocks (tps_shape_n_bytes (&fold->shape)));
  if (!has_sum && fold->first < fold->n_items
      && !(reduction->on_device != NULL ? begin_device_sum : begin_dense_sum) (fold, error))
    return FALSE;
  if (needs_output (fold)
      && !allocate_sum (&fold->output, &fold->shape,
                        choose_pool (reduction, &fold->items[0]->gradient), error))
    return FALSE;
  fold->hashes = g_new0 (TpsDigest *, fold->n_items);
  for (guint i = 0; i < fold->n_items; i++)
    if (!fold->items[i]->has_digest && fold->items[i]->gradient.kind == TPS_GRADIENT_DENSE
        && !is_there (fold->items[i]))
      fold->hashes[i] = g_new (TpsDigest, fold->n_blocks);
  return TRUE;
}

static void
release (TpsFold *fold)
{
  for (guint i = 0; i < fold->n_items; i++)
    {
      tps_gradient_clear (&fold->items[i]->gradient);
      if (fold->hashes != NULL)
        g_free (fold->hashes[i]);
    }
  g_clear_pointer (&fold->hashes, g_free);
  tps_tensor_clear (&fold->output);
}

static void
survey_items (TpsFold *fold)
{
  TpsReduction *reduction = fold->reduction;

  fold->first = fold->n_items;
  for (guint i = 0; i < fold->n_items; i++)
    {
      const TpsGradient *gradient = &fold->items[i]->gradient;

      reduction->divisor += gradient->weight;
      if (gradient->kind == TPS_GRADIENT_DENSE)
        reduction->dtype = gradient->dense.shape.dtype;
      if (gradient->kind == TPS_GRADIENT_SPARSE)
        reduction->dtype = gradient->values.shape.dtype;
      reduction->has_host_share |= has_share (fold->items[i]) && !is_there (fold->items[i]);
      if (reduction->sum.kind == TPS_GRADIENT_NONE && fold->first == fold->n_items
          && has_share (fold->items[i]))
        fold->first = i;
    }
}

/* Checks the sum of the weights. The sum is the divisor of a mean, so it must then be in the range
 * of FLOAT32. */
static gboolean
check_divisor (const TpsReduction *reduction, GError **error)
{
  if (!(reduction->divisor > 0))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "gradient.weight is 0 for every trainer of the round, expected one above 0");
  if (!reduction->is_sum && reduction->divisor > FLT_MAX)
    return tps_fail (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "gradient.weight: the weights of the round add up to %g, which exceeds FLOAT32",
        reduction->divisor);
  return TRUE;
}

gboolean
tps_fold_begin (TpsFold *fold, TpsReduction *reduction, TpsFoldItem **items, guint n_items,
                TpsGradient *average, GError **error)
{
  *fold = (TpsFold) {
    .reduction = reduction, .items = items, .n_items = n_items, .average = average, .n_blocks = 1
  };
  survey_items (fold);
  if (average != NULL && !check_divisor (reduction, error))
    {
      release (fold);
      return FALSE;
    }
  fold->is_dense = find_dense_shape (fold, &fold->shape);
  if (!fold->is_dense || begin_dense (fold, error))
    return TRUE;
  release (fold);
  return FALSE;
}

static guint8 *
block_of (const TpsTensor *tensor, const Block *block)
{
  guint8 *data = tps_tensor_data (tensor);

  return data == NULL ? NULL : data + block->offset * tps_dtype_size (tensor->shape.dtype);
}

static void
add_item (TpsFold *fold, const TpsFoldItem *first, const TpsFoldItem *item, const Block *block)
{
  TpsDType dtype = fold->reduction->dtype;
  guint8 *sum = block_of (&fold->reduction->sum.dense, block);
  const guint8 *data = block_of (&item->gradient.dense, block);

  if (first != NULL && first->gradient.weight == 1 && item->gradient.weight == 1)
    {
      tps_cpu_add (dtype, sum, block_of (&first->gradient.dense, block), data, block->n_elems);
      return;
    }
  if (first != NULL)
    tps_cpu_scale (dtype, sum, block_of (&first->gradient.dense, block), first->gradient.weight,
                   block->n_elems);
  tps_cpu_scale_accumulate (dtype, sum, data, item->gradient.weight, block->n_elems);
}

/* Hashes the block of each item and adds it to the sum, in order. */
static void
visit_items (TpsFold *fold, const Block *block)
{
  const TpsFoldItem *first = NULL; /* begins the sum, but has not been added yet */

  for (guint i = 0; i < fold->n_items; i++)
    {
      const TpsFoldItem *item = fold->items[i];

      if (item->gradient.kind != TPS_GRADIENT_DENSE)
        continue;
      if (fold->hashes[i] != NULL)
        fold->hashes[i][block->index] = tps_digest_of_block (
            block_of (&fold->items[i]->gradient.dense, block),
            block->n_elems * tps_dtype_size (fold->reduction->dtype));
      if (!has_share (item) || fold->reduction->device_sum != NULL
          || (i == fold->first && fold->is_adopted))
        continue;
      if (i == fold->first)
        {
          first = item;
          continue;
        }
      add_item (fold, first, item, block);
      first = NULL;
    }
  if (first != NULL)
    tps_cpu_scale (fold->reduction->dtype, block_of (&fold->reduction->sum.dense, block),
                   block_of (&first->gradient.dense, block), first->gradient.weight,
                   block->n_elems);
}

static gdouble
get_divisor (const TpsReduction *reduction)
{
  return reduction->is_sum ? 1 : reduction->divisor;
}

static void
visit_block (TpsFold *fold, const Block *block)
{
  const TpsReduction *reduction = fold->reduction;
  gboolean has_output = !tps_tensor_is_empty (&fold->output);
  guint8 *sum;

  visit_items (fold, block);
  if (fold->average == NULL || reduction->device_sum != NULL
      || (get_divisor (reduction) == 1 && !has_output))
    return;
  sum = block_of (&reduction->sum.dense, block);
  tps_cpu_divide (reduction->dtype, has_output ? block_of (&fold->output, block) : sum, sum,
                  get_divisor (reduction), block->n_elems);
}

void
tps_fold_run (TpsFold *fold, guint first_block, guint n_blocks)
{
  gsize n_elems, block_elems;

  if (!fold->is_dense)
    return;
  n_elems = (gsize) tps_shape_n_elems (&fold->shape);
  block_elems = tps_tuning_get ()->digest_block_bytes / tps_dtype_size (fold->reduction->dtype);
  for (guint i = first_block; i < first_block + n_blocks; i++)
    {
      Block block = { .offset = i * block_elems, .index = i };

      block.n_elems = MIN (block_elems, n_elems - MIN (n_elems, block.offset));
      if (block.n_elems > 0)
        visit_block (fold, &block);
    }
}

static void
give_digests (TpsFold *fold)
{
  for (guint i = 0; i < fold->n_items; i++)
    {
      TpsFoldItem *item = fold->items[i];

      if (item->has_digest)
        continue;
      if (fold->hashes != NULL && fold->hashes[i] != NULL)
        item->digest = tps_digest_combine (
            &item->gradient, fold->hashes[i],
            tps_digest_n_blocks (tps_shape_n_bytes (&item->gradient.dense.shape)));
      else
        item->digest = tps_digest_of_gradient (&item->gradient);
      item->has_digest = TRUE;
    }
}

static gboolean
fold_sparse (TpsFold *fold, GError **error)
{
  TpsReduction *reduction = fold->reduction;

  for (guint i = 0; i < fold->n_items; i++)
    if (fold->items[i]->gradient.kind == TPS_GRADIENT_SPARSE && has_share (fold->items[i])
        && !add_sparse (&reduction->sum, &fold->items[i]->gradient, reduction->buffers, error))
      return FALSE;
  return TRUE;
}

static gboolean
finish_sparse (TpsFold *fold, GError **error)
{
  TpsReduction *reduction = fold->reduction;
  TpsTensor *sum = &reduction->sum.values;
  TpsShape shape = sum->shape;
  gsize n_elems = (gsize) tps_shape_n_elems (&shape);
  g_auto (TpsTensor) values = { 0 };

  shape.dtype = reduction->dtype;
  if (shape.dtype == sum->shape.dtype)
    tps_tensor_move (&values, sum);
  else if (!allocate_sum (&values, &shape, reduction->buffers, error))
    return FALSE;
  if (!tps_tensor_is_empty (sum))
    tps_cpu_divide (shape.dtype, tps_tensor_data (&values), tps_tensor_data (sum),
                    get_divisor (reduction), n_elems);
  else if (get_divisor (reduction) != 1)
    tps_cpu_divide (shape.dtype, tps_tensor_data (&values), tps_tensor_data (&values),
                    get_divisor (reduction), n_elems);
  tps_tensor_move (&reduction->sum.values, &values);
  return TRUE;
}

/* Computes the average in the device's memory, where it stays: no gradient came from host
 * memory. */
static gboolean
average_there (TpsFold *fold, TpsDeviceSum *sum, GError **error)
{
  TpsBuffer *average = tps_device_sum_average_there (sum, get_divisor (fold->reduction), error);

  if (average != NULL)
    tps_tensor_init_take (&fold->output, &fold->shape, average, 0);
  return average != NULL;
}

/* Adds the items to the sum on the device. tps_fold_run() has only hashed them. */
static gboolean
end_on_device (TpsFold *fold, GError **error)
{
  TpsReduction *reduction = fold->reduction;
  g_autoptr (TpsDeviceSum) sum = NULL;

  for (guint i = 0; i < fold->n_items; i++)
    if (has_share (fold->items[i]))
      (is_there (fold->items[i]) ? tps_device_sum_add_there : tps_device_sum_add) (
          reduction->device_sum, tps_tensor_data (&fold->items[i]->gradient.dense),
          fold->items[i]->gradient.weight);
  /* The device must have read the gradients before they are released. */
  if (fold->average == NULL)
    return tps_device_sum_sync (reduction->device_sum, error);
  sum = g_steal_pointer (&reduction->device_sum);
  if (reduction->has_host_share)
    return tps_device_sum_average (sum, tps_tensor_data (&fold->output), get_divisor (reduction),
                                   error);
  return average_there (fold, sum, error);
}

gboolean
tps_fold_end (TpsFold *fold, GError **error)
{
  TpsReduction *reduction = fold->reduction;
  gboolean ok = TRUE;

  give_digests (fold);
  if (!fold->is_dense)
    ok = fold_sparse (fold, error) && (fold->average == NULL || finish_sparse (fold, error));
  else if (reduction->device_sum != NULL)
    ok = end_on_device (fold, error);
  if (!tps_tensor_is_empty (&fold->output))
    tps_tensor_move (&reduction->sum.dense, &fold->output);
  release (fold);
  if (!ok || fold->average == NULL)
    return ok;
  tps_gradient_move (fold->average, &reduction->sum);
  fold->average->weight = 1;
  return TRUE;
}
