/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Batches and the forward pass, in the memory of the pass's device. */

#include "runtime/trainer/pass/pass_batch.h"

#include "runtime/trainer/nn/device_tensor.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- moving batches -- */

static gboolean
is_there (const TpsPass *pass, const TpsTensor *tensor)
{
  return tensor->buffer == NULL || tps_buffer_get_device (tensor->buffer) == pass->device;
}

/* Initialises `copy` with the elements of `tensor` in the device's memory. Only enqueues the copy,
 * so `tensor` must stay valid until the stream has passed it. */
static gboolean
copy_to_device (TpsPass *pass, TpsTensor *copy, const TpsTensor *tensor, GError **error)
{
  if (is_there (pass, tensor))
    {
      tps_tensor_init_ref (copy, tensor);
      return TRUE;
    }
  if (!tps_device_tensor_init (copy, pass->device, &tensor->shape, error))
    return FALSE;
  pass->device->ops->copy (pass->model->stream, tps_tensor_data (copy), tps_tensor_data (tensor),
                           tps_shape_n_bytes (&tensor->shape));
  return TRUE;
}

static gboolean
copy_batches (TpsPass *pass, TpsTrainBatch *copies, GError **error)
{
  const TpsTrainPlan *plan = pass->plan;

  for (guint i = 0; i < plan->n_batches; i++)
    if (!copy_to_device (pass, &copies[i].input, &plan->batches[i].input, error)
        || !copy_to_device (pass, &copies[i].target, &plan->batches[i].target, error))
      return FALSE;
  return pass->device->ops->stream_sync (pass->model->stream, error);
}

gboolean
tps_pass_move_batches (TpsPass *pass, GError **error)
{
  TpsTrainPlan *plan = pass->plan;
  TpsTrainBatch *copies, *unused;
  gboolean ok;

  if (pass->device->is_host || plan->n_batches == 0)
    return TRUE;
  copies = unused = g_try_new0 (TpsTrainBatch, plan->n_batches);
  if (copies == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory for %u batches",
                   plan->n_batches);
      return FALSE;
    }
  ok = copy_batches (pass, copies, error);
  if (ok)
    {
      unused = plan->batches;
      plan->batches = copies;
    }
  else /* earlier copies may still be in progress */
    pass->device->ops->stream_sync (pass->model->stream, NULL);
  for (guint i = 0; i < plan->n_batches; i++)
    tps_train_batch_clear (&unused[i]);
  g_free (unused);
  return ok;
}

/* -- the forward pass -- */

/* Provides memory for the gradient of the output. The memory only grows. Before a smaller memory is
 * released, the function waits for the stream, which may still be using it. */
static gboolean
provide_output_gradient (TpsPass *pass, const TpsShape *shape, GError **error)
{
  TpsTensor *gradient = &pass->output_gradient;

  if (gradient->buffer != NULL
      && tps_buffer_get_size (gradient->buffer) >= tps_shape_n_bytes (shape))
    {
      gradient->shape = *shape;
      return TRUE;
    }
  if (!pass->device->ops->stream_sync (pass->model->stream, error))
    return FALSE;
  tps_tensor_clear (gradient);
  return tps_device_tensor_init (gradient, pass->device, shape, error);
}

/* Allocates host memory to which the device can write. */
static gboolean
provide_loss (TpsPass *pass, GError **error)
{
  if (pass->loss == NULL)
    pass->loss = pass->device->ops->alloc_host (pass->device, sizeof (gdouble), error);
  return pass->loss != NULL;
}

gboolean
tps_pass_forward (TpsPass *pass, const TpsTrainBatch *batch, GError **error)
{
  TpsTensorView output;

  tps_pass_alive (pass, tps_clock_now_ns () + pass->plan->rpc_timeout_ns);
  if (!pass->model->klass->forward (pass->model, tps_tensor_view (&batch->input), &output, error)
      || !provide_output_gradient (pass, &output.shape, error) || !provide_loss (pass, error))
    return FALSE;
  pass->criterion->forward_backward (pass->model->stream, output, tps_tensor_view (&batch->target),
                                     (gdouble *) (gpointer) tps_buffer_get_data (pass->loss),
                                     tps_tensor_data (&pass->output_gradient));
  if (pass->device->is_host)
    tps_pass_show_loss (pass);
  return TRUE;
}
