/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/hooks/all_reduce.h"

#include <math.h>
#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/base/error.h"

/* -- rows -- */

/* Reduces the rows of a bucket through a process group that has dense collectives only.
 *
 * Every rank gathers the heads (weight, counts, ids) and the rows of all ranks. Both gathers are
 * issued together, because all ranks must issue collectives in the same order. Each rank then
 * merges the lists itself, in ascending id order and, for each id, in rank order. Therefore all
 * ranks get the same bits as from the averaging server. Data from other ranks are checked before
 * use. */

/* Precedes the ids on the wire. The layout need not be portable, because all ranks of a group run
 * the same build. */
typedef struct
{
  gdouble weight;
  gint64 n_ids;
  gint64 rows;
  gint64 dim;
  gint64 dtype;
} SparseHead;

typedef struct
{
  const TpsHookContext *context;
  TpsBucketCall *call;
  const gchar *metric_type;
  gchar *key;

  guint8 *head; /* SparseHead, then ids */
  TpsBuffer *heads;
  TpsBuffer *rows;
  gsize *head_counts; /* [ranks] */
  gsize *row_counts;
  GError *error; /* of the first gather */
} SparseCall;

/* The contribution of one rank, borrowed. `next` is the position of the first row that has not been
 * merged. */
typedef struct
{
  gdouble weight;
  const gint64 *ids;
  const guint8 *rows;
  gint64 n_ids;
  gint64 next;
} Part;

static void
sparse_call_free (SparseCall *self)
{
  g_free (self->key);
  g_free (self->head);
  g_free (self->head_counts);
  g_free (self->row_counts);
  g_clear_pointer (&self->heads, tps_buffer_unref);
  g_clear_pointer (&self->rows, tps_buffer_unref);
  g_clear_error (&self->error);
  g_free (self);
}

static gboolean
refuse_part (const TpsBucketCall *call, guint rank, const gchar *what, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "sparse all-reduce of bucket %u: invalid data from rank %u: %s", call->index,
                   rank, what);
}

static gboolean
check_ids (const TpsBucketCall *call, const Part *part)
{
  gint64 previous = -1;

  for (gint64 i = 0; i < part->n_ids; i++)
    {
      if (part->ids[i] <= previous || part->ids[i] >= call->rows)
        return FALSE;
      previous = part->ids[i];
    }
  return TRUE;
}

/* Checks the contribution of `rank`. `head_bytes` is aligned to 8 bytes, because the sizes of all
 * earlier heads are multiples of 8. */
static gboolean
read_part (Part *part, const TpsBucketCall *call, guint rank, const guint8 *head_bytes,
           gsize n_head_bytes, const guint8 *row_bytes, gsize n_row_bytes, GError **error)
{
  SparseHead head;

  if (n_head_bytes < sizeof head || n_head_bytes % sizeof (gint64) != 0)
    return refuse_part (call, rank, "the length of its ids", error);
  memcpy (&head, head_bytes, sizeof head);
  if (!isfinite (head.weight) || head.weight < 0)
    return refuse_part (call, rank, "its weight", error);
  if (head.rows != call->rows || head.dim != call->dim)
    return refuse_part (call, rank, "its matrix has another shape", error);
  if (head.dtype != (gint64) call->dtype)
    return refuse_part (call, rank, "its rows are of another type", error);
  if (head.n_ids != (gint64) ((n_head_bytes - sizeof head) / sizeof (gint64)))
    return refuse_part (call, rank, "the number of its ids", error);
  if (n_row_bytes != (gsize) head.n_ids * (gsize) call->dim * tps_dtype_size (call->dtype))
    return refuse_part (call, rank, "the number of its rows", error);

  part->weight = head.weight;
  part->n_ids = head.n_ids;
  part->ids = (const gint64 *) (gconstpointer) (head_bytes + sizeof head);
  part->rows = row_bytes;
  if (!check_ids (call, part))
    return refuse_part (call, rank, "its ids are not ascending within the matrix", error);
  return TRUE;
}

/* Returns the checked contributions in rank order, owned by the caller. Returns NULL with an
 * error. */
static Part *
read_parts (const SparseCall *self, GError **error)
{
  guint n_ranks = self->context->group->size;
  g_autofree Part *parts = g_new0 (Part, n_ranks);
  const guint8 *head = tps_buffer_get_data (self->heads);
  const guint8 *rows = tps_buffer_get_data (self->rows);

  for (guint r = 0; r < n_ranks; r++)
    {
      if (!read_part (&parts[r], self->call, r, head, self->head_counts[r], rows,
                      self->row_counts[r], error))
        return NULL;
      head += self->head_counts[r];
      rows += self->row_counts[r];
    }
  return g_steal_pointer (&parts);
}

