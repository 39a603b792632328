/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/pass/pass_plan.h"

#include <float.h>
#include <math.h>

#include "runtime/base/error.h"
#include "runtime/trainer/nn/device_tensor.h"
#include "runtime/trainer/pass/device_choice.h"
#include "runtime/trainer/pass/device_spans.h"
#include "runtime/trainer/pass/pass.h"

/* -- pass batch -- */

/* Batches in the memory of a pass's device. Internal to runtime/trainer. */

/* Batches and the forward pass, in the memory of the pass's device. */

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

/* Moves the plan's batches to the pass's device. Blocks. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST.
 * After an error, the batches remain where they were. */
static gboolean
pass_move_batches (TpsPass *pass, GError **error)
{
  TpsTrainPlan *plan = pass->plan;
  TpsTrainBatch *copies, *unused;
  gboolean ok;

  if (pass->device->is_host || plan->n_batches == 0)
    return TRUE;
  copies = unused = g_try_new0 (TpsTrainBatch, plan->n_batches);
  if (copies == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory for %u batches",
                     plan->n_batches);
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

/* -- pass plan -- */

#define MODEL_COPIES 3 /* values, gradients, averages */

static gboolean
check_counts (const TpsTrainPlan *plan, GError **error)
{
  if (plan->world_size == 0 || plan->rank >= plan->world_size)
    return tps_fail (
        error, TPS_ERROR_INVALID_ARGUMENT,
        "rank is %u of world_size %u, expected a rank below a world size of at least 1", plan->rank,
        plan->world_size);
  if (plan->epochs == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "epochs is 0, expected at least 1");
  if (plan->steps_per_epoch == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "steps_per_epoch is 0, expected the largest number of batches of any trainer");
  if (plan->n_batches > plan->steps_per_epoch)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%u batches for %u steps_per_epoch: a step takes one batch", plan->n_batches,
                     plan->steps_per_epoch);
  if (plan->rpc_timeout_ns <= 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "rpc_timeout is %" G_GINT64_FORMAT " ns, expected more than 0",
                     plan->rpc_timeout_ns);
  return TRUE;
}

/* Returns TRUE if the value lies in the range of FLOAT32, in which steps compute. */
static gboolean
is_float (gdouble value)
{
  return isfinite (value) && fabs (value) <= FLT_MAX && (value == 0 || (gfloat) value != 0);
}

static gboolean
check_values (const TpsTrainPlan *plan, GError **error)
{
  if (!is_float (plan->learning_rate))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "learning_rate is %g, expected 0 or a finite FLOAT32 other than 0",
                     plan->learning_rate);
  if (!(plan->first_bucket_mib >= 0) || !(plan->bucket_cap_mib >= 0))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "first_bucket_mib is %g and bucket_cap_mib is %g, expected 0 or more",
                     plan->first_bucket_mib, plan->bucket_cap_mib);
  if (g_strcmp0 (plan->reduce, "mean") != 0 && g_strcmp0 (plan->reduce, "sum") != 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "reduce is '%s', expected mean or sum",
                     plan->reduce);
  return TRUE;
}

/* Reports an unregistered name as an invalid argument of the plan. Takes over `unknown`. */
static gboolean
refuse_name (const gchar *argument, GError *unknown, GError **error)
{
  tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: %s", argument, unknown->message);
  g_error_free (unknown);
  return FALSE;
}

