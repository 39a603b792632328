/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory: on the CPU, the layer reads its parameters from the received model without a copy. The
 * update borrows the gradients until its reply arrives. Meanwhile, the trainer draws the input of
 * the next step. The client may provide the memory of the gradients. On another device, parameters
 * and inputs are copied to the device, and gradients are copied from the device. The stream has
 * passed these copies before the gradients are sent.
 */

#include "runtime/trainer/batch_update/batch_update_trainer.h"

#include <thriftps/client.h>

#include "runtime/base/config.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"
#include "runtime/base/sync.h"
#include "runtime/server/push_digest.h"
#include "runtime/tensor/model_version.h"
#include "runtime/trainer/nn/device_tensor.h"
#include "runtime/trainer/nn/linear_model.h"

/* -- model call -- */

/* An asynchronous call to a model's server: the caller continues and waits for the reply later.
 * Thread: one at a time; the reply may arrive on any thread. */

typedef struct
{
  TpsModelClient *client; /* borrowed */

  TpsMutex lock;
  TpsCond changed;
  /* Under the lock while a call is in flight. */
  gboolean is_pending;
  TpsModelVersion *model;
  GError *error;
} TpsModelCall;

/* Initialises a call in the caller's storage. `client` is borrowed. */
static void
model_call_init (TpsModelCall *call, TpsModelClient *client)
{
  *call = (TpsModelCall) { .client = client };
  tps_mutex_init (&call->lock);
  tps_cond_init (&call->changed);
}

/* Waits for the end of the call. The client guarantees that a call ends at its deadline at the
 * latest, or when the client is cancelled. */
static void
wait_for_end (TpsModelCall *call)
{
  TPS_LOCK_SCOPE (&call->lock);
  while (call->is_pending)
    tps_cond_wait (&call->changed, &call->lock);
}

/* Cancels the client if a call is still in flight, waits for the end of this call, and releases the
 * members. */
static void
model_call_clear (TpsModelCall *call)
{
  gboolean is_pending;

  tps_mutex_lock (&call->lock);
  is_pending = call->is_pending;
  tps_mutex_unlock (&call->lock);
  if (is_pending)
    call->client->ops->cancel (call->client);
  wait_for_end (call);
  g_clear_pointer (&call->model, tps_model_version_unref);
  g_clear_error (&call->error);
  tps_cond_clear (&call->changed);
  tps_mutex_clear (&call->lock);
}

static void
on_answered (gpointer user_data, TpsModelVersion *model, const GError *error)
{
  TpsModelCall *call = user_data;

  TPS_LOCK_SCOPE (&call->lock);
  call->model = model != NULL ? tps_model_version_ref (model) : NULL;
  call->error = error != NULL ? g_error_copy (error) : NULL;
  call->is_pending = FALSE;
  tps_cond_signal (&call->changed);
}

static void
begin (TpsModelCall *call)
{
  TPS_LOCK_SCOPE (&call->lock);
  g_assert (!call->is_pending && call->model == NULL && call->error == NULL);
  call->is_pending = TRUE;
}

/* Each function starts a call; only one may be in flight at a time. Borrowed arguments must not
 * change until model_call_wait() returns. */
static void
model_call_init_model (TpsModelCall *call, const TpsNamedTensor *parameters, guint n_parameters,
                       const TpsOptimizerSpec *optimizer, gint64 deadline_ns)
{
  begin (call);
  call->client->ops->init_model (call->client, parameters, n_parameters, optimizer, deadline_ns,
                                 on_answered, call);
}

static void
model_call_get_model (TpsModelCall *call, gint64 deadline_ns)
{
  begin (call);
  call->client->ops->get_model (call->client, deadline_ns, on_answered, call);
}

static void
model_call_update (TpsModelCall *call, const TpsTensor *gradients, guint n_gradients,
                   gint64 version, gint64 deadline_ns)
{
  begin (call);
  call->client->ops->update_and_fetch (call->client, gradients, n_gradients, version, deadline_ns,
                                       on_answered, call);
}

/* Waits until the call has ended. `model`, an output that may be NULL, receives a reference to the
 * model in the reply, or NULL for init_model, whose reply contains no model. Errors: those of the
 * client. */
static gboolean
model_call_wait (TpsModelCall *call, TpsModelVersion **model, GError **error)
{
  g_autoptr (TpsModelVersion) answered = NULL;

  wait_for_end (call);
  answered = g_steal_pointer (&call->model);
  if (call->error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&call->error));
      return FALSE;
    }
  if (model != NULL)
    *model = g_steal_pointer (&answered);
  return TRUE;
}

/* -- batch update trainer -- */

/* The trainer's timeout must exceed the server's timeout by this time. Then the server's error,
 * which names the missing trainers, arrives first. */