/* Returns the lowest id that has not been merged, or G_MAXINT64 at the end. */
static gint64
lowest_id (const Part *parts, guint n_parts)
{
  gint64 lowest = G_MAXINT64;

  for (guint r = 0; r < n_parts; r++)
    if (parts[r].next < parts[r].n_ids && parts[r].ids[parts[r].next] < lowest)
      lowest = parts[r].ids[parts[r].next];
  return lowest;
}

/* sum = the weighted sum of the rows of `id`, in rank order. Advances `next` of the parts that
 * contain `id`. */
static void
sum_rows (Part *parts, guint n_parts, gint64 id, const TpsBucketCall *call, gfloat *sum)
{
  gsize dim = (gsize) call->dim;
  gboolean is_first = TRUE;

  for (guint r = 0; r < n_parts; r++)
    {
      Part *part = &parts[r];
      const guint8 *row;

      if (part->next == part->n_ids || part->ids[part->next] != id)
        continue;
      row = part->rows + (gsize) part->next * dim * tps_dtype_size (call->dtype);
      if (is_first)
        tps_cpu_scale (call->dtype, sum, row, part->weight, dim);
      else
        tps_cpu_scale_accumulate (call->dtype, sum, row, part->weight, dim);
      is_first = FALSE;
      part->next++;
    }
}

/* Merges all parts. `ids` and `out` (of the rows' type) must have room for all rows of all parts.
 * Returns the number of ids. FLOAT32 rows are summed in `out` itself; rows of other types are
 * summed as FLOAT32 in `wide_row` and rounded once. */
static gint64
merge_parts (Part *parts, guint n_parts, const TpsBucketCall *call, gdouble divisor, gint64 *ids,
             guint8 *out)
{
  gsize row_bytes = (gsize) call->dim * tps_dtype_size (call->dtype);
  gboolean is_rounded = call->dtype != TPS_DTYPE_FLOAT32;
  g_autofree gfloat *wide_row = is_rounded ? g_new (gfloat, call->dim) : NULL;
  gint64 n_ids = 0;

  for (gint64 id; (id = lowest_id (parts, n_parts)) != G_MAXINT64; n_ids++, out += row_bytes)
    {
      gfloat *sum = is_rounded ? wide_row : (gfloat *) (gpointer) out;

      sum_rows (parts, n_parts, id, call, sum);
      if (is_rounded || divisor != 1)
        tps_cpu_divide (call->dtype, out, sum, divisor, (gsize) call->dim);
      ids[n_ids] = id;
    }
  return n_ids;
}

static gboolean
reduce_parts (const SparseCall *self, TpsGradient *reduced, GError **error)
{
  const TpsBucketCall *call = self->call;
  guint n_ranks = self->context->group->size;
  g_autofree Part *parts = read_parts (self, error);
  gdouble weights = 0;
  gint64 n_rows = 0;

  if (parts == NULL)
    return FALSE;
  for (guint r = 0; r < n_ranks; r++)
    {
      weights += parts[r].weight;
      n_rows += parts[r].n_ids;
    }
  if (!(weights > 0))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "sparse all-reduce of bucket %u: the weights of all trainers are 0",
                     call->index);

  reduced->kind = TPS_GRADIENT_SPARSE;
  reduced->weight = 1;
  reduced->rows = call->rows;
  tps_tensor_init_1d (&reduced->indices, TPS_DTYPE_INT64, n_rows);
  tps_tensor_init_2d (&reduced->values, call->dtype, n_rows, call->dim);
  n_rows = merge_parts (parts, n_ranks, call, self->context->delivers_sum ? 1 : weights,
                        tps_tensor_data (&reduced->indices), tps_tensor_data (&reduced->values));
  reduced->indices.shape.dims[0] = n_rows;
  reduced->values.shape.dims[0] = n_rows;
  return TRUE;
}

static void
on_heads_gathered (gpointer user_data, const GError *error)
{
  SparseCall *self = user_data;

  if (error != NULL)
    self->error = g_error_copy (error);
}

/* The group runs its collectives in order, so on_heads_gathered() has already been called. */
static void
on_rows_gathered (gpointer user_data, const GError *gather_error)
{
  SparseCall *self = user_data;
  TpsBucketCall *call = self->call;
  g_auto (TpsGradient) reduced = { TPS_GRADIENT_NONE };
  g_autoptr (GError) error = g_steal_pointer (&self->error);

  if (error == NULL && gather_error != NULL)
    error = g_error_copy (gather_error);
  if (error == NULL)
    reduce_parts (self, &reduced, &error);
  tps_metrics_record_end (self->context->metrics, self->metric_type, self->key, NULL);
  sparse_call_free (self);
  tps_bucket_call_finish (call, error == NULL ? &reduced : NULL, error);
}

