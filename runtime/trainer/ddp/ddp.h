/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Distributed data parallel: a model whose gradients are averaged among trainers, bucket by bucket,
 * while the rest of the backward pass is still being computed.
 *
 * The DDP owns the memory of all parameters and gradients: for every bucket, one buffer with the
 * parameters and one with the gradients, so that a bucket is sent without packing. Between steps,
 * the gradients of a dense bucket may move to memory that the hook provides (TpsHook.get_memory).
 * Averages stay in the buffers in which they arrive, and the optimizer reads them there.
 *
 * All of this memory belongs to the model's device. If the device is not the host, gradients are
 * sent from device memory if the hook can access this memory (TpsHookReach), and otherwise through
 * page-locked memory. Averages return to the device, and the work after a step is enqueued on the
 * model's stream.
 *
 * Thread: one at a time, except for tps_ddp_get_layout().
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
  /* Borrowed; the objects in it must outlive every step, see tps_ddp_free(). */
  const TpsHookContext *context;

  /* Optional. Called on the training thread after progress (with 0), or before a wait that lasts
   * until `until_ns` at most. */
  void (*alive) (gpointer user_data, gint64 until_ns);
  gpointer user_data;
} TpsDdpOptions;

/* Lays out the buckets and binds the model's parameters to them, with zero values and gradients.
 * The DDP is owned by the caller. It borrows the model, whose stream must outlive it. Errors:
 * INVALID_ARGUMENT (a bucket size; a sparse parameter that is not a matrix), RESOURCE_EXHAUSTED,
 * DEVICE_LOST. */
TpsDdp *tps_ddp_new (TpsModel *model, const TpsDdpOptions *options, GError **error);

/* Unbinds the model and frees the DDP. The exchange and the group must be freed first, because
 * after a failed step they may still use the buckets' memory. */
void tps_ddp_free (TpsDdp *ddp);

/* Returns the layout, borrowed. Thread: any. */
const TpsBucketLayout *tps_ddp_get_layout (const TpsDdp *ddp);

/* Returns the call of a bucket, in host memory, borrowed. Between steps, only the members `index`
 * to `n_wire_bytes` are valid. They describe how the bucket travels. */
const TpsBucketCall *tps_ddp_get_call (const TpsDdp *ddp, guint bucket);

/* Checks that all ranks have the same layout, if there is a group. Sets `on_devices` to TRUE if
 * there is a group and the buckets of all ranks are in device memory, and otherwise to FALSE. The
 * caller must copy this value to TpsHookContext.group_on_devices. Blocks. Errors: INVALID_ARGUMENT
 * naming a rank that differs; those of the group. */
gboolean tps_ddp_check_layouts (TpsDdp *ddp, gboolean *on_devices, GError **error);

/* Releases the averages of the last step. */
void tps_ddp_zero_grad (TpsDdp *ddp);

/* Runs the model's backward pass and waits until every bucket is reduced. The hook of a bucket is
 * called as soon as the last gradient of this bucket and of all buckets before it is ready. On
 * return, no hook uses a gradient any more, except for a hook that has not ended in time after its
 * cancellation.
 *
 * Errors: DEVICE_LOST if the device has failed; otherwise the first error of any bucket, which
 * cancels the rest of the pass; DEADLINE_EXCEEDED naming the buckets without a reply. The DDP must
 * not be used again after an error. */
gboolean tps_ddp_backward (TpsDdp *ddp, const gfloat *output_gradient, GError **error);

/* Takes part in a step without data: every bucket has weight 0. Errors: as tps_ddp_backward(). */
gboolean tps_ddp_join_step (TpsDdp *ddp, GError **error);

/* Returns the average of a bucket after a step: DENSE (FLOAT32 [n_elems], in packing order),
 * SPARSE, or NONE if there is nothing to apply. It lies in the memory of the model's device and may
 * be used by work on the model's stream. Borrowed until tps_ddp_zero_grad() or the next step. */
const TpsGradient *tps_ddp_get_reduced (const TpsDdp *ddp, guint bucket);

/* parameters -= learning_rate x average, as torch.optim.SGD without momentum. Enqueues on the
 * model's stream. */
void tps_ddp_step_sgd (TpsDdp *ddp, gdouble learning_rate);

/* Computes the XXH3-128, in its canonical (big-endian) form, of the elements of all parameters in
 * the model's order. Waits for the model's stream. Errors: DEVICE_LOST. */
gboolean tps_ddp_digest (const TpsDdp *ddp, guint8 digest[16], GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDdp, tps_ddp_free)

G_END_DECLS
