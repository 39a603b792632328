/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The sequence of a step: during the backward pass, on_gradient_ready() counts the gradients of
 * each bucket. launch() compresses complete buckets and passes them to the hook in the order of
 * their numbers. on_reduced(), on any thread, checks the average, decompresses it and stores it in
 * the bucket's slot. finish_step() waits for all buckets.
 *
 * On a device, the backward pass has only been enqueued when launch() is called. The bucket goes to
 * the staging thread (launch_staged()), which handles buckets in order. If the hook needs a
 * complete bucket, the thread waits until the bucket is complete. If the hook works in host memory,
 * the thread copies the bucket to the host. All buckets pass through this thread, so that all ranks
 * issue their collectives in the same order. finish_step() makes the model's stream wait for the
 * averages, so work that is enqueued later, such as the optimizer, can use them.
 *
 * Failures: the first error is kept, no further bucket is launched, and the exchange and the group
 * are cancelled. finish_step() still waits for the calls in flight, because hooks borrow the
 * buckets' memory.
 *
 * Threads: launch_staged() runs on the staging thread, and the callbacks of a call run on any
 * thread. All other functions run on the training thread. */

#include "runtime/trainer/ddp/ddp.h"

#include <string.h>
#include <xxhash.h>

#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/sync.h"
#include "runtime/base/worker_pool.h"
#include "runtime/trainer/buckets/bucket_slot.h"
#include "runtime/trainer/buckets/buckets.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/ports/hook.h"
#include "runtime/trainer/ports/process_group.h"

/* -- reduced check -- */

/* Checks that the average of a bucket matches the bucket, because the average comes from another
 * process. */

static gboolean
fits (const TpsBucketCall *call, const TpsGradient *reduced)
{
  if (reduced->kind == TPS_GRADIENT_NONE)
    return TRUE;
  if (reduced->kind != call->travels_as)
    return FALSE;
  if (reduced->kind == TPS_GRADIENT_DENSE)
    return reduced->dense.shape.dtype == call->dtype
           && tps_shape_n_elems (&reduced->dense.shape) == (gint64) call->n_elems;
  return tps_gradient_check (reduced, NULL) && reduced->rows == call->rows
         && reduced->values.shape.dtype == call->dtype
         && reduced->values.shape.dims[1] == call->dim;
}

/* Returns TRUE if `reduced` matches the bucket of `call`. Reads all row ids. NONE matches every
 * bucket. Errors: INTERNAL naming the bucket. Thread: any. */
static gboolean
reduced_check (const TpsBucketCall *call, const TpsGradient *reduced, GError **error)
{
  g_autofree gchar *got = NULL;

  if (fits (call, reduced))
    return TRUE;
  got = tps_gradient_to_string (reduced);
  if (call->travels_as == TPS_GRADIENT_SPARSE)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "bucket %u: the average is %s, expected valid rows of sparse %s [%" G_GINT64_FORMAT
                 ", %" G_GINT64_FORMAT "]",
                 call->index, got, tps_dtype_name (call->dtype), call->rows, call->dim);
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "bucket %u: the average is %s, expected dense %s [%" G_GSIZE_FORMAT "]",
                 call->index, got, tps_dtype_name (call->dtype), call->n_elems);
  return FALSE;
}

/* -- ddp -- */

/* -- parameters digest -- */

/* A digest for comparing two models. Internal to this folder. */

static gsize
count_most_elems (const TpsModel *model)
{
  gint64 most = 0;

  for (guint i = 0; i < model->n_parameters; i++)
    most = MAX (most, tps_shape_n_elems (&model->parameters[i].shape));
  return (gsize) most;
}

static void
update (XXH3_state_t *state, const TpsParameter *parameter, const gfloat *values)
{
  XXH3_128bits_update (state, values, tps_shape_n_bytes (&parameter->shape));
}

