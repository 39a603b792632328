/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/buckets/bucket_slot.h"

#include "runtime/base/error.h"
#include "runtime/trainer/dense/dense.h"
#include "runtime/trainer/nn/device_tensor.h"

static gboolean
check_parameter (const TpsParameter *parameter, GError **error)
{
  if (parameter->shape.dtype == TPS_DTYPE_FLOAT32
      && (!parameter->is_sparse || parameter->shape.n_dims == 2))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "parameter %s: expected FLOAT32, and two dimensions where it is sparse",
               parameter->name);
  return FALSE;
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
