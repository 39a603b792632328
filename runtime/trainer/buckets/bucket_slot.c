/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/buckets/bucket_slot.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/trainer/dense/dense.h"
#include "runtime/trainer/nn/device_tensor.h"

/* -- staged bucket -- */

static const TpsDeviceOps *
ops_of (const TpsStagedBucket *self)
{
  return self->model->device->ops;
}

/* -- memory -- */

typedef TpsBuffer *(*Alloc) (TpsDevice *device, gsize n_bytes, GError **error);

/* Ensures that the buffer has at least `n_bytes`. If the buffer must be replaced by a larger
 * buffer, its contents are lost. */
static gboolean
provide (TpsBuffer **buffer, TpsDevice *device, Alloc alloc, gsize n_bytes, GError **error)
{
  if (*buffer != NULL && tps_buffer_get_size (*buffer) >= n_bytes)
    return TRUE;
  g_clear_pointer (buffer, tps_buffer_unref);
  *buffer = alloc (device, n_bytes, error);
  return *buffer != NULL;
}

static gboolean
init_page_locked (TpsTensor *tensor, TpsDevice *device, gsize n_elems, GError **error)
{
  TpsShape shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 1, .dims = { (gint64) n_elems } };
  TpsBuffer *buffer = device->ops->alloc_host (device, tps_shape_n_bytes (&shape), error);

  if (buffer == NULL)
    return FALSE;
  tps_tensor_init_take (tensor, &shape, buffer, 0);
  return TRUE;
}

static gboolean
provide_all (TpsStagedBucket *self, const TpsTensor *gradient, GError **error)
{
  TpsDevice *device = self->model->device;

  self->stream = device->ops->stream_new (device, error);
  if (self->stream != NULL)
    self->ready = device->ops->event_new (device, error);
  if (self->ready != NULL)
    self->returned = device->ops->event_new (device, error);
  if (self->returned == NULL || !init_page_locked (&self->weight, device, 1, error))
    return FALSE;
  if (gradient == NULL)
    return TRUE;
  tps_tensor_init_ref (&self->call.storage, gradient);
  return init_page_locked (&self->host, device, self->call.n_elems + 1, error);
}

TpsStagedBucket *
tps_staged_bucket_new (TpsStream *model, const TpsBucketCall *like, const TpsTensor *gradient,
                       GError **error)
{
  TpsStagedBucket *self = g_new0 (TpsStagedBucket, 1);

  self->model = model;
  self->call = *like;
  if (provide_all (self, gradient, error))
    {
      self->call.stream = self->stream;
      self->call.host_weight = tps_tensor_data (&self->weight);
      return self;
    }
  tps_staged_bucket_free (self);
  return NULL;
}

void
tps_staged_bucket_free (TpsStagedBucket *self)
{
  if (self == NULL)
    return;
  if (self->stream != NULL)
    ops_of (self)->stream_free (self->stream);
  if (self->ready != NULL)
    ops_of (self)->event_free (self->ready);
  if (self->returned != NULL)
    ops_of (self)->event_free (self->returned);
  tps_gradient_clear (&self->call.contribution);
  tps_tensor_clear (&self->call.storage);
  tps_tensor_clear (&self->weight);
  tps_tensor_clear (&self->host);
  g_clear_pointer (&self->host_ids, tps_buffer_unref);
  g_clear_pointer (&self->host_rows, tps_buffer_unref);
  g_clear_pointer (&self->device_ids, tps_buffer_unref);
  g_clear_pointer (&self->device_rows, tps_buffer_unref);
  g_free (self);
}

/* -- from the device to the host -- */

void
tps_staged_bucket_contribute (TpsStagedBucket *self, const TpsGradient *gradient)
{
  const TpsDeviceOps *ops = ops_of (self);
  gfloat *data = tps_tensor_data (&self->call.storage);
  gsize n_elems = self->call.n_elems;

  tps_gradient_clear (&self->call.contribution);
  tps_gradient_init_ref (&self->call.contribution, gradient);
  if (data != NULL)
    {
      if (gradient->kind == TPS_GRADIENT_NONE)
        ops->zero (self->model, data, n_elems * sizeof *data);
      ops->fill (self->model, TPS_DTYPE_FLOAT32, data + n_elems, gradient->weight, 1);
    }
  ops->event_record (self->ready, self->model);
}

