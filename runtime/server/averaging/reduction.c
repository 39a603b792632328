/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A dense fold visits its data block by block. For each item, in order, it hashes the item's block
 * (if a digest is needed), and adds it to the block of the sum. After the last item of the last
 * fold, it divides the block of the sum. Each byte of a gradient is thus read from memory once,
 * while the block of the sum stays in the cache. A new sum begins as the sum of the first two
 * items, which saves a copy of the first item. */

#include "runtime/server/averaging/reduction.h"

#include <float.h>
#include <string.h>

#include "runtime/server/averaging/sparse_sum.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/device_memory.h"
#include "runtime/base/error.h"

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

gboolean
tps_reduction_allocate (TpsTensor *tensor, const TpsShape *shape, TpsBufferPool *buffers,
                        GError **error)
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

/* Returns the pool for an average, which depends on the origin of the gradient. */
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
  else if (!tps_reduction_allocate (&reduction->sum.dense, &shape, pool, error))
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

static void
allocate_hashes (TpsFold *fold)
{
  fold->hashes = g_new0 (TpsDigest *, fold->n_items);
  for (guint i = 0; i < fold->n_items; i++)
    if (!fold->items[i]->has_digest && fold->items[i]->gradient.kind == TPS_GRADIENT_DENSE
        && !is_there (fold->items[i]))
      fold->hashes[i] = g_new (TpsDigest, fold->n_blocks);
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
      && !tps_reduction_allocate (&fold->output, &fold->shape,
                                  choose_pool (reduction, &fold->items[0]->gradient), error))
    return FALSE;
  allocate_hashes (fold);
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

/* Adds up the weights. Finds the dtype of the gradients, and the item with which the sum begins. */
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
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "gradient.weight is 0 for every trainer of the round, expected one above 0");
  else if (!reduction->is_sum && reduction->divisor > FLT_MAX)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "gradient.weight: the weights of the round add up to %g, which exceeds FLOAT32",
                 reduction->divisor);
  else
    return TRUE;
  return FALSE;
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

typedef struct
{
  gsize offset; /* in elements */
  gsize n_elems;
  guint index;
} Block;

static guint8 *
block_of (const TpsTensor *tensor, const Block *block)
{
  guint8 *data = tps_tensor_data (tensor);

  return data == NULL ? NULL : data + block->offset * tps_dtype_size (tensor->shape.dtype);
}

static void
hash_item (TpsFold *fold, guint i, const Block *block)
{
  if (fold->hashes[i] != NULL)
    fold->hashes[i][block->index] = tps_digest_of_block (
        block_of (&fold->items[i]->gradient.dense, block),
        block->n_elems * tps_dtype_size (fold->reduction->dtype));
}

/* Adds the item to the sum. If `first` is not NULL, the sum begins with `first`. */
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
      hash_item (fold, i, block);
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
  block_elems = tps_digest_get_block_bytes () / tps_dtype_size (fold->reduction->dtype);
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
        && !tps_sparse_sum_add (&reduction->sum, &fold->items[i]->gradient, reduction->buffers,
                                error))
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
  else if (!tps_reduction_allocate (&values, &shape, reduction->buffers, error))
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

static gboolean
end_sparse (TpsFold *fold, GError **error)
{
  return fold_sparse (fold, error) && (fold->average == NULL || finish_sparse (fold, error));
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
    ok = end_sparse (fold, error);
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

gboolean
tps_reduction_fold (TpsReduction *reduction, TpsFoldItem **items, guint n_items,
                    TpsGradient *average, GError **error)
{
  TpsFold fold;

  if (!tps_fold_begin (&fold, reduction, items, n_items, average, error))
    return FALSE;
  tps_fold_run (&fold, 0, fold.n_blocks);
  return tps_fold_end (&fold, error);
}
