/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A step: backward -> on_gradient_ready() counts -> launch() compresses complete buckets and hands them to the hook, in the
 * order of their numbers -> on_reduced(), from any thread, checks the average, turns it back and puts it into the bucket's
 * slot -> finish_step() waits for all.
 *
 * Failures: the first error is kept, no further bucket is launched, exchange and group are cancelled, and finish_step()
 * still waits for what is under way, because hooks borrow the buckets' memory.
 *
 * Threads: everything on the training thread but on_reduced(). The lock guards what is marked.
 */

#include "runtime/ddp/ddp.h"

#include <string.h>
#include <xxhash.h>

#include "runtime/cpu/elementwise.h"
#include "runtime/ddp/layout_check.h"
#include "runtime/ddp/reduced_check.h"
#include "runtime/error.h"
#include "runtime/sync.h"

/* How long a cancelled exchange or group may take to let go. */
#define DRAIN_NS (G_GINT64_CONSTANT (10) * 1000 * 1000 * 1000)

typedef struct
{
  TpsTensor values;
  TpsTensor gradient; /* of a dense bucket; an element longer than it, for a weight */
  TpsBucketCall call;
  TpsCompressor *compressor;
  guint n_unready; /* gradients of this step that the model has not reported yet */

  /* Under the lock while a step runs. */
  gboolean is_in_flight;
  TpsGradient reduced;
} Slot;

struct TpsDdp
{
  TpsModel *model;
  TpsDdpOptions options;
  TpsBucketLayout layout;
  Slot *slots; /* by bucket */
  guint next_launch;

  TpsMutex lock;
  TpsCond changed;
  guint n_in_flight;
  GError *error; /* the first one */
};

static void on_reduced (TpsBucketCall *call, TpsGradient *reduced, const GError *error);

static void
report_alive (TpsDdp *ddp, gint64 until_ns)
{
  if (ddp->options.alive != NULL)
    ddp->options.alive (ddp->options.user_data, until_ns);
}

/* Memory */

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

static void
init_slot (TpsDdp *ddp, guint index)
{
  const TpsBucket *bucket = &ddp->layout.buckets[index];
  Slot *slot = &ddp->slots[index];
  TpsShape values = { .dtype = TPS_DTYPE_FLOAT32,
                      .n_dims = 1,
                      .dims = { (gint64) bucket->n_elems } };
  TpsShape storage = { .dtype = TPS_DTYPE_FLOAT32,
                       .n_dims = 1,
                       .dims = { (gint64) bucket->n_elems + 1 } };

  tps_tensor_init_zeroed (&slot->values, &values);
  slot->call.index = index;
  slot->call.is_sparse = bucket->is_sparse;
  slot->call.n_elems = bucket->n_elems;
  slot->call.done = on_reduced;
  slot->call.user_data = ddp;
  slot->call.dtype = TPS_DTYPE_FLOAT32;
  slot->call.travels_as = bucket->is_sparse ? TPS_GRADIENT_SPARSE : TPS_GRADIENT_DENSE;
  if (bucket->is_sparse)
    {
      const TpsShape *shape = &ddp->model->parameters[bucket->parameters[0]].shape;

      slot->call.rows = shape->dims[0];
      slot->call.dim = shape->dims[1];
    }
  else
    {
      tps_tensor_init_zeroed (&slot->gradient, &storage);
      tps_tensor_init_ref (&slot->call.storage, &slot->gradient);
    }
  slot->compressor = tps_compression_begin (&ddp->options.compression, &slot->call);
}

static void
bind_parameter (TpsDdp *ddp, guint index)
{
  TpsParameter *parameter = &ddp->model->parameters[index];
  const TpsBucketPlace *place = &ddp->layout.places[index];
  Slot *slot = &ddp->slots[place->bucket];

  parameter->value = (gfloat *) tps_tensor_data (&slot->values) + place->offset;
  if (!parameter->is_sparse)
    parameter->gradient = (gfloat *) tps_tensor_data (&slot->gradient) + place->offset;
}

static void
unbind_parameters (TpsModel *model)
{
  for (guint i = 0; i < model->n_parameters; i++)
    {
      model->parameters[i].value = NULL;
      model->parameters[i].gradient = NULL;
      tps_gradient_clear (&model->parameters[i].sparse_gradient);
    }
}