gboolean
tps_staged_bucket_wait (TpsStagedBucket *self, GError **error)
{
  return ops_of (self)->event_sync (self->ready, error);
}

/* Initialises the tensor with this shape at the beginning of `buffer`. */
static void
init_in (TpsTensor *tensor, const TpsShape *shape, TpsBuffer *buffer)
{
  tps_tensor_clear (tensor);
  tps_tensor_init_take (tensor, shape, tps_buffer_ref (buffer), 0);
}

static void
copy_tensor (TpsStagedBucket *self, const TpsTensor *to, const TpsTensor *from)
{
  ops_of (self)->copy (self->stream, tps_tensor_data (to), tps_tensor_data (from),
                       tps_shape_n_bytes (&from->shape));
}

static void
copy_up_dense (TpsStagedBucket *self, TpsGradient *copy)
{
  const TpsTensor *dense = &self->call.contribution.dense;

  tps_tensor_init_ref (&copy->dense, &self->host);
  copy->dense.shape = dense->shape;
  copy_tensor (self, &copy->dense, dense);
}

static gboolean
provide_host_rows (TpsStagedBucket *self, const TpsGradient *rows, GError **error)
{
  TpsDevice *device = self->model->device;

  return provide (&self->host_ids, device, device->ops->alloc_host,
                  tps_shape_n_bytes (&rows->indices.shape), error)
         && provide (&self->host_rows, device, device->ops->alloc_host,
                     tps_shape_n_bytes (&rows->values.shape), error);
}

static gboolean
copy_up_rows (TpsStagedBucket *self, TpsGradient *copy, GError **error)
{
  const TpsGradient *rows = &self->call.contribution;

  if (!provide_host_rows (self, rows, error))
    return FALSE;
  init_in (&copy->indices, &rows->indices.shape, self->host_ids);
  init_in (&copy->values, &rows->values.shape, self->host_rows);
  copy_tensor (self, &copy->indices, &rows->indices);
  copy_tensor (self, &copy->values, &rows->values);
  return TRUE;
}

gboolean
tps_staged_bucket_bring_up (TpsStagedBucket *self, TpsGradient *copy, GError **error)
{
  const TpsGradient *contribution = &self->call.contribution;

  copy->kind = contribution->kind;
  copy->weight = contribution->weight;
  copy->rows = contribution->rows;
  ops_of (self)->stream_wait_event (self->stream, self->ready);
  if (copy->kind == TPS_GRADIENT_DENSE)
    copy_up_dense (self, copy);
  else if (copy->kind == TPS_GRADIENT_SPARSE && !copy_up_rows (self, copy, error))
    return FALSE;
  return ops_of (self)->stream_sync (self->stream, error);
}

/* -- from the host to the device -- */

/* Returns `page_locked`, to which the elements of `from` are copied unless they already lie there.
 * A copy to the device from memory that is not page-locked would block. */
static gpointer
through (gpointer page_locked, const TpsTensor *from)
{
  gpointer data = tps_tensor_data (from);
  gsize n_bytes = tps_shape_n_bytes (&from->shape);

  if (data != page_locked && n_bytes > 0)
    memcpy (page_locked, data, n_bytes);
  return page_locked;
}

static void
bring_back_tensor (TpsStagedBucket *self, gpointer to, gpointer page_locked, const TpsTensor *from)
{
  ops_of (self)->copy (self->stream, to, through (page_locked, from),
                       tps_shape_n_bytes (&from->shape));
}

static void
bring_back_dense (TpsStagedBucket *self, TpsGradient *average)
{
  TpsShape shape = average->dense.shape;

  bring_back_tensor (self, tps_tensor_data (&self->call.storage), tps_tensor_data (&self->host),
                     &average->dense);
  tps_tensor_clear (&average->dense);
  tps_tensor_init_ref (&average->dense, &self->call.storage);
  average->dense.shape = shape;
}

static gboolean
provide_device_rows (TpsStagedBucket *self, const TpsGradient *rows, GError **error)
{
  TpsDevice *device = self->model->device;

  return provide (&self->device_ids, device, device->ops->alloc,
                  tps_shape_n_bytes (&rows->indices.shape), error)
         && provide (&self->device_rows, device, device->ops->alloc,
                     tps_shape_n_bytes (&rows->values.shape), error);
}