/* Waits for the model's stream. */
static gboolean
read_values (const TpsModel *model, const TpsParameter *parameter, gfloat *values, GError **error)
{
  const TpsDeviceOps *ops = model->stream->device->ops;

  ops->copy (model->stream, values, parameter->value, tps_shape_n_bytes (&parameter->shape));
  return ops->stream_sync (model->stream, error);
}

static gboolean
update_from_device (XXH3_state_t *state, const TpsModel *model, GError **error)
{
  g_autofree gfloat *values = g_new (gfloat, count_most_elems (model));

  for (guint i = 0; i < model->n_parameters; i++)
    {
      const TpsParameter *parameter = &model->parameters[i];

      if (!read_values (model, parameter, values, error))
        return FALSE;
      update (state, parameter, values);
    }
  return TRUE;
}

/* Computes the digest of the model's parameters, as tps_ddp_digest(). */
static gboolean
parameters_digest (const TpsModel *model, guint8 digest[16], GError **error)
{
  gboolean is_on_host = model->stream->device->is_host;
  XXH3_state_t *state = XXH3_createState ();
  XXH128_canonical_t canonical;
  gboolean ok;

  XXH3_128bits_reset (state);
  for (guint i = 0; is_on_host && i < model->n_parameters; i++)
    update (state, &model->parameters[i], model->parameters[i].value);
  ok = is_on_host || update_from_device (state, model, error);
  XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (state));
  XXH3_freeState (state);
  if (ok)
    memcpy (digest, canonical.digest, sizeof canonical.digest);
  return ok;
}

/* -- ddp -- */

/* -- layout check -- */

/* Checks that all ranks use the same bucket layout and compression, because collectives of
 * different sizes would not match. Also reports whether all ranks have their buckets in device
 * memory, because a collective in device memory requires this of every rank. */

/* The facts of one rank; all members are borrowed. */
typedef struct
{
  const TpsBucketLayout *layout;
  const TpsParameter *parameters;
  const TpsCompression *compression;
  gboolean on_device; /* the buckets are in a device's memory */
} TpsLayoutFacts;

static void
on_gathered (gpointer user_data, const GError *error)
{
  tps_outcome_set (user_data, error);
}

/* Blocks, at most for the group's timeout. */
static gboolean
gather_and_wait (TpsProcessGroup *group, gconstpointer data, gsize n_bytes, gsize *counts,
                 TpsBuffer **gathered, GError **error)
{
  TpsOutcome wait;

  tps_outcome_init (&wait);
  group->ops->all_gather_bytes (group, data, n_bytes, counts, gathered, on_gathered, &wait);
  return tps_outcome_wait (&wait, error);
}

/* Returns the facts as text, owned by the caller. The last byte is the kind of memory, "d" (device)
 * or "h" (host), which may differ between ranks. */
static gchar *
write_facts (const TpsLayoutFacts *facts)
{
  g_autofree gchar *buckets = tps_bucket_layout_to_string (facts->layout, facts->parameters);
  g_autofree gchar *compressed = tps_compression_to_string (facts->compression);

  return g_strconcat (buckets, "compression: ", compressed, "\n", facts->on_device ? "d" : "h",
                      NULL);
}

/* `theirs` holds the facts of all ranks, one after another. */
static gboolean
compare_facts (const gchar *ours, const gchar *theirs, const gsize *counts, TpsProcessGroup *group,
               gboolean *all_on_devices, GError **error)
{
  gsize n_bytes = strlen (ours);

  *all_on_devices = TRUE;
  for (guint r = 0; r < group->size; theirs += counts[r], r++)
    {
      if (counts[r] != n_bytes || memcmp (theirs, ours, n_bytes - 1) != 0)
        return tps_fail (
            error, TPS_ERROR_INVALID_ARGUMENT,
            "trainer %u has another model, other bucket sizes or another compression than "
            "trainer %u",
            r, group->rank);
      *all_on_devices &= theirs[n_bytes - 1] == 'd';
    }
  return TRUE;
}