TpsDdp *
tps_ddp_new (TpsModel *model, const TpsDdpOptions *options, GError **error)
{
  g_autoptr (TpsDdp) ddp = g_new0 (TpsDdp, 1);

  ddp->model = model;
  ddp->options = *options;
  tps_mutex_init (&ddp->lock);
  tps_cond_init (&ddp->changed);
  for (guint i = 0; i < model->n_parameters; i++)
    if (!check_parameter (&model->parameters[i], error))
      return NULL;
  if (!tps_bucket_layout_init (&ddp->layout, model->parameters, model->n_parameters,
                               options->first_bucket_mib, options->bucket_cap_mib, error))
    return NULL;

  ddp->slots = g_new0 (Slot, ddp->layout.n_buckets);
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    init_slot (ddp, b);
  for (guint i = 0; i < model->n_parameters; i++)
    bind_parameter (ddp, i);
  return g_steal_pointer (&ddp);
}

void
tps_ddp_free (TpsDdp *ddp)
{
  if (ddp == NULL)
    return;
  if (ddp->n_in_flight != 0)
    {
      /* Against the contracts of exchange and group. Memory that somebody may still write to is better lost. */
      g_critical ("%u buckets are still in flight when their memory is freed; it is leaked",
                  ddp->n_in_flight);
      return;
    }
  unbind_parameters (ddp->model);
  for (guint b = 0; ddp->slots != NULL && b < ddp->layout.n_buckets; b++)
    {
      TpsCompressor *compressor = ddp->slots[b].compressor;

      compressor->klass->free (compressor);
      tps_tensor_clear (&ddp->slots[b].values);
      tps_tensor_clear (&ddp->slots[b].gradient);
      tps_tensor_clear (&ddp->slots[b].call.storage);
      tps_gradient_clear (&ddp->slots[b].call.contribution);
      tps_gradient_clear (&ddp->slots[b].reduced);
    }
  g_free (ddp->slots);
  tps_bucket_layout_clear (&ddp->layout);
  g_clear_error (&ddp->error);
  tps_cond_clear (&ddp->changed);
  tps_mutex_clear (&ddp->lock);
  g_free (ddp);
}

const TpsBucketLayout *
tps_ddp_get_layout (const TpsDdp *ddp)
{
  return &ddp->layout;
}

/* A step */

/* Under the lock. */
static void
keep_first_error (TpsDdp *ddp, const GError *error)
{
  if (ddp->error == NULL)
    ddp->error = g_error_copy (error);
}

static gboolean
decode_reduced (Slot *slot, TpsGradient *reduced, GError **error)
{
  if (!tps_reduced_check (&slot->call, reduced, error))
    return FALSE;
  if (reduced->kind != TPS_GRADIENT_NONE)
    slot->compressor->klass->decode (slot->compressor, &slot->call, reduced);
  return TRUE;
}

static void
on_reduced (TpsBucketCall *call, TpsGradient *reduced, const GError *error)
{
  TpsDdp *ddp = call->user_data;
  Slot *slot = &ddp->slots[call->index];
  g_autoptr (GError) misfit = NULL;

  if (error == NULL && !decode_reduced (slot, reduced, &misfit))
    error = misfit;
  tps_mutex_lock (&ddp->lock);
  if (error != NULL)
    keep_first_error (ddp, error);
  else
    tps_gradient_move (&slot->reduced, reduced);
  slot->is_in_flight = FALSE;
  ddp->n_in_flight--;
  tps_cond_broadcast (&ddp->changed);
  tps_mutex_unlock (&ddp->lock);
}

static void
fill_contribution (TpsDdp *ddp, Slot *slot, gboolean has_data)
{
  const TpsBucket *bucket = &ddp->layout.buckets[slot->call.index];
  TpsGradient *contribution = &slot->call.contribution;

  tps_gradient_clear (contribution);
  if (!has_data)
    return;
  if (bucket->is_sparse)
    {
      tps_gradient_init_ref (contribution,
                             &ddp->model->parameters[bucket->parameters[0]].sparse_gradient);
    }
  else
    {
      contribution->kind = TPS_GRADIENT_DENSE;
      contribution->weight = 1;
      tps_tensor_init_ref (&contribution->dense, &slot->gradient);
      contribution->dense.shape.dims[0] = (gint64) slot->call.n_elems;
    }
  slot->compressor->klass->encode (slot->compressor, &slot->call);
}