static gboolean
bring_back_rows (TpsStagedBucket *self, TpsGradient *average, GError **error)
{
  TpsShape ids = average->indices.shape;
  TpsShape rows = average->values.shape;

  if (!provide_host_rows (self, average, error) || !provide_device_rows (self, average, error))
    return FALSE;
  bring_back_tensor (self, tps_buffer_get_data (self->device_ids),
                     tps_buffer_get_data (self->host_ids), &average->indices);
  bring_back_tensor (self, tps_buffer_get_data (self->device_rows),
                     tps_buffer_get_data (self->host_rows), &average->values);
  init_in (&average->indices, &ids, self->device_ids);
  init_in (&average->values, &rows, self->device_rows);
  return TRUE;
}

gboolean
tps_staged_bucket_bring_back (TpsStagedBucket *self, TpsGradient *average, GError **error)
{
  if (average->kind == TPS_GRADIENT_DENSE)
    bring_back_dense (self, average);
  else if (average->kind == TPS_GRADIENT_SPARSE)
    return bring_back_rows (self, average, error);
  return TRUE;
}

void
tps_staged_bucket_expect (TpsStagedBucket *self)
{
  ops_of (self)->event_record (self->returned, self->stream);
  ops_of (self)->stream_wait_event (self->model, self->returned);
}

static gboolean
check_parameter (const TpsParameter *parameter, GError **error)
{
  if (parameter->shape.dtype == TPS_DTYPE_FLOAT32
      && (!parameter->is_sparse || parameter->shape.n_dims == 2))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "parameter %s: expected FLOAT32, and two dimensions where it is sparse",
                   parameter->name);
}

gboolean
tps_bucket_slot_check_model (const TpsModel *model, GError **error)
{
  for (guint i = 0; i < model->n_parameters; i++)
    if (!check_parameter (&model->parameters[i], error))
      return FALSE;
  return TRUE;
}

/* -- memory -- */

static gboolean
init_zeroed (TpsTensor *tensor, TpsStream *stream, gsize n_elems, GError **error)
{
  TpsShape shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 1, .dims = { (gint64) n_elems } };

  if (!tps_device_tensor_init (tensor, stream->device, &shape, error))
    return FALSE;
  stream->device->ops->zero (stream, tps_tensor_data (tensor), tps_shape_n_bytes (&shape));
  return TRUE;
}

static void
init_call (TpsBucketSlot *slot, guint index, const TpsBucket *bucket,
           const TpsBucketSlotOptions *options)
{
  slot->call.index = index;
  slot->call.is_sparse = bucket->is_sparse;
  slot->call.n_elems = bucket->n_elems;
  slot->call.n_wire_bytes = (gint64) tps_bucket_n_bytes (bucket);
  slot->call.done = options->done;
  slot->call.failing = options->failing;
  slot->call.user_data = options->user_data;
  slot->call.dtype = TPS_DTYPE_FLOAT32;
  slot->call.travels_as = bucket->is_sparse ? TPS_GRADIENT_SPARSE : TPS_GRADIENT_DENSE;
  if (bucket->is_sparse)
    {
      const TpsShape *shape = &options->model->parameters[bucket->parameters[0]].shape;

      slot->call.rows = shape->dims[0];
      slot->call.dim = shape->dims[1];
    }
}

/* Initialises the host memory of a dense bucket for the hook. On the host, this is the bucket's own
 * gradient. On a device, it is the page-locked copy of the gradient. */
static gboolean
init_storage (TpsBucketSlot *slot, const TpsBucketSlotOptions *options, GError **error)
{
  const TpsTensor *gradient = slot->call.is_sparse ? NULL : &slot->gradient;
  TpsBucketCall on_device = slot->call;

  if (!slot->stream->device->is_host)
    {
      on_device.done = options->done_on_device;
      slot->staged = tps_staged_bucket_new (slot->stream, &on_device, gradient, error);
      if (slot->staged == NULL)
        return FALSE;
    }
  if (gradient != NULL)
    tps_tensor_init_ref (&slot->call.storage,
                         slot->staged != NULL ? &slot->staged->host : gradient);
  return TRUE;
}

