/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of one round: contributions are folded into a sum in the order in which they are
 * given, and the sum is divided. No lock and no order of its own: the state machine above decides
 * what is folded when.
 *
 * Bits: the sum is of FLOAT32 (FLOAT64 for FLOAT64), starts with weight * the first gradient, grows
 * by weight * each further one, is divided once by the sum of the weights and rounded once to the
 * gradients' dtype. How the contributions are grouped into folds, and a fold into block ranges,
 * makes no difference.
 *
 * Memory: the first gradient becomes the sum where it lies, if its type and weight allow it and
 * nobody else holds it. With a device dense sums lie in its memory, and dense gradients may: where
 * all of them do, so does the average. What is sparse stays with the host.
 */

#pragma once

#include "runtime/server/averaging/device_sum.h"
#include "runtime/server/averaging/digest.h"

G_BEGIN_DECLS

typedef struct TpsFold TpsFold;

/* What one trainer brings to a round. */
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
  TpsGradient sum;        /* TPS_GRADIENT_NONE: nothing yet */
  TpsDType dtype;         /* of the gradients */
  gdouble divisor;        /* weights folded so far */

  /* borrowed; NULL: dense sums are the host's. Set after init(), before the first fold */
  TpsDeviceSums *on_device;
  TpsDeviceSum *device_sum; /* in place of sum.dense's elements; NULL: nothing yet */
  gboolean has_host_share;  /* a dense gradient that counts came from host memory */
} TpsReduction;

/* One step of a reduction, under way. */
struct TpsFold
{
  TpsReduction *reduction;
  TpsFoldItem **items; /* borrowed */
  guint n_items;
  TpsGradient *average; /* borrowed; NULL: more is to come */
  gboolean is_dense;
  TpsShape shape;      /* of dense gradients */
  TpsTensor output;    /* of a dense average, where it cannot lie in the sum */
  TpsDigest **hashes;  /* of the blocks of each dense item, NULL where it has a digest */
  guint first;         /* the item that starts the sum; n_items where it is there already */
  gboolean is_adopted; /* the first item's elements are the sum */
  guint n_blocks;      /* >= 1; of work: ranges of them may be run in parallel */
};

void tps_reduction_init (TpsReduction *reduction, gboolean is_sum, TpsBufferPool *buffers);
void tps_reduction_clear (TpsReduction *reduction);

/* Whether `item`, folded alone, would be copied to begin the sum; folded with the next one it is
 * only read. */
gboolean tps_reduction_gains_by_waiting (const TpsReduction *reduction, const TpsFoldItem *item);

/* Folds `items` in order, gives a digest to those that have none, and empties their gradients.
 * `average` not NULL: these are the last; it becomes the result. Runs on the calling thread.
 * Errors: TPS_ERROR_INVALID_ARGUMENT (no weight is greater than 0), TPS_ERROR_RESOURCE_EXHAUSTED,
 * TPS_ERROR_DEVICE_LOST; the reduction is of no use then. */
gboolean tps_reduction_fold (TpsReduction *reduction, TpsFoldItem **items, guint n_items,
                             TpsGradient *average, GError **error);

/* The same in steps: begin, run all blocks (ranges of them in any order, on any threads), end.
 * begin() decides all that can fail, except for sparse gradients and those of a device, whose work
 * is done in end(); where it fails, that is all. */
gboolean tps_fold_begin (TpsFold *fold, TpsReduction *reduction, TpsFoldItem **items, guint n_items,
                         TpsGradient *average, GError **error);
void tps_fold_run (TpsFold *fold, guint first_block, guint n_blocks);
gboolean tps_fold_end (TpsFold *fold, GError **error);

/* Uninitialised elements. Errors: TPS_ERROR_RESOURCE_EXHAUSTED. */
gboolean tps_reduction_allocate (TpsTensor *tensor, const TpsShape *shape, TpsBufferPool *buffers,
                                 GError **error);

G_END_DECLS