#define GRACE_NS (G_GINT64_CONSTANT (2) * 1000 * 1000 * 1000)
#define MAX_BATCH_SIZE (1 << 20)

#define MAX_PARAMETERS 2 /* number of parameters of a LinearModel */

typedef struct
{
  gint64 batch_size;
  gdouble momentum;
} Arguments;

typedef struct
{
  TpsPass *pass;
  Arguments arguments;
  TpsModelCall call;
  TpsModelVersion *model;                    /* the last received model, with its parameters */
  TpsTensor values[MAX_PARAMETERS];          /* the parameters or, on a device, their copies */
  TpsStagedTensor gradients[MAX_PARAMETERS]; /* storage of the model's gradients */
  TpsStagedTensor input;
  TpsStagedTensor next_input;
  TpsTensor target; /* zeros, in the device's memory */
} Training;

static struct
{
  TpsBatchUpdateObserver observer;
  gpointer user_data;
} observed;

void
tps_batch_update_trainer_observe (TpsBatchUpdateObserver observer, gpointer user_data)
{
  observed.observer = observer;
  observed.user_data = user_data;
}

static void
tell (const Training *self, TpsBatchUpdateEvent event)
{
  if (observed.observer != NULL)
    observed.observer (observed.user_data, self->pass->plan->rank, event);
}

/* -- arguments -- */

static gboolean
read_arguments (const TpsTrainPlan *plan, Arguments *arguments, GError **error)
{
  TpsConfig config;

  tps_config_init (&config, plan->trainer_config, "trainer BatchUpdateTrainer", error);
  arguments->momentum = 0;
  return tps_config_get_int (&config, "batch_size", 1, MAX_BATCH_SIZE, &arguments->batch_size)
         && (!tps_config_has (&config, "momentum")
             || tps_config_get_double (&config, "momentum", 0, G_MAXFLOAT, &arguments->momentum))
         && tps_config_finish (&config);
}

static gboolean
batch_update_trainer_check (const TpsTrainPlan *plan, GError **error)
{
  Arguments arguments;

  if (!read_arguments (plan, &arguments, error))
    return FALSE;
  if (!g_str_equal (plan->model_class, tps_linear_model_class.name))
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "model_class is %s, expected %s, which trainer BatchUpdateTrainer trains",
                 plan->model_class, tps_linear_model_class.name);
  else if (plan->n_servers != 1)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "servers: %u are named, trainer BatchUpdateTrainer needs the one that has the "
                 "model",
                 plan->n_servers);
  else
    return TRUE;
  return FALSE;
}

/* -- memory -- */

static gboolean
init_parameter (Training *self, guint i, GError **error)
{
  TpsParameter *parameter = &self->pass->model->parameters[i];
  TpsDevice *device = self->pass->device;

  if (!tps_staged_tensor_init (&self->gradients[i], device, &parameter->shape, error)
      || (!device->is_host
          && !tps_device_tensor_init (&self->values[i], device, &parameter->shape, error)))
    return FALSE;
  parameter->gradient = tps_tensor_data (&self->gradients[i].device);
  return TRUE;
}

static gboolean
init_batches (Training *self, GError **error)
{
  const TpsParameter *weight = &self->pass->model->parameters[0];
  TpsDevice *device = self->pass->device;
  TpsShape input = { .dtype = TPS_DTYPE_FLOAT32,
                     .n_dims = 2,
                     .dims = { self->arguments.batch_size, weight->shape.dims[1] } };
  TpsShape target = { .dtype = TPS_DTYPE_FLOAT32,
                      .n_dims = 2,
                      .dims = { self->arguments.batch_size, weight->shape.dims[0] } };

  if (!tps_staged_tensor_init (&self->input, device, &input, error)
      || !tps_staged_tensor_init (&self->next_input, device, &input, error)
      || !tps_device_tensor_init (&self->target, device, &target, error))
    return FALSE;
  device->ops->zero (self->pass->model->stream, tps_tensor_data (&self->target),
                     tps_shape_n_bytes (&target));
  return TRUE;
}

static gboolean
training_init (Training *self, TpsPass *pass, GError **error)
{
  self->pass = pass;
  model_call_init (&self->call, pass->model_client);
  for (guint i = 0; i < pass->model->n_parameters; i++)
    if (!init_parameter (self, i, error))
      return FALSE;
  return init_batches (self, error);
}

static void
training_clear (Training *self)
{
  TpsStream *stream;

  if (self->pass == NULL)
    return;
  stream = self->pass->model->stream;
  model_call_clear (&self->call);
  /* A failed pass may have left work on the stream. */
  stream->device->ops->stream_sync (stream, NULL);
  for (guint i = 0; i < MAX_PARAMETERS; i++)
    {
      tps_tensor_clear (&self->values[i]);
      tps_staged_tensor_clear (&self->gradients[i]);
    }
  g_clear_pointer (&self->model, tps_model_version_unref);
  tps_staged_tensor_clear (&self->input);
  tps_staged_tensor_clear (&self->next_input);
  tps_tensor_clear (&self->target);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Training, training_clear)