static void
launch (TpsDdp *ddp, guint index, gboolean has_data)
{
  Slot *slot = &ddp->slots[index];
  gboolean has_failed;

  tps_mutex_lock (&ddp->lock);
  has_failed = ddp->error != NULL;
  if (!has_failed)
    {
      slot->is_in_flight = TRUE;
      ddp->n_in_flight++;
    }
  tps_mutex_unlock (&ddp->lock);
  if (has_failed)
    return;
  fill_contribution (ddp, slot, has_data);
  report_alive (ddp, 0);
  ddp->options.hook->reduce (ddp->options.context, &slot->call);
}

static void
on_gradient_ready (gpointer user_data, guint index)
{
  TpsDdp *ddp = user_data;
  Slot *slot = &ddp->slots[ddp->layout.places[index].bucket];

  g_return_if_fail (slot->n_unready > 0);
  slot->n_unready--;
  while (ddp->next_launch < ddp->layout.n_buckets && ddp->slots[ddp->next_launch].n_unready == 0)
    launch (ddp, ddp->next_launch++, TRUE);
}

/* Under the lock; owned. */
static gchar *
name_in_flight (TpsDdp *ddp)
{
  GString *names = g_string_new (NULL);

  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    if (ddp->slots[b].is_in_flight)
      g_string_append_printf (names, "%s%u", names->len > 0 ? ", " : "", b);
  return g_string_free (names, FALSE);
}

/* Under the lock. Returns at the deadline, when all are done, or at the first error. */
static void
wait_for_buckets (TpsDdp *ddp, gint64 deadline_ns)
{
  g_autofree gchar *names = NULL;

  while (ddp->n_in_flight > 0 && ddp->error == NULL)
    if (!tps_cond_wait_until (&ddp->changed, &ddp->lock, deadline_ns))
      break;
  if (ddp->n_in_flight == 0 || ddp->error != NULL)
    return;
  names = name_in_flight (ddp);
  ddp->error = g_error_new (
      TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED,
      "batch %" G_GINT64_FORMAT ": no answer for bucket %s within %" G_GINT64_FORMAT " ms",
      ddp->options.context->state->batch_number, names, ddp->options.context->timeout_ns / 1000000);
}

static void
cancel_all (TpsDdp *ddp)
{
  const TpsHookContext *context = ddp->options.context;

  if (context->exchange != NULL)
    context->exchange->ops->cancel (context->exchange);
  if (context->group != NULL)
    context->group->ops->abort (context->group);
}

static void
begin_step (TpsDdp *ddp)
{
  tps_ddp_zero_grad (ddp);
  ddp->next_launch = 0;
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    ddp->slots[b].n_unready = ddp->layout.buckets[b].n_parameters;
}

static gboolean
finish_step (TpsDdp *ddp, GError **error)
{
  gint64 deadline_ns = tps_clock_now_ns () + ddp->options.context->timeout_ns
                       + 2 * TPS_HOOK_GRACE_NS;
  gboolean has_failed;

  report_alive (ddp, deadline_ns);
  tps_mutex_lock (&ddp->lock);
  wait_for_buckets (ddp, deadline_ns);
  has_failed = ddp->error != NULL;
  tps_mutex_unlock (&ddp->lock);
  report_alive (ddp, 0);

  if (has_failed)
    {
      cancel_all (ddp);
      deadline_ns = tps_clock_now_ns () + DRAIN_NS;
      tps_mutex_lock (&ddp->lock);
      while (ddp->n_in_flight > 0 && tps_cond_wait_until (&ddp->changed, &ddp->lock, deadline_ns))
        continue;
      g_propagate_error (error, g_error_copy (ddp->error));
      tps_mutex_unlock (&ddp->lock);
      return FALSE;
    }
  return TRUE;
}