static gsize
fill_head (SparseCall *self)
{
  const TpsBucketCall *call = self->call;
  const TpsGradient *part = &call->contribution;
  gboolean has_data = part->kind == TPS_GRADIENT_SPARSE;
  SparseHead head = {
    .weight = part->weight,
    .n_ids = has_data ? part->indices.shape.dims[0] : 0,
    .rows = call->rows,
    .dim = call->dim,
    .dtype = call->dtype,
  };
  gsize n_id_bytes = (gsize) head.n_ids * sizeof (gint64);

  self->head = g_malloc (sizeof head + n_id_bytes);
  memcpy (self->head, &head, sizeof head);
  if (n_id_bytes > 0)
    memcpy (self->head + sizeof head, tps_tensor_data (&part->indices), n_id_bytes);
  return sizeof head + n_id_bytes;
}

void
tps_hook_all_reduce_sparse (const TpsHookContext *context, TpsBucketCall *call,
                            const gchar *metric_type)
{
  TpsProcessGroup *group = context->group;
  const TpsGradient *part = &call->contribution;
  const gchar *backend = group->ops->host_name != NULL ? group->ops->host_name : group->ops->name;
  g_autofree gchar *name = g_strdup_printf ("%s_%s_allreduce", backend,
                                            call->is_sparse ? "sparse" : "dense");
  SparseCall *self = g_new0 (SparseCall, 1);
  g_autoptr (GError) error = NULL;
  gsize n_head_bytes;
  gsize n_row_bytes = part->kind == TPS_GRADIENT_SPARSE ? tps_shape_n_bytes (&part->values.shape)
                                                        : 0;

  self->context = context;
  self->call = call;
  self->metric_type = metric_type;
  self->key = context->state->klass->get_key (context->state, call->index);
  if (!tps_metrics_record_start (context->metrics, metric_type, self->key, name, &error))
    {
      sparse_call_free (self);
      tps_bucket_call_finish (call, NULL, error);
      return;
    }
  n_head_bytes = fill_head (self);
  self->head_counts = g_new0 (gsize, group->size);
  self->row_counts = g_new0 (gsize, group->size);
  group->ops->all_gather_bytes (group, self->head, n_head_bytes, self->head_counts, &self->heads,
                                on_heads_gathered, self);
  group->ops->all_gather_bytes (group, tps_tensor_data (&part->values), n_row_bytes,
                                self->row_counts, &self->rows, on_rows_gathered, self);
}

/* -- dense buckets -- */

/* Reduces a dense bucket in place through the process group. The group averages FLOAT16 and
 * BFLOAT16, because a sum would be rounded before the division. In host memory, the group also
 * averages FLOAT32 if it supports this. Otherwise the group sums the elements, with the weight as
 * an additional element, and this file divides the sum by the sum of the weights. In device memory,
 * the device divides. */

typedef struct
{
  const TpsHookContext *context;
  TpsBucketCall *call;
  gchar *key;
  TpsAverage average;
} DenseCall;

static void
dense_call_free (DenseCall *self)
{
  g_free (self->key);
  g_free (self);
}

/* Writes this rank's contribution to the sum: weight x gradient, and the weight. */
static void
fill_storage (TpsBucketCall *call)
{
  gfloat *data = tps_tensor_data (&call->storage);
  gdouble weight = call->contribution.weight;

  if (call->contribution.kind == TPS_GRADIENT_NONE)
    memset (data, 0, call->n_elems * sizeof *data);
  else if (weight != 1)
    tps_cpu_scale (TPS_DTYPE_FLOAT32, data, data, weight, call->n_elems);
  data[call->n_elems] = (gfloat) weight;
}

static void
finish_with_storage (TpsBucketCall *call)
{
  g_auto (TpsGradient) reduced = { .kind = TPS_GRADIENT_DENSE, .weight = 1 };

  tps_tensor_init_ref (&reduced.dense, &call->storage);
  reduced.dense.shape.dims[0] = (gint64) call->n_elems;
  tps_bucket_call_finish (call, &reduced, NULL);
}

static gboolean
check_weights (const TpsBucketCall *call, gdouble weights, GError **error)
{
  if (weights > 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "all-reduce of bucket %u: the weights of all trainers are 0", call->index);
}

/* Divides the sum, in host memory, by the sum of the weights, which follows the elements. */
static gboolean
divide_by_weights (const TpsHookContext *context, TpsBucketCall *call, GError **error)
{
  gfloat *data = tps_tensor_data (&call->storage);
  gfloat weights = data[call->n_elems];

  if (!check_weights (call, (gdouble) weights, error))
    return FALSE;
  if (!context->delivers_sum && weights != 1.0f)
    tps_cpu_divide (TPS_DTYPE_FLOAT32, data, data, weights, call->n_elems);
  return TRUE;
}

/* As divide_by_weights(), but in device memory. The group has completed the sum on another stream,
 * so stream_sync() waits only for the copy of one number. */