/* -- the model -- */

/* Returns the deadline of a call that starts now. Reports it to the pass as the end of an expected
 * wait. */
static gint64
begin_call (Training *self)
{
  gint64 deadline_ns = tps_clock_now_ns () + self->pass->plan->rpc_timeout_ns + GRACE_NS;

  tps_pass_alive (self->pass, deadline_ns);
  return deadline_ns;
}

static gboolean
check_model (const Training *self, const TpsModelVersion *model, GError **error)
{
  const TpsModel *ours = self->pass->model;
  gboolean fits = model->n_parameters == ours->n_parameters;

  for (guint i = 0; fits && i < ours->n_parameters; i++)
    fits = tps_shape_equal (&model->parameters[i].tensor.shape, &ours->parameters[i].shape);
  if (!fits)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "the server's model differs from this trainer's model");
  return fits;
}

static void
use_parameter (Training *self, guint i)
{
  const TpsTensor *received = &self->model->parameters[i].tensor;
  TpsStream *stream = self->pass->model->stream;
  TpsParameter *parameter = &self->pass->model->parameters[i];

  if (stream->device->is_host)
    {
      parameter->value = tps_tensor_data (received);
      return;
    }
  parameter->value = tps_tensor_data (&self->values[i]);
  stream->device->ops->copy (stream, parameter->value, tps_tensor_data (received),
                             tps_shape_n_bytes (&received->shape));
}

/* Makes the layer compute with `model`, which is taken over and only read. Releases the old model:
 * the stream has passed all work with it, because its gradients have been sent. */
static gboolean
use_model (Training *self, TpsModelVersion *model, GError **error)
{
  g_clear_pointer (&self->model, tps_model_version_unref);
  self->model = model;
  if (!check_model (self, model, error))
    return FALSE;
  for (guint i = 0; i < model->n_parameters; i++)
    use_parameter (self, i);
  return TRUE;
}

static gboolean
offer_parameters (Training *self, TpsNamedTensor *parameters, GError **error)
{
  TpsPass *pass = self->pass;
  TpsOptimizerSpec optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, pass->plan->learning_rate);

  optimizer.momentum = self->arguments.momentum;
  for (guint i = 0; i < pass->model->n_parameters; i++)
    {
      parameters[i].name = g_strdup (pass->model->parameters[i].name);
      tps_tensor_init (&parameters[i].tensor, &pass->model->parameters[i].shape);
      pass->model->parameters[i].value = tps_tensor_data (&parameters[i].tensor);
    }
  /* The values are bound to host memory, as init_parameters() requires. */
  pass->model->klass->init_parameters (pass->model, pass->plan->seed);
  model_call_init_model (&self->call, parameters, pass->model->n_parameters, &optimizer,
                         begin_call (self));
  return model_call_wait (&self->call, NULL, error);
}

static gboolean
offer_model (Training *self, GError **error)
{
  TpsNamedTensor parameters[MAX_PARAMETERS] = { 0 };
  gboolean ok = offer_parameters (self, parameters, error);

  for (guint i = 0; i < MAX_PARAMETERS; i++)
    tps_named_tensor_clear (&parameters[i]);
  return ok;
}

static gboolean
fetch_model (Training *self, GError **error)
{
  TpsModelVersion *model;

  model_call_get_model (&self->call, begin_call (self));
  return model_call_wait (&self->call, &model, error) && use_model (self, model, error);
}

/* -- steps -- */

static void
draw_next_input (Training *self, gint64 step)
{
  const TpsTrainPlan *plan = self->pass->plan;
  TpsRng rng;

  tps_rng_init (&rng, plan->seed, TPS_BATCH_UPDATE_STREAM (plan->rank) + (guint64) step);
  tps_ziggurat_fill (&rng, tps_tensor_data (&self->next_input.host),
                     (gsize) tps_shape_n_elems (&self->next_input.host.shape));
}

static void
take_next_input (Training *self)
{
  TpsStagedTensor input = self->input;

  self->input = self->next_input;
  self->next_input = input;
}

/* Does nothing, because all gradients are sent together after the backward pass. */
static void
on_gradient_ready (gpointer user_data, guint index)
{
}

static gboolean
compute_gradients (Training *self, GError **error)
{
  TpsPass *pass = self->pass;
  TpsStream *stream = pass->model->stream;
  const TpsTrainBatch batch = { .input = self->input.device, .target = self->target };

  tps_staged_tensor_upload (&self->input, stream, tps_shape_n_bytes (&self->input.host.shape));
  if (!tps_pass_forward (pass, &batch, error))
    return FALSE;
  pass->model->klass->backward (pass->model, tps_tensor_data (&pass->output_gradient),
                                on_gradient_ready, NULL);
  for (guint i = 0; i < pass->model->n_parameters; i++)
    tps_staged_tensor_download (&self->gradients[i], stream,
                                tps_shape_n_bytes (&self->gradients[i].host.shape));
  return stream->device->ops->stream_sync (stream, error);
}