/* Exchanges the facts of all ranks and compares them. Blocks until all ranks have taken part, at
 * most for the group's timeout. `all_on_devices` receives TRUE if every rank has set on_device.
 * Errors: INVALID_ARGUMENT naming a rank that differs; those of the group. */
static gboolean
layout_check (const TpsLayoutFacts *facts, TpsProcessGroup *group, gboolean *all_on_devices,
              GError **error)
{
  g_autofree gchar *ours = write_facts (facts);
  g_autofree gsize *counts = g_new0 (gsize, group->size);
  g_autoptr (TpsBuffer) gathered = NULL;

  return gather_and_wait (group, ours, strlen (ours), counts, &gathered, error)
         && compare_facts (ours, (const gchar *) tps_buffer_get_data (gathered), counts, group,
                           all_on_devices, error);
}

/* -- ddp -- */

/* The time that a cancelled exchange or group may take to release the buckets' memory. */
#define DRAIN_NS (G_GINT64_CONSTANT (10) * 1000 * 1000 * 1000)

struct TpsDdp
{
  TpsModel *model;
  TpsDdpOptions options;
  TpsBucketLayout layout;
  TpsBucketSlot *slots; /* indexed by bucket */
  guint next_launch;
  TpsWorkerPool *stager; /* one thread; NULL on the host */

  TpsMutex lock; /* guards the fields below, and the fields of slots named in bucket_slot.h */
  TpsCond changed;
  guint n_in_flight;
  GError *error; /* the first error */
};

static void on_reduced (TpsBucketCall *call, TpsGradient *reduced, const GError *error);
static void on_reduced_on_device (TpsBucketCall *call, TpsGradient *reduced, const GError *error);

static void
report_alive (TpsDdp *ddp, gint64 until_ns)
{
  if (ddp->options.alive != NULL)
    ddp->options.alive (ddp->options.user_data, until_ns);
}

/* Must be called with the lock held. */
static void
keep_first_error (TpsDdp *ddp, const GError *error)
{
  if (ddp->error == NULL)
    ddp->error = g_error_copy (error);
}

/* Receives the error of a call that has not ended. The training thread then gives up the step,
 * which ends the call. */
static void
on_failing (TpsBucketCall *call, const GError *error)
{
  TpsDdp *ddp = call->user_data;

  TPS_LOCK_SCOPE (&ddp->lock);
  keep_first_error (ddp, error);
  tps_cond_broadcast (&ddp->changed);
}

/* -- memory -- */

static gboolean
init_slots (TpsDdp *ddp, GError **error)
{
  const TpsBucketSlotOptions options = {
    .model = ddp->model,
    .compression = &ddp->options.compression,
    .done = on_reduced,
    .done_on_device = on_reduced_on_device,
    .failing = on_failing,
    .user_data = ddp,
  };

  ddp->slots = g_new0 (TpsBucketSlot, ddp->layout.n_buckets);
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    if (!tps_bucket_slot_init (&ddp->slots[b], b, &ddp->layout.buckets[b], &options, error))
      return FALSE;
  return TRUE;
}

static void
bind_parameter (TpsDdp *ddp, guint index)
{
  TpsParameter *parameter = &ddp->model->parameters[index];
  const TpsBucketPlace *place = &ddp->layout.places[index];
  TpsBucketSlot *slot = &ddp->slots[place->bucket];

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
  if (!tps_bucket_slot_check_model (model, error)
      || !tps_bucket_layout_init (&ddp->layout, model->parameters, model->n_parameters,
                                  options->first_bucket_mib, options->bucket_cap_mib, error)
      || !init_slots (ddp, error))
    return NULL;
  if (!model->stream->device->is_host)
    {
      ddp->stager = tps_worker_pool_try_new ("staging", 1, error);
      if (ddp->stager == NULL)
        return NULL;
    }
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
      /* The exchange or the group has broken its contract: it must not use the memory any more. A
       * leak is better than a write to freed memory. */
      g_critical ("%u buckets are still in flight when their memory is freed; it is leaked",
                  ddp->n_in_flight);
      return;
    }
  g_clear_pointer (&ddp->stager, tps_worker_pool_free);
  /* When stream_sync() returns, the stream has passed all work on the memory that is released
   * below, even if the device has failed. */
  ddp->model->stream->device->ops->stream_sync (ddp->model->stream, NULL);
  unbind_parameters (ddp->model);
  for (guint b = 0; ddp->slots != NULL && b < ddp->layout.n_buckets; b++)
    tps_bucket_slot_clear (&ddp->slots[b]);
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