static gboolean
divide_on_device (const TpsHookContext *context, TpsBucketCall *call, GError **error)
{
  const TpsDeviceOps *ops = call->stream->device->ops;
  gfloat *data = tps_tensor_data (&call->storage);
  gfloat weights;

  ops->stream_wait_event (call->stream, call->ready);
  ops->copy (call->stream, call->host_weight, data + call->n_elems, sizeof *data);
  if (!ops->stream_sync (call->stream, error))
    return FALSE;
  weights = *call->host_weight;
  if (!check_weights (call, (gdouble) weights, error))
    return FALSE;
  if (!context->delivers_sum && weights != 1.0f)
    ops->divide (call->stream, TPS_DTYPE_FLOAT32, data, data, (gdouble) weights, call->n_elems);
  return TRUE;
}

/* Ends the call. Takes over the error, which is NULL after a success. */
static void
finish (DenseCall *self, GError *owned_error)
{
  TpsBucketCall *call = self->call;
  g_autoptr (GError) error = owned_error;

  tps_metrics_record_end (self->context->metrics, TPS_METRIC_HOOK_FUTURE, self->key, NULL);
  dense_call_free (self);
  if (error != NULL)
    tps_bucket_call_finish (call, NULL, error);
  else
    finish_with_storage (call);
}

static void
on_summed (gpointer user_data, const GError *group_error)
{
  DenseCall *self = user_data;
  GError *error = NULL;

  if (group_error != NULL)
    error = g_error_copy (group_error);
  else if (self->call->stream != NULL)
    divide_on_device (self->context, self->call, &error);
  else
    divide_by_weights (self->context, self->call, &error);
  finish (self, error);
}

static void
on_averaged (gpointer user_data, const GError *group_error)
{
  DenseCall *self = user_data;
  GError *error = NULL;

  if (group_error != NULL)
    error = g_error_copy (group_error);
  else
    check_weights (self->call, self->average.weight, &error);
  finish (self, error);
}

static void
reduce (DenseCall *self)
{
  TpsProcessGroup *group = self->context->group;
  TpsBucketCall *call = self->call;

  if (call->stream != NULL)
    {
      group->ops->all_reduce_f32_after (group, call->ready, tps_tensor_data (&call->storage),
                                        call->n_elems + 1, on_summed, self);
      return;
    }
  if (call->dtype == TPS_DTYPE_FLOAT32 && !group->ops->averages_f32)
    {
      fill_storage (call);
      group->ops->all_reduce_f32 (group, tps_tensor_data (&call->storage), call->n_elems + 1,
                                  on_summed, self);
      return;
    }
  self->average = (TpsAverage) {
    .dtype = call->dtype,
    .data = tps_tensor_data (&call->storage),
    .n_elems = call->n_elems,
    .weight = call->contribution.weight,
    .delivers_sum = self->context->delivers_sum,
  };
  group->ops->average (group, &self->average, on_averaged, self);
}

TpsHookReach
tps_hook_get_all_reduce_reach (const TpsHookContext *context, const TpsBucketCall *call)
{
  return context->group_on_devices && context->group->ops->all_reduce_f32_after != NULL
             ? TPS_HOOK_REACH_STREAM
             : TPS_HOOK_REACH_HOST;
}

TpsBuffer *
tps_hook_get_group_memory (const TpsHookContext *context, const TpsBucketCall *call,
                           TpsBuffer *current)
{
  TpsProcessGroup *group = context->group;

  return group->ops->get_memory != NULL ? group->ops->get_memory (
             group, (gsize) tps_shape_n_bytes (&call->storage.shape), current)
                                        : NULL;
}

/* Returns the name of the backend of this call, for the metrics. */
static const gchar *
get_backend (const TpsHookContext *context, const TpsBucketCall *call)
{
  const TpsProcessGroupOps *ops = context->group->ops;
  const gchar *used = call->stream != NULL ? ops->device_name : ops->host_name;

  return used != NULL ? used : ops->name;
}

void
tps_hook_all_reduce_dense (const TpsHookContext *context, TpsBucketCall *call)
{
  g_autofree gchar *name = g_strdup_printf ("%s_dense_allreduce", get_backend (context, call));
  DenseCall *self;
  g_autoptr (GError) error = NULL;

  if (call->travels_as == TPS_GRADIENT_SPARSE)
    {
      tps_hook_all_reduce_sparse (context, call, TPS_METRIC_HOOK_FUTURE);
      return;
    }
  self = g_new0 (DenseCall, 1);
  self->context = context;
  self->call = call;
  self->key = context->state->klass->get_key (context->state, call->index);
  if (!tps_metrics_record_start (context->metrics, TPS_METRIC_HOOK_FUTURE, self->key, name, &error))
    {
      dense_call_free (self);
      tps_bucket_call_finish (call, NULL, error);
      return;
    }
  reduce (self);
}
