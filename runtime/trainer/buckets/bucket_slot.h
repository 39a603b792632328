/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What one bucket of a DDP needs: the memory of its parameters and gradients, the call that its
 * hook is given, and the average of a step. Internal to this folder.
 *
 * On the host the hook is given the bucket's own memory. Of a device there are two calls, one in
 * its memory and one in page-locked memory of the host, which is compressed where that was asked
 * for (staged_bucket.h).
 */

#pragma once

#include "runtime/trainer/buckets/buckets.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/buckets/staged_bucket.h"

G_BEGIN_DECLS

typedef struct
{
  TpsStream *stream; /* the model's; borrowed */
  TpsTensor values;
  TpsTensor gradient;      /* of a dense bucket; an element longer than it, for a weight */
  TpsBucketCall call;      /* in host memory */
  TpsStagedBucket *staged; /* NULL on the host */
  TpsCompressor *compressor;
  guint n_unready; /* gradients of this step that the model has not reported yet */

  /* Under the DDP's lock while a step runs. */
  gboolean is_in_flight;
  TpsGradient reduced; /* in the memory of the model's device */

  TpsGradient
      retired; /* the last step's average, of a device: its stream may still be reading it */
} TpsBucketSlot;

/* What slots of a DDP have in common. */
typedef struct
{
  TpsModel *model;
  const TpsCompression *compression;
  /* Of calls in host memory, and in a device's. */
  void (*done) (TpsBucketCall *call, TpsGradient *reduced, const GError *error);
  void (*done_on_device) (TpsBucketCall *call, TpsGradient *reduced, const GError *error);
  gpointer user_data;
} TpsBucketSlotOptions;

/* Whether all of its parameters can lie in buckets. Errors: INVALID_ARGUMENT naming one that
 * cannot. */
gboolean tps_bucket_slot_check_model (const TpsModel *model, GError **error);

/* Number `index` of the layout; values and gradients are zero. `slot` is zeroed memory, to be
 * cleared in any case. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST. */
gboolean tps_bucket_slot_init (TpsBucketSlot *slot, guint index, const TpsBucket *bucket,
                               const TpsBucketSlotOptions *options, GError **error);
/* The model's stream has passed what uses it. */
void tps_bucket_slot_clear (TpsBucketSlot *slot);

/* This trainer's part in this step, of the model's gradients; or nothing. */
void tps_bucket_slot_contribute (TpsBucketSlot *slot, const TpsBucket *bucket,
                                 const TpsModel *model, gboolean has_data);

/* Lets go of the last step's average and contribution. */
void tps_bucket_slot_zero_grad (TpsBucketSlot *slot);

/* values -= learning_rate x average. */
void tps_bucket_slot_step_sgd (TpsBucketSlot *slot, gdouble learning_rate);

G_END_DECLS