const TpsBucketCall *
tps_ddp_get_call (const TpsDdp *ddp, guint bucket)
{
  return &ddp->slots[bucket].call;
}

/* -- steps -- */

/* Ends the call of a bucket: stores the average or the error. Thread: any. */
static void
finish_bucket (TpsDdp *ddp, TpsBucketSlot *slot, TpsGradient *reduced, const GError *error)
{
  TPS_LOCK_SCOPE (&ddp->lock);
  if (error != NULL)
    keep_first_error (ddp, error);
  else
    tps_gradient_move (&slot->reduced, reduced);
  slot->is_in_flight = FALSE;
  ddp->n_in_flight--;
  tps_cond_broadcast (&ddp->changed);
}

static gboolean
decode_reduced (TpsBucketSlot *slot, TpsGradient *reduced, GError **error)
{
  if (!reduced_check (&slot->call, reduced, error))
    return FALSE;
  if (reduced->kind != TPS_GRADIENT_NONE)
    slot->compressor->klass->decode (slot->compressor, &slot->call, reduced);
  return slot->staged == NULL || tps_staged_bucket_bring_back (slot->staged, reduced, error);
}

static void
on_reduced (TpsBucketCall *call, TpsGradient *reduced, const GError *error)
{
  TpsDdp *ddp = call->user_data;
  TpsBucketSlot *slot = &ddp->slots[call->index];
  g_autoptr (GError) decode_error = NULL;

  if (error == NULL && !decode_reduced (slot, reduced, &decode_error))
    error = decode_error;
  finish_bucket (ddp, slot, reduced, error);
}

/* Moves an average from host memory to the device. An average may lie in host memory even if the
 * hook works in device memory. */
static gboolean
take_on_device (TpsBucketSlot *slot, TpsGradient *reduced, GError **error)
{
  TpsDevice *device = NULL;

  if (!reduced_check (&slot->staged->call, reduced, error))
    return FALSE;
  if (reduced->kind == TPS_GRADIENT_DENSE && reduced->dense.buffer != NULL)
    device = tps_buffer_get_device (reduced->dense.buffer);
  return (device != NULL && !device->is_host)
         || tps_staged_bucket_bring_back (slot->staged, reduced, error);
}

static void
on_reduced_on_device (TpsBucketCall *call, TpsGradient *reduced, const GError *error)
{
  TpsDdp *ddp = call->user_data;
  TpsBucketSlot *slot = &ddp->slots[call->index];
  g_autoptr (GError) decode_error = NULL;

  if (error == NULL && !take_on_device (slot, reduced, &decode_error))
    error = decode_error;
  finish_bucket (ddp, slot, reduced, error);
}

static TpsHookReach
get_reach (TpsDdp *ddp, const TpsBucketSlot *slot)
{
  const TpsHook *hook = ddp->options.hook;

  if (slot->call.is_sparse || hook->get_reach == NULL
      || !tps_compression_is_none (&ddp->options.compression))
    return TPS_HOOK_REACH_HOST;
  return hook->get_reach (ddp->options.context, &slot->staged->call);
}

static gboolean
bring_up (TpsBucketSlot *slot, GError **error)
{
  if (!tps_staged_bucket_bring_up (slot->staged, &slot->call.contribution, error))
    return FALSE;
  if (slot->call.contribution.kind != TPS_GRADIENT_NONE)
    slot->compressor->klass->encode (slot->compressor, &slot->call);
  return TRUE;
}

