/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of one round. Contributions are folded into a sum in the order in which they are
 * given, and the sum is divided. A reduction has no lock and no order of its own: the state machine
 * (averaging.h) selects the contributions of each fold and its time.
 *
 * Bits: the sum is FLOAT32, or FLOAT64 for FLOAT64 gradients. It starts with weight * the first
 * gradient; weight * each further gradient is added to it. The sum is divided once by the sum of
 * the weights and rounded once to the gradients' dtype. The grouping of contributions into folds,
 * and of a fold into block ranges, makes no difference.
 *
 * Memory: the first gradient becomes the sum in place if its type and weight allow it, its buffer
 * is not small and it has no other owner. With a device, dense sums lie in its memory. Dense
 * gradients may lie there; if all of them do, the average lies there, too. Sparse gradients and
 * sums are in host memory.
 */

#pragma once

#include "runtime/server/averaging/device_sum.h"
#include "runtime/server/averaging/digest.h"

G_BEGIN_DECLS

typedef struct TpsFold TpsFold;

/* The contribution of one trainer to a round. */
typedef struct
{
  TpsGradient gradient; /* emptied by the fold */
  gboolean has_digest;
  TpsDigest digest;
} TpsFoldItem;

typedef struct
{
  gboolean is_sum;        /* no division */
  TpsBufferPool *buffers; /* borrowed */
  /* For averages of gradients in shared memory; borrowed; NULL = `buffers`. Must be set after
   * init() and before the first fold. */
  TpsBufferPool *shared_buffers;
  TpsGradient sum; /* TPS_GRADIENT_NONE = no sum has begun */
  TpsDType dtype;  /* of the gradients */
  gdouble divisor; /* weights folded so far */

  /* Borrowed; NULL = dense sums are in host memory. Must be set after init() and before the first
   * fold. */
  TpsDeviceSums *on_device;
  TpsDeviceSum *device_sum; /* replaces the elements of sum.dense; NULL = no such sum has begun */
  gboolean has_host_share;  /* a dense gradient with a share in the sum came from host memory */
} TpsReduction;

/* One step of a reduction in progress. */
struct TpsFold
{
  TpsReduction *reduction;
  TpsFoldItem **items; /* borrowed */
  guint n_items;
  TpsGradient *average; /* borrowed; NULL = this is not the last fold */
  gboolean is_dense;
  TpsShape shape;      /* of dense gradients */
  TpsTensor output;    /* for a dense average that cannot lie in the sum */
  TpsDigest **hashes;  /* of the blocks of each dense item; NULL if the item has a digest */
  guint first;         /* the item that starts the sum; n_items if the sum has begun */
  gboolean is_adopted; /* the first item's elements are the sum */
  guint n_blocks;      /* >= 1; units of work: ranges of them may be run in parallel */
};

/* Initialises an empty reduction. `buffers` is borrowed until clear(); NULL = the default pool. */
void tps_reduction_init (TpsReduction *reduction, gboolean is_sum, TpsBufferPool *buffers);
void tps_reduction_clear (TpsReduction *reduction);

/* Returns TRUE if waiting for the next item saves a copy. If `item` is folded alone, it must be
 * copied to begin the sum; if it is folded together with the next item, it is only read. */
gboolean tps_reduction_gains_by_waiting (const TpsReduction *reduction, const TpsFoldItem *item);

/* Fold `items` in order, compute missing digests, and empty their gradients. With `average`, these
 * must be the last items. begin() sets n_blocks; run() for ranges that contain each
 * block once, on any threads; end() last. Only begin() can fail (then without end()), except for
 * sparse gradients and sums on a device, which are computed in end(). Errors: INVALID_ARGUMENT (no
 * weight above 0, or the weights of a mean exceed FLOAT32), RESOURCE_EXHAUSTED, DEVICE_LOST; then
 * only tps_reduction_clear() may be called. */
gboolean tps_fold_begin (TpsFold *fold, TpsReduction *reduction, TpsFoldItem **items, guint n_items,
                         TpsGradient *average, GError **error);
void tps_fold_run (TpsFold *fold, guint first_block, guint n_blocks);
gboolean tps_fold_end (TpsFold *fold, GError **error);

G_END_DECLS
