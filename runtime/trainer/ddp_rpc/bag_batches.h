/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The training data of the DDP + RPC scenario: bags of ids with a class for each, drawn from a seed
 * during the training. Every trainer and epoch has a stream of its own, so the data of a trainer do
 * not depend on the other trainers. The data are equal on every platform.
 *
 * A batch has n ids, n uniform in [20, 50]. The first bag begins at 0. Each further bag begins 1 to
 * 10 ids later, as long as that is less than n; the last bag has the remaining ids. There are two
 * tasks:
 *
 *   RANDOM      ids uniform in [0, num_embeddings), classes uniform in [0, 8). Only the
 *               frequencies of the classes can be learnt
 *   LEARNABLE   a class for each bag, and ids of that class: id mod C, where C is 8, or
 *               num_embeddings if that is less. So any id of a bag determines its class, and the
 *               least possible loss is 0
 *
 * Numbers are drawn (tps_rng_next_below()) in this order: n; RANDOM: the ids; the steps between
 * bags; the classes; LEARNABLE: the ids. The stream is 2^63 + trainer * 2^32 + epoch.
 */

#pragma once

#include "runtime/base/rng.h"

#define TPS_BAG_BATCH_MAX_INDICES 50
#define TPS_BAG_CLASSES 8

typedef enum
{
  TPS_BAG_TASK_RANDOM = 1,
  TPS_BAG_TASK_LEARNABLE = 2,
} TpsBagTask;

typedef struct
{
  guint n_indices;
  guint n_bags;
  gint64 indices[TPS_BAG_BATCH_MAX_INDICES];
  gint64 offsets[TPS_BAG_BATCH_MAX_INDICES]; /* of the bags; the first is 0 */
  gint64 targets[TPS_BAG_BATCH_MAX_INDICES]; /* of the bags */
} TpsBagBatch;

typedef struct
{
  TpsBagTask task;
  gint64 num_embeddings; /* >= 1 */
  guint batches_per_epoch;
  gint64 seed;
  guint trainer;
  guint first_epoch;
} TpsBagBatchesOptions;

/* Lives in the caller's storage. Thread: one at a time. */
typedef struct
{
  TpsBagBatchesOptions options;
  guint epoch;
  guint index; /* of the next batch in its epoch */
  TpsRng rng;
} TpsBagBatches;

/* Starts the sequence of batches. No cleanup is needed. */
void tps_bag_batches_init (TpsBagBatches *batches, const TpsBagBatchesOptions *options);

/* Draws the next batch. After the last batch of an epoch, draws the first batch of the next
 * epoch. */
void tps_bag_batches_next (TpsBagBatches *batches, TpsBagBatch *batch);

/* Finds a task by its name, "random" or "learnable". Errors: TPS_ERROR_INVALID_ARGUMENT; the
 * message lists the known names. */
gboolean tps_bag_task_find (const gchar *name, TpsBagTask *task, GError **error);
