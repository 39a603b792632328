/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of one round. Contributions are folded into a sum in the order in which they are
 * given, and the sum is divided. It has no lock and no order of its own: the state machine above
 * decides when to fold which contributions.
 *
 * Bits: the sum is of FLOAT32 (FLOAT64 for FLOAT64). It starts with weight * the first gradient and
 * grows by weight * each further one. It is divided once by the sum of the weights and rounded once
 * to the gradients' dtype. The grouping of contributions into folds, and of a fold into block
 * ranges, makes no difference.
 *
 * Memory: the first gradient becomes the sum in place if its type and weight allow it and it has no
 * other owner. With a device, dense sums lie in its memory, and dense gradients may; if all of them
 * do, so does the average. Sparse gradients and sums are in host memory.
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
  /* for averages of gradients in shared memory; borrowed; NULL: also `buffers`. Must be set after
   * init(), before the first fold */
  TpsBufferPool *shared_buffers;
  TpsGradient sum; /* TPS_GRADIENT_NONE: no sum has begun */
  TpsDType dtype;  /* of the gradients */
  gdouble divisor; /* weights folded so far */

  /* borrowed; NULL: dense sums are in host memory. Must be set after init(), before the first
   * fold */
  TpsDeviceSums *on_device;
  TpsDeviceSum *device_sum; /* replaces the elements of sum.dense; NULL: no sum has begun */
  gboolean has_host_share;  /* a dense gradient with a share in the sum came from host memory */
} TpsReduction;

/* One step of a reduction in progress. */
struct TpsFold
{
  TpsReduction *reduction;
  TpsFoldItem **items; /* borrowed */
  guint n_items;
  TpsGradient *average; /* borrowed; NULL: more contributions are to come */
  gboolean is_dense;
  TpsShape shape;      /* of dense gradients */
  TpsTensor output;    /* for a dense average that cannot lie in the sum */
  TpsDigest **hashes;  /* of the blocks of each dense item; NULL if the item has a digest */
  guint first;         /* the item that starts the sum; n_items if the sum has begun */
  gboolean is_adopted; /* the first item's elements are the sum */
  guint n_blocks;      /* >= 1; units of work: ranges of them may be run in parallel */
};

/* Begins a reduction without contributions. `buffers` is borrowed until clear(). */
void tps_reduction_init (TpsReduction *reduction, gboolean is_sum, TpsBufferPool *buffers);
void tps_reduction_clear (TpsReduction *reduction);

/* Returns whether waiting for the next item saves a copy. If `item` is folded alone, it must be
 * copied to begin the sum; if it is folded together with the next item, it is only read. */
gboolean tps_reduction_gains_by_waiting (const TpsReduction *reduction, const TpsFoldItem *item);

/* Folds `items` in order, computes missing digests, and empties their gradients. If `average` is
 * not NULL, these are the last items, and it receives the result. Runs on the calling thread.
 * Errors: TPS_ERROR_INVALID_ARGUMENT (no weight is greater than 0), TPS_ERROR_RESOURCE_EXHAUSTED,
 * TPS_ERROR_DEVICE_LOST; the reduction must not be used any more then. */
gboolean tps_reduction_fold (TpsReduction *reduction, TpsFoldItem **items, guint n_items,
                             TpsGradient *average, GError **error);

/* The same in steps: begin, run all blocks (ranges of them in any order, on any threads), end.
 * begin() decides everything that can fail, except for sparse gradients and those of a device,
 * whose work is done in end(). If begin() fails, end() must not be called. */
gboolean tps_fold_begin (TpsFold *fold, TpsReduction *reduction, TpsFoldItem **items, guint n_items,
                         TpsGradient *average, GError **error);
void tps_fold_run (TpsFold *fold, guint first_block, guint n_blocks);
gboolean tps_fold_end (TpsFold *fold, GError **error);

/* Makes a tensor with uninitialised elements. Errors: TPS_ERROR_RESOURCE_EXHAUSTED. */
gboolean tps_reduction_allocate (TpsTensor *tensor, const TpsShape *shape, TpsBufferPool *buffers,
                                 GError **error);

G_END_DECLS
