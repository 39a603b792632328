/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state of one bucket of a DDP: the memory of its parameters and gradients, the call that is
 * passed to its hook, and the average of a step. Internal to this folder.
 *
 * On the host, the hook uses the bucket's own memory. On a device there are two calls: one in the
 * device's memory, and one in page-locked host memory, which may be compressed (staged_bucket.h).
 */

#pragma once

#include "runtime/trainer/buckets/buckets.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/buckets/staged_bucket.h"

G_BEGIN_DECLS

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

G_END_DECLS
