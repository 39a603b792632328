/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A bucket of a device's memory on its way through the host, and back. Internal to this folder.
 *
 * Each step: contribute() on the training thread marks where the model's stream completes the
 * gradient -> on another thread either wait(), and the gradient goes where a device's memory is
 * taken, or bring_up(), and it lies in page-locked memory -> the receiver of the average calls
 * bring_back() -> expect() on the training thread: what the model's stream does next finds the
 * average in the device's memory. One step after the other, one call at a time.
 *
 * Page-locked memory is kept from step to step. Copies run on a stream of the bucket's own, so that
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
  TpsEvent *returned; /* on `stream`: the average is there */

  TpsBucketCall
      call; /* what a hook is given that takes a device's memory: tensors are the device's */
  TpsTensor weight; /* page-locked FLOAT32 [1], for the hook */
  TpsTensor host;   /* page-locked FLOAT32 [n_elems + 1], of a dense bucket */

  /* Of rows; as large as was needed so far. */
  TpsBuffer *host_ids, *host_rows;     /* page-locked: the trainer's, then the average's */
  TpsBuffer *device_ids, *device_rows; /* the average's */
} TpsStagedBucket;

/* Of `gradient`, FLOAT32 [n_elems + 1] in the memory of the model's device, or of rows where that
 * is NULL. `done` and `user_data` are those of its call. Errors: RESOURCE_EXHAUSTED,
 * DEVICE_LOST. */
TpsStagedBucket *tps_staged_bucket_new (TpsStream *model, const TpsBucketCall *like,
                                        const TpsTensor *gradient, GError **error);

/* Waits for what it has queued. */
void tps_staged_bucket_free (TpsStagedBucket *self);

/* This step's gradient, of which references are taken; NONE takes part with zeros. Enqueues
 * only. */
void tps_staged_bucket_contribute (TpsStagedBucket *self, const TpsGradient *gradient);

/* Until the gradient is complete. Errors: DEVICE_LOST. */
gboolean tps_staged_bucket_wait (TpsStagedBucket *self, GError **error);

/* The same, and a copy of it in page-locked memory: valid until the next bring_up() or
 * bring_back(). Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_staged_bucket_bring_up (TpsStagedBucket *self, TpsGradient *copy, GError **error);

/* Turns `average`, checked FLOAT32 elements in host memory, into the same in the device's, where it
 * is once expect() has passed. Dense ones go into the memory of the bucket's gradient. Errors:
 * DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_staged_bucket_bring_back (TpsStagedBucket *self, TpsGradient *average, GError **error);

/* What the model's stream does from now on finds what was brought back, or what a hook did on the
 * bucket's stream. */
void tps_staged_bucket_expect (TpsStagedBucket *self);

G_END_DECLS