/* Returns the call for the memory in which the hook uses the bucket. Returns NULL with an error. */
static TpsBucketCall *
prepare_call (TpsDdp *ddp, TpsBucketSlot *slot, GError **error)
{
  TpsBucketCall *on_device = &slot->staged->call;

  switch (get_reach (ddp, slot))
    {
    case TPS_HOOK_REACH_STREAM:
      on_device->ready = slot->staged->ready;
      return on_device;
    case TPS_HOOK_REACH_DEVICE:
      on_device->ready = NULL;
      if (!tps_staged_bucket_wait (slot->staged, error))
        return NULL;
      /* A peer may be waiting for the release of this memory. The optimizer has read it, because
       * the optimizer's work precedes the gradients, which are complete now. */
      tps_gradient_clear (&slot->retired);
      return on_device;
    default:
      return bring_up (slot, error) ? &slot->call : NULL;
    }
}

static GError *
dup_error (TpsDdp *ddp)
{
  TPS_LOCK_SCOPE (&ddp->lock);
  return ddp->error != NULL ? g_error_copy (ddp->error) : NULL;
}

/* Runs on the staging thread. If the device hangs, the pass gives up after DRAIN_NS and frees the
 * hook's context. Therefore a bucket of a failed step must not reach the hook, and the error is
 * checked again after prepare_call(), which may block. */
static void
launch_staged (gpointer user_data)
{
  TpsBucketSlot *slot = user_data;
  TpsDdp *ddp = slot->call.user_data;
  g_autoptr (GError) error = dup_error (ddp);
  TpsBucketCall *call = error == NULL ? prepare_call (ddp, slot, &error) : NULL;

  if (error == NULL)
    error = dup_error (ddp);
  if (error != NULL)
    finish_bucket (ddp, slot, NULL, error);
  else
    ddp->options.hook->reduce (ddp->options.context, call);
}

static void
launch (TpsDdp *ddp, guint index, gboolean has_data)
{
  TpsBucketSlot *slot = &ddp->slots[index];
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
  tps_bucket_slot_contribute (slot, &ddp->layout.buckets[index], ddp->model, has_data);
  report_alive (ddp, 0);
  if (ddp->stager != NULL)
    tps_worker_pool_submit (ddp->stager, launch_staged, slot);
  else
    ddp->options.hook->reduce (ddp->options.context, &slot->call);
}

/* Buckets are launched in the order of their numbers, so a complete bucket may have to wait for an
 * earlier bucket. */
static void
on_gradient_ready (gpointer user_data, guint index)
{
  TpsDdp *ddp = user_data;
  TpsBucketSlot *slot = &ddp->slots[ddp->layout.places[index].bucket];

  g_return_if_fail (slot->n_unready > 0);
  slot->n_unready--;
  while (ddp->next_launch < ddp->layout.n_buckets && ddp->slots[ddp->next_launch].n_unready == 0)
    launch (ddp, ddp->next_launch++, TRUE);
}

/* Returns the numbers of the buckets in flight, owned by the caller. Must be called with the lock
 * held. */
static gchar *
name_in_flight (TpsDdp *ddp)
{
  GString *names = g_string_new (NULL);

  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    if (ddp->slots[b].is_in_flight)
      g_string_append_printf (names, "%s%u", names->len > 0 ? ", " : "", b);
  return g_string_free (names, FALSE);
}

/* Waits until all buckets are done, until the first error, or until the deadline, which sets an
 * error. Must be called with the lock held. */
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
      "batch %" G_GINT64_FORMAT ": no reply for bucket %s within %" G_GINT64_FORMAT " ms",
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