static gboolean
resolve_names (TpsPass *pass, GError **error)
{
  const TpsTrainPlan *plan = pass->plan;
  GError *unknown = NULL;

  pass->trainer = tps_trainer_class_find (plan->trainer, &unknown);
  if (pass->trainer == NULL)
    return refuse_name ("trainer", unknown, error);
  pass->criterion = tps_criterion_find (plan->create_criterion, &unknown);
  if (pass->criterion == NULL)
    return refuse_name ("create_criterion", unknown, error);
  pass->ddp_model = tps_ddp_model_maker_find (plan->create_ddp_model, &unknown);
  if (pass->ddp_model == NULL)
    return refuse_name ("create_ddp_model", unknown, error);
  pass->hook_state_class = tps_hook_state_class_find (plan->hook_state, &unknown);
  if (pass->hook_state_class == NULL)
    return refuse_name ("hook_state", unknown, error);
  pass->hook = tps_hook_find (plan->ddp_hook, &unknown);
  if (pass->hook == NULL)
    return refuse_name ("ddp_hook", unknown, error);
  pass->iteration_step = tps_iteration_step_find (plan->iteration_step, &unknown);
  if (pass->iteration_step == NULL)
    return refuse_name ("iteration_step", unknown, error);
  if (!tps_process_group_check_backend (plan->backend, &unknown))
    return refuse_name ("backend", unknown, error);
  if (!tps_compression_parse (plan->compress, &pass->compression, &unknown))
    return refuse_name ("compress", unknown, error);
  if ((pass->hook->needs & TPS_HOOK_NEEDS_SERVERS) != 0 && plan->n_servers == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "servers: %s needs at least one parameter server", pass->hook->name);
  return TRUE;
}

/* Loads device drivers only if the plan names a device other than the CPU. */
static gboolean
choose_device (TpsPass *pass, GError **error)
{
  const TpsTrainPlan *plan = pass->plan;

  pass->device = tps_device_choose (plan->device, tps_pass_get_local_rank (pass), error);
  if (pass->device == NULL)
    return FALSE;
  pass->plan->chosen = pass->device;
  return pass->device->is_host || pass->trainer->takes_devices
         || tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                      "device is %s, expected cpu: trainer %s supports only the CPU", plan->device,
                      pass->trainer->name);
}

static gboolean
create_model (TpsPass *pass, GError **error)
{
  GError *unknown = NULL;
  const TpsModelClass *klass = tps_model_class_find (pass->plan->model_class, &unknown);

  if (klass == NULL)
    return refuse_name ("model_class", unknown, error);
  pass->model = klass->create (pass->plan->model_config, pass->device, error);
  if (pass->model != NULL && !pass->device->is_host)
    pass->spans = tps_device_spans_new (pass->model->stream, pass->metrics);
  return pass->model != NULL;
}

/* Charges the size of the parameters, gradients and averages to the budget of the links. Without
 * such a budget, the default pool charges the memory at its allocation. In this case, the charge is
 * released at once and only refuses a pass that cannot fit, before the pass begins. */
static gboolean
check_memory (TpsPass *pass, GError **error)
{
  TpsBudget *budget = pass->budget != NULL
                          ? pass->budget
                          : tps_buffer_pool_get_budget (tps_buffer_pool_get_default ());
  gsize n_bytes = 0;

  if (!pass->device->is_host)
    return TRUE;
  for (guint i = 0; i < pass->model->n_parameters; i++)
    if (!g_size_checked_add (&n_bytes, n_bytes,
                             tps_shape_n_bytes (&pass->model->parameters[i].shape)))
      n_bytes = G_MAXSIZE;
  if (!g_size_checked_mul (&n_bytes, n_bytes, MODEL_COPIES))
    n_bytes = G_MAXSIZE;
  if (!tps_budget_charge (budget, n_bytes, error))
    {
      g_prefix_error (error, "model %s takes %" G_GSIZE_FORMAT " bytes with its gradients: ",
                      pass->plan->model_class, n_bytes);
      return FALSE;
    }
  if (pass->budget != NULL)
    pass->n_charged = n_bytes;
  else
    tps_budget_release (budget, n_bytes);
  return TRUE;
}

static gboolean
preprocess (TpsPass *pass, GError **error)
{
  GError *unknown = NULL;
  const TpsPreprocess *found = tps_preprocess_find (pass->plan->preprocess_data, &unknown);

  if (found == NULL)
    return refuse_name ("preprocess_data", unknown, error);
  return found->run (pass, error);
}

gboolean
tps_pass_resolve (TpsPass *pass, GError **error)
{
  return check_counts (pass->plan, error) && check_values (pass->plan, error)
         && resolve_names (pass, error) && pass->trainer->check (pass->plan, error)
         && choose_device (pass, error) && create_model (pass, error) && check_memory (pass, error)
         && preprocess (pass, error) && pass_move_batches (pass, error);
}