/* Moves the storage of a gradient to memory of the client, if the client provides any. */
static void
place_gradient (Training *self, guint i)
{
  TpsModelClient *client = self->pass->model_client;
  TpsStagedTensor *gradient = &self->gradients[i];
  const TpsShape shape = gradient->host.shape;
  g_autoptr (TpsBuffer)
      memory = client->ops->get_memory (client, tps_shape_n_bytes (&shape), gradient->host.buffer);

  if (memory == NULL || memory == gradient->host.buffer)
    return;
  tps_staged_tensor_clear (gradient);
  tps_tensor_init_take (&gradient->host, &shape, g_steal_pointer (&memory), 0);
  tps_tensor_init_ref (&gradient->device, &gradient->host);
  self->pass->model->parameters[i].gradient = tps_tensor_data (&gradient->device);
}

static void
place_gradients (Training *self)
{
  if (!self->pass->device->is_host || self->pass->model_client->ops->get_memory == NULL)
    return;
  for (guint i = 0; i < self->pass->model->n_parameters; i++)
    place_gradient (self, i);
}

static gboolean
run_step (Training *self, gint64 step, GError **error)
{
  TpsPass *pass = self->pass;
  TpsTensor gradients[MAX_PARAMETERS]; /* borrowed */
  TpsModelVersion *model;
  GError *refusal = NULL;

  tell (self, TPS_BATCH_UPDATE_BEGINS);
  take_next_input (self);
  place_gradients (self);
  if (!compute_gradients (self, error))
    return FALSE;
  for (guint i = 0; i < MAX_PARAMETERS; i++)
    gradients[i] = self->gradients[i].host;
  tell (self, TPS_BATCH_UPDATE_REPORTS);
  model_call_update (&self->call, gradients, pass->model->n_parameters, self->model->version,
                     begin_call (self));
  draw_next_input (self, step + 1);
  if (!model_call_wait (&self->call, &model, &refusal))
    {
      /* A gradient of an outdated model is lost, and the pass continues with the current model. */
      if (!g_error_matches (refusal, TPS_ERROR, TPS_ERROR_STALE))
        {
          g_propagate_error (error, refusal);
          return FALSE;
        }
      g_error_free (refusal);
      return fetch_model (self, error);
    }
  tell (self, TPS_BATCH_UPDATE_CONTINUES);
  return use_model (self, model, error);
}

static void
publish_digest (const Training *self)
{
  TpsPushHash *hash = tps_push_hash_new ();
  TpsPushDigest digest;

  for (guint i = 0; i < self->model->n_parameters; i++)
    tps_push_hash_add_tensor (hash, tps_tensor_view (&self->model->parameters[i].tensor));
  digest = tps_push_hash_end (hash);
  tps_pass_set_digest (self->pass, digest.bytes);
}

static gdouble
ms_since (gint64 start_ns)
{
  return (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;
}

static gboolean
run_steps (Training *self, GError **error)
{
  TpsPass *pass = self->pass;
  gint64 n_steps = (gint64) pass->plan->epochs * pass->plan->steps_per_epoch;
  gint64 start_ns = tps_clock_now_ns ();

  draw_next_input (self, 0);
  for (gint64 step = 0; step < n_steps; step++)
    {
      gint64 step_start_ns = tps_clock_now_ns ();

      if (!tps_pass_check_cancelled (pass, error) || !run_step (self, step, error))
        return FALSE;
      tps_pass_step_done (pass);
      tps_metrics_record (pass->metrics, "batch_level_metric", "batch_all",
                          ms_since (step_start_ns));
    }
  tps_metrics_record (pass->metrics, "pass_level_metric", "training", ms_since (start_ns));
  publish_digest (self);
  return TRUE;
}

static gboolean
batch_update_trainer_run (TpsPass *pass, GError **error)
{
  g_auto (Training) self = { 0 };

  if (!read_arguments (pass->plan, &self.arguments, error)
      || !tps_pass_check_cancelled (pass, error) || !tps_pass_connect_model (pass, error))
    return FALSE;
  return training_init (&self, pass, error) && offer_model (&self, error)
         && fetch_model (&self, error) && run_steps (&self, error);
}

const TpsTrainerClass tps_batch_update_trainer_class = {
  .name = "BatchUpdateTrainer",
  .takes_devices = TRUE,
  .makes_batches = TRUE,
  .check = batch_update_trainer_check,
  .run = batch_update_trainer_run,
};
