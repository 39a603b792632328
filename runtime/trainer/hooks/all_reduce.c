/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reduces a dense bucket in place through the process group. The group averages FLOAT16 and
 * BFLOAT16, because a sum would be rounded before the division. In host memory, the group also
 * averages FLOAT32 if it supports this. Otherwise the group sums the elements, with the weight as
 * an additional element, and this file divides the sum by the sum of the weights. In device memory,
 * the device divides. */

#include "runtime/trainer/ports/hook.h"

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/base/error.h"

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
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "all-reduce of bucket %u: the weights of all trainers are 0", call->index);
  return FALSE;
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
