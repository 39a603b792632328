/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Distributed data parallel: a model whose gradients are averaged among trainers, bucket by bucket,
 * while the rest of the backward pass is still computed.
 *
 * It owns the memory of all parameters and gradients: one buffer of each for every bucket, so that
 * a bucket is sent as it lies. The averages stay in the buffers they came in; the optimizer reads
 * them there.
 *
 * All of it lies in the memory of the model's device. On one that is not the host, gradients are
 * sent from where they lie if the hook can reach them there (TpsHookReach), else by way of
 * page-locked memory; averages come back to the device, and what follows a step is enqueued on the
 * model's stream.
 *
 * One thread at a time, but for tps_ddp_get_layout().
 */

#pragma once

#include "runtime/trainer/buckets/buckets.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/ports/hook.h"

G_BEGIN_DECLS

typedef struct TpsDdp TpsDdp;

typedef struct
{
  gdouble first_bucket_mib;
  gdouble bucket_cap_mib;
  TpsCompression compression; /* all zero: none */
  const TpsHook *hook;
  const TpsHookContext
      *context; /* borrowed; what it points to outlives every step, see tps_ddp_free() */

  /* Optional: called on the training thread when there was progress (0), or before it waits until
   * at most `until_ns`. */
  void (*alive) (gpointer user_data, gint64 until_ns);
  gpointer user_data;
} TpsDdpOptions;

/* Lays out buckets and binds the model's parameters to them; values and gradients are zero. Borrows
 * the model, whose stream outlives the DDP. Errors: INVALID_ARGUMENT (a bucket size; a sparse
 * parameter that is no matrix), RESOURCE_EXHAUSTED, DEVICE_LOST. */
TpsDdp *tps_ddp_new (TpsModel *model, const TpsDdpOptions *options, GError **error);

/* Unbinds the model. Free the exchange and the group first: after a failed step they may still hold
 * on to memory of the buckets. */
void tps_ddp_free (TpsDdp *ddp);

/* Borrowed. */
const TpsBucketLayout *tps_ddp_get_layout (const TpsDdp *ddp);

/* With a group: whether all ranks have the same layout; `on_devices` says whether all have their
 * buckets in a device's memory, for the hook's context (FALSE without a group). Errors:
 * INVALID_ARGUMENT naming a rank that differs, those of the group. */
gboolean tps_ddp_check_layouts (TpsDdp *ddp, gboolean *on_devices, GError **error);

/* Lets go of the averages of the last step. */
void tps_ddp_zero_grad (TpsDdp *ddp);

/* Runs the model's backward pass and waits until every bucket is reduced. The hook of a bucket is
 * called as soon as its last gradient, and those of the buckets before it, are ready.
 *
 * Errors: DEVICE_LOST where the device failed; else the first of any bucket, everything else of
 * this pass is then cancelled; DEADLINE_EXCEEDED naming the buckets that were not answered. The DDP
 * may not be used again after an error. No hook holds on to a gradient when this returns, unless it
 * does not even end after it was cancelled. */
gboolean tps_ddp_backward (TpsDdp *ddp, const gfloat *output_gradient, GError **error);

/* Takes part in a step without data: every bucket with weight 0. Errors as above. */
gboolean tps_ddp_join_step (TpsDdp *ddp, GError **error);

/* The average of a bucket after a step: DENSE (FLOAT32 [n_elems], in packing order), SPARSE, or
 * NONE where there is nothing to apply. In the memory of the model's device, for what is enqueued
 * on its stream. Borrowed until tps_ddp_zero_grad() or the next step. */
const TpsGradient *tps_ddp_get_reduced (const TpsDdp *ddp, guint bucket);

/* parameters -= learning_rate x average, as torch.optim.SGD without momentum. */
void tps_ddp_step_sgd (TpsDdp *ddp, gdouble learning_rate);

/* XXH3-128, in its canonical (big-endian) form, of all parameters' elements in the model's order.
 * Waits for the model's stream. Errors: DEVICE_LOST. */
gboolean tps_ddp_digest (const TpsDdp *ddp, guint8 digest[16], GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDdp, tps_ddp_free)

G_END_DECLS