/* Moves the gradients of a dense bucket to memory of the hook, if the hook provides any. */
static void
place_gradient (TpsDdp *ddp, guint index)
{
  TpsBucketSlot *slot = &ddp->slots[index];
  const TpsBucket *bucket = &ddp->layout.buckets[index];
  g_autoptr (TpsBuffer) memory = NULL;

  if (bucket->is_sparse)
    return;
  memory = ddp->options.hook->get_memory (ddp->options.context, &slot->call, slot->gradient.buffer);
  if (memory == NULL || memory == slot->gradient.buffer)
    return;
  tps_bucket_slot_move_gradient (slot, memory);
  for (guint i = 0; i < bucket->n_parameters; i++)
    bind_parameter (ddp, bucket->parameters[i]);
}

static void
place_gradients (TpsDdp *ddp)
{
  if (ddp->stager != NULL || ddp->options.hook->get_memory == NULL
      || !tps_compression_is_none (&ddp->options.compression))
    return;
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    place_gradient (ddp, b);
}

static void
begin_step (TpsDdp *ddp)
{
  tps_ddp_zero_grad (ddp);
  place_gradients (ddp);
  ddp->next_launch = 0;
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    ddp->slots[b].n_unready = ddp->layout.buckets[b].n_parameters;
}

/* Returns FALSE if the device has failed. This error must precede others, because it causes the
 * errors of other ranks. */
static gboolean
check_device (TpsDdp *ddp, GError **error)
{
  TpsStream *stream = ddp->model->stream;

  return stream->device->ops->stream_sync (stream, error);
}

/* Cancels the exchange and the group. Waits, at most for DRAIN_NS, until no call in this process
 * uses the buckets' memory. Other ranks may still write to memory of the group
 * (TpsProcessGroupOps.get_memory). */
static void
give_up_step (TpsDdp *ddp, GError **error)
{
  gint64 deadline_ns;

  cancel_all (ddp);
  deadline_ns = tps_clock_now_ns () + DRAIN_NS;
  tps_mutex_lock (&ddp->lock);
  while (ddp->n_in_flight > 0 && tps_cond_wait_until (&ddp->changed, &ddp->lock, deadline_ns))
    continue;
  tps_mutex_unlock (&ddp->lock);
  if (check_device (ddp, error))
    g_propagate_error (error, g_error_copy (ddp->error));
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
      give_up_step (ddp, error);
      return FALSE;
    }
  for (guint b = 0; ddp->stager != NULL && b < ddp->layout.n_buckets; b++)
    tps_staged_bucket_expect (ddp->slots[b].staged);
  return TRUE;
}

/* Fails the step because the model has not reported all gradients. Otherwise the step would end
 * without the buckets that have not been launched. */
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
    tps_bucket_slot_zero_grad (&ddp->slots[b]);
}

const TpsGradient *
tps_ddp_get_reduced (const TpsDdp *ddp, guint bucket)
{
  return &ddp->slots[bucket].reduced;
}

void
tps_ddp_step_sgd (TpsDdp *ddp, gdouble learning_rate)
{
  for (guint b = 0; b < ddp->layout.n_buckets; b++)
    tps_bucket_slot_step_sgd (&ddp->slots[b], learning_rate);
}

gboolean
tps_ddp_digest (const TpsDdp *ddp, guint8 digest[16], GError **error)
{
  return parameters_digest (ddp->model, digest, error);
}

gboolean
tps_ddp_check_layouts (TpsDdp *ddp, gboolean *on_devices, GError **error)
{
  const TpsHookContext *context = ddp->options.context;
  const TpsLayoutFacts facts = {
    .layout = &ddp->layout,
    .parameters = ddp->model->parameters,
    .compression = &ddp->options.compression,
    .on_device = ddp->stager != NULL,
  };
  gboolean ok;

  *on_devices = FALSE;
  if (context->group == NULL)
    return TRUE;
  report_alive (ddp, tps_clock_now_ns () + context->timeout_ns);
  ok = layout_check (&facts, context->group, on_devices, error);
  report_alive (ddp, 0);
  return ok;
}
