/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state of one bucket of a DDP: the memory of its parameters and gradients, the call that is
 * passed to its hook, and the average of a step. Internal to this folder.
 *
 * On the host, the hook uses the bucket's own memory. On a device there are two calls: one in the
 * device's memory, and one in page-locked host memory, which may be compressed.
 */

#pragma once

#include "runtime/trainer/buckets/buckets.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/ports/hook.h"

/* -- staged bucket -- */

/* Moves a bucket in device memory to the host and back. Internal to this folder.
 *
 * The sequence of a step: contribute() on the training thread records the point at which the
 * model's stream completes the gradient. Another thread then calls wait(), if the gradient is sent
 * from the device's memory, or bring_up(), which copies the gradient to page-locked memory. The
 * receiver of the average calls bring_back(). expect() on the training thread orders later work of
 * the model's stream after the average has arrived in the device's memory. Steps and calls must not
 * overlap.
 *
 * Page-locked memory is kept between steps. Copies run on a stream of the bucket's own, so that
 * neither the model's stream nor the training thread waits for them.
 */

typedef struct
{
  TpsStream *model; /* the model's stream; borrowed */
  TpsStream *stream;
  TpsEvent *ready;    /* on the model's stream: the gradient is complete */
  TpsEvent *returned; /* on `stream`: the average has arrived */

  TpsBucketCall call; /* for hooks that work in device memory: its tensors are the device's */
  TpsTensor weight;   /* page-locked FLOAT32 [1], for the hook */
  TpsTensor host;     /* page-locked FLOAT32 [n_elems + 1], of a dense bucket */

  /* Buffers of rows; they grow on demand. */
  TpsBuffer *host_ids, *host_rows;     /* page-locked: the trainer's, then the average's */
  TpsBuffer *device_ids, *device_rows; /* the average's */
} TpsStagedBucket;

/* Creates the bucket, owned by the caller. `gradient` is FLOAT32 [n_elems + 1] in the memory of the
 * model's device, or NULL for rows. `done` and `user_data` of its call are those of `like`. Errors:
 * RESOURCE_EXHAUSTED, DEVICE_LOST. */
TpsStagedBucket *tps_staged_bucket_new (TpsStream *model, const TpsBucketCall *like,
                                        const TpsTensor *gradient, GError **error);

/* Waits for the work on the bucket's stream and frees the bucket. */
void tps_staged_bucket_free (TpsStagedBucket *self);

/* Sets the gradient of this step and takes references to it; NONE contributes zeros with its
 * weight. Only enqueues. */
void tps_staged_bucket_contribute (TpsStagedBucket *self, const TpsGradient *gradient);

/* Waits until the gradient is complete. Errors: DEVICE_LOST. */
gboolean tps_staged_bucket_wait (TpsStagedBucket *self, GError **error);

/* As tps_staged_bucket_wait(), but also copies the gradient to page-locked memory. `copy` is valid
 * until the next bring_up() or bring_back(). Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_staged_bucket_bring_up (TpsStagedBucket *self, TpsGradient *copy, GError **error);

/* Replaces `average`, checked FLOAT32 elements in host memory, by elements in the device's memory.
 * They are valid after expect(). Dense elements go to the memory of the bucket's gradient. Errors:
 * DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_staged_bucket_bring_back (TpsStagedBucket *self, TpsGradient *average, GError **error);

/* Orders later work of the model's stream after the copies of bring_back() and after a hook's work
 * on the bucket's stream. */
void tps_staged_bucket_expect (TpsStagedBucket *self);

typedef struct
{
  TpsStream *stream; /* the model's stream; borrowed */
  TpsTensor values;
  TpsTensor gradient;      /* of a dense bucket; has one more element, for a weight */
  TpsBucketCall call;      /* in host memory */
  TpsStagedBucket *staged; /* NULL on the host */
  TpsCompressor *compressor;
  guint n_unready; /* gradients of this step that the model has not yet reported */

  /* Under the DDP's lock during a step. */
  gboolean is_in_flight;
  TpsGradient reduced; /* in the memory of the model's device */

  /* On a device: the average of the previous step, which the stream may still be reading. */
  TpsGradient retired;
} TpsBucketSlot;

/* Options shared by all slots of a DDP. */
typedef struct
{
  TpsModel *model;
  const TpsCompression *compression;
  /* The callbacks of calls in host memory and in device memory. */
  void (*done) (TpsBucketCall *call, TpsGradient *reduced, const GError *error);
  void (*done_on_device) (TpsBucketCall *call, TpsGradient *reduced, const GError *error);
  void (*failing) (TpsBucketCall *call, const GError *error); /* of both */
  gpointer user_data;
} TpsBucketSlotOptions;

/* Checks that all parameters can be placed in buckets. Errors: INVALID_ARGUMENT naming a parameter
 * that cannot. */
gboolean tps_bucket_slot_check_model (const TpsModel *model, GError **error);

/* Initialises the slot of bucket `index` with zero values and gradients. `slot` must be zeroed
 * memory, and must be cleared even after an error. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_bucket_slot_init (TpsBucketSlot *slot, guint index, const TpsBucket *bucket,
                               const TpsBucketSlotOptions *options, GError **error);
/* Releases the memory. The model's stream must have passed all work that uses this memory. */
void tps_bucket_slot_clear (TpsBucketSlot *slot);

/* Moves the gradients of a dense bucket in host memory to `buffer`, which must be as large as
 * call.storage. Takes a reference to `buffer`. Afterwards the values of the gradients are
 * undefined, and the model's parameters must be bound again. Must be called between steps. */
void tps_bucket_slot_move_gradient (TpsBucketSlot *slot, TpsBuffer *buffer);

/* Sets this trainer's contribution to the step: the model's gradients, or no data. */
void tps_bucket_slot_contribute (TpsBucketSlot *slot, const TpsBucket *bucket,
                                 const TpsModel *model, gboolean has_data);

/* Releases the contribution and the average of the last step. On a device, the average becomes
 * `retired` and is released one step later. */
void tps_bucket_slot_zero_grad (TpsBucketSlot *slot);

/* values -= learning_rate x average, enqueued on the model's stream. Does nothing without an
 * average. */
void tps_bucket_slot_step_sgd (TpsBucketSlot *slot, gdouble learning_rate);
