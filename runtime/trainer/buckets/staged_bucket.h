/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

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

#pragma once

#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

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

G_END_DECLS
