/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ddp_rpc/bag_batches.h"

#include "runtime/base/error.h"

#define MIN_INDICES 20                         /* of a batch */
#define MAX_STEP 10                            /* between the beginnings of two bags */
#define STREAMS (G_GUINT64_CONSTANT (1) << 63) /* disjoint from the streams of parameters */

static void
begin_epoch (TpsBagBatches *batches)
{
  tps_rng_init (&batches->rng, batches->options.seed,
                STREAMS | (guint64) batches->options.trainer << 32 | batches->epoch);
  batches->index = 0;
}

void
tps_bag_batches_init (TpsBagBatches *batches, const TpsBagBatchesOptions *options)
{
  batches->options = *options;
  batches->epoch = options->first_epoch;
  begin_epoch (batches);
}

static gint64
draw (TpsBagBatches *batches, gint64 bound)
{
  return (gint64) tps_rng_next_below (&batches->rng, (guint64) bound);
}

static void
draw_any_ids (TpsBagBatches *batches, TpsBagBatch *batch)
{
  for (guint i = 0; i < batch->n_indices; i++)
    batch->indices[i] = draw (batches, batches->options.num_embeddings);
}

static void
draw_offsets (TpsBagBatches *batches, TpsBagBatch *batch)
{
  batch->n_bags = 0;
  for (gint64 start = 0; start < batch->n_indices; start += 1 + draw (batches, MAX_STEP))
    batch->offsets[batch->n_bags++] = start;
}

static void
draw_targets (TpsBagBatches *batches, TpsBagBatch *batch, gint64 n_classes)
{
  for (guint bag = 0; bag < batch->n_bags; bag++)
    batch->targets[bag] = draw (batches, n_classes);
}

/* Draws ids that equal the target of their bag modulo n_classes. */
static void
draw_ids_of_targets (TpsBagBatches *batches, TpsBagBatch *batch, gint64 n_classes)
{
  guint bag = 0;

  for (guint i = 0; i < batch->n_indices; i++)
    {
      gint64 target;

      if (bag + 1 < batch->n_bags && batch->offsets[bag + 1] == i)
        bag++;
      target = batch->targets[bag];
      batch->indices[i] = target
                          + n_classes
                                * draw (batches,
                                        (batches->options.num_embeddings - 1 - target) / n_classes
                                            + 1);
    }
}

void
tps_bag_batches_next (TpsBagBatches *batches, TpsBagBatch *batch)
{
  gboolean is_learnable = batches->options.task == TPS_BAG_TASK_LEARNABLE;
  gint64 n_classes = TPS_BAG_CLASSES;

  if (batches->index == batches->options.batches_per_epoch)
    {
      batches->epoch++;
      begin_epoch (batches);
    }
  batches->index++;
  batch->n_indices = MIN_INDICES
                     + (guint) draw (batches, TPS_BAG_BATCH_MAX_INDICES - MIN_INDICES + 1);
  if (is_learnable)
    n_classes = MIN (n_classes, batches->options.num_embeddings);
  else
    draw_any_ids (batches, batch);
  draw_offsets (batches, batch);
  draw_targets (batches, batch, n_classes);
  if (is_learnable)
    draw_ids_of_targets (batches, batch, n_classes);
}

gboolean
tps_bag_task_find (const gchar *name, TpsBagTask *task, GError **error)
{
  if (g_str_equal (name, "random"))
    *task = TPS_BAG_TASK_RANDOM;
  else if (g_str_equal (name, "learnable"))
    *task = TPS_BAG_TASK_LEARNABLE;
  else
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "unknown task \"%s\"; known: learnable, random", name);
  return TRUE;
}