gboolean
tps_bucket_slot_init (TpsBucketSlot *slot, guint index, const TpsBucket *bucket,
                      const TpsBucketSlotOptions *options, GError **error)
{
  slot->stream = options->model->stream;
  init_call (slot, index, bucket, options);
  if (!init_zeroed (&slot->values, slot->stream, bucket->n_elems, error)
      || (!bucket->is_sparse
          && !init_zeroed (&slot->gradient, slot->stream, bucket->n_elems + 1, error))
      || !init_storage (slot, options, error))
    return FALSE;
  slot->compressor = tps_compression_begin (options->compression, &slot->call);
  return TRUE;
}

void
tps_bucket_slot_clear (TpsBucketSlot *slot)
{
  if (slot->compressor != NULL)
    slot->compressor->klass->free (slot->compressor);
  g_clear_pointer (&slot->staged, tps_staged_bucket_free);
  tps_tensor_clear (&slot->values);
  tps_tensor_clear (&slot->gradient);
  tps_tensor_clear (&slot->call.storage);
  tps_gradient_clear (&slot->call.contribution);
  tps_gradient_clear (&slot->reduced);
  tps_gradient_clear (&slot->retired);
}

void
tps_bucket_slot_move_gradient (TpsBucketSlot *slot, TpsBuffer *buffer)
{
  TpsShape shape = slot->gradient.shape;

  tps_tensor_clear (&slot->gradient);
  tps_tensor_clear (&slot->call.storage);
  tps_tensor_init_take (&slot->gradient, &shape, tps_buffer_ref (buffer), 0);
  tps_tensor_init_ref (&slot->call.storage, &slot->gradient);
}

/* -- a step -- */

/* Initialises `gradient` with references: to the model's gradient for a sparse bucket, and to the
 * slot's memory for a dense bucket. */
static void
gather (TpsBucketSlot *slot, const TpsBucket *bucket, const TpsModel *model, TpsGradient *gradient)
{
  if (bucket->is_sparse)
    {
      tps_gradient_init_ref (gradient, &model->parameters[bucket->parameters[0]].sparse_gradient);
      return;
    }
  gradient->kind = TPS_GRADIENT_DENSE;
  gradient->weight = 1;
  tps_tensor_init_ref (&gradient->dense, &slot->gradient);
  gradient->dense.shape.dims[0] = (gint64) bucket->n_elems;
}

void
tps_bucket_slot_contribute (TpsBucketSlot *slot, const TpsBucket *bucket, const TpsModel *model,
                            gboolean has_data)
{
  g_auto (TpsGradient) gradient = { TPS_GRADIENT_NONE };

  if (has_data)
    gather (slot, bucket, model, &gradient);
  if (slot->staged != NULL)
    {
      tps_staged_bucket_contribute (slot->staged, &gradient);
      return;
    }
  tps_gradient_move (&slot->call.contribution, &gradient);
  if (has_data)
    slot->compressor->klass->encode (slot->compressor, &slot->call);
}

void
tps_bucket_slot_zero_grad (TpsBucketSlot *slot)
{
  if (slot->staged != NULL && slot->reduced.kind != TPS_GRADIENT_NONE)
    tps_gradient_move (&slot->retired, &slot->reduced);
  tps_gradient_clear (&slot->reduced);
  tps_gradient_clear (&slot->call.contribution);
}

/* -- the optimizer -- */

void
tps_bucket_slot_step_sgd (TpsBucketSlot *slot, gdouble learning_rate)
{
  const TpsDenseOps *ops = tps_dense_ops (slot->stream);
  const TpsSgdFactors factors = { .learning_rate = learning_rate };
  const TpsGradient *reduced = &slot->reduced;
  gfloat *values = tps_tensor_data (&slot->values);

  if (reduced->kind == TPS_GRADIENT_DENSE)
    ops->sgd (slot->stream, &factors, values, tps_tensor_data (&reduced->dense), NULL,
              slot->call.n_elems);
  else if (reduced->kind == TPS_GRADIENT_SPARSE)
    ops->sgd_rows (slot->stream, &factors, values, tps_tensor_data (&reduced->indices),
                   tps_tensor_data (&reduced->values), NULL, (gsize) reduced->indices.shape.dims[0],
                   (gsize) reduced->values.shape.dims[1]);
}