/* A model that does not report a gradient would make this step wait for nothing. */
static gboolean
fail_unreported (TpsDdp *ddp, GError **error)
{
  g_autoptr (GError) unreported = g_error_new (
      TPS_ERROR, TPS_ERROR_INTERNAL,
      "backward pass: the model reported no gradient for %u parameters of bucket %u",
      ddp->slots[ddp->next_launch].n_unready, ddp->next_launch);

  tps_mutex_lock (&ddp->lock);
  keep_first_error (ddp, unreported);
  tps_mutex_unlock (&ddp->lock);
  return finish_step (ddp, error);
}

gboolean
tps_ddp_backward (TpsDdp *ddp, const gfloat *output_gradient, GError **error)
{
  begin_step (ddp);
  ddp->model->klass->backward (ddp->model, output_gradient, on_gradient_ready, ddp);
  if (ddp->next_launch < ddp->layout.n_buckets)
    return fail_unreported (ddp, error);
  return finish_step (ddp, error);
}

gboolean
tps_ddp_join_step (TpsDdp *ddp, GError **error)
{
  begin_step (ddp);
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    launch (ddp, b, FALSE);
  return finish_step (ddp, error);
}

void
tps_ddp_zero_grad (TpsDdp *ddp)
{
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    {
      tps_gradient_clear (&ddp->slots[b].reduced);
      tps_gradient_clear (&ddp->slots[b].call.contribution);
    }
}

const TpsGradient *
tps_ddp_get_reduced (const TpsDdp *ddp, guint bucket)
{
  return &ddp->slots[bucket].reduced;
}

/* The optimizer */

/* A product, rounded, then the sum: with a factor of float precision the same as PyTorch's. */
static void
subtract (gfloat *values, const gfloat *gradient, gsize n_elems, gfloat learning_rate)
{
  tps_cpu_scale_accumulate (TPS_DTYPE_FLOAT32, values, gradient, -learning_rate, n_elems);
}

static void
subtract_rows (gfloat *values, const TpsGradient *reduced, gfloat learning_rate)
{
  const gint64 *ids = tps_tensor_data (&reduced->indices);
  const gfloat *rows = tps_tensor_data (&reduced->values);
  gint64 dim = reduced->values.shape.dims[1];

  for (gint64 i = 0; i < reduced->indices.shape.dims[0]; i++)
    subtract (values + ids[i] * dim, rows + i * dim, (gsize) dim, learning_rate);
}

void
tps_ddp_step_sgd (TpsDdp *ddp, gdouble learning_rate)
{
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    {
      const TpsGradient *reduced = &ddp->slots[b].reduced;
      gfloat *values = tps_tensor_data (&ddp->slots[b].values);

      if (reduced->kind == TPS_GRADIENT_DENSE)
        subtract (values, tps_tensor_data (&reduced->dense), ddp->layout.buckets[b].n_elems,
                  (gfloat) learning_rate);
      else if (reduced->kind == TPS_GRADIENT_SPARSE)
        subtract_rows (values, reduced, (gfloat) learning_rate);
    }
}

void
tps_ddp_digest (const TpsDdp *ddp, guint8 digest[16])
{
  XXH3_state_t *state = XXH3_createState ();
  XXH128_canonical_t canonical;

  XXH3_128bits_reset (state);
  for (guint i = 0; i < ddp->model->n_parameters; i++)
    {
      const TpsParameter *parameter = &ddp->model->parameters[i];

      XXH3_128bits_update (state, parameter->value, tps_shape_n_bytes (&parameter->shape));
    }
  XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (state));
  XXH3_freeState (state);
  memcpy (digest, canonical.digest, sizeof canonical.digest);
}

gboolean
tps_ddp_check_layouts (TpsDdp *ddp, GError **error)
{
  const TpsHookContext *context = ddp->options.context;
  gboolean ok;

  if (context->group == NULL)
    return TRUE;
  report_alive (ddp, tps_clock_now_ns () + context->timeout_ns);
  ok = tps_layout_check (&ddp->layout, ddp->model->parameters, &ddp->options.compression,
                         context->group, error);
  report_alive (ddp, 0);
  return ok;
}
