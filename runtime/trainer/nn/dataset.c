/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/dataset.h"

#include "runtime/trainer/nn/dummy_data.h"

static const gconstpointer built_in[] = { &tps_dummy_data_class };

TpsRegistry tps_data_class_registry = TPS_REGISTRY_INIT ("data", built_in);

void
tps_dataset_clear (TpsDataset *dataset)
{
  tps_tensor_clear (&dataset->input);
  tps_tensor_clear (&dataset->target);
}

/* Initialises `part` as a reference to the samples [first, first + n) of a tensor [samples, …]. */
static void
take_samples (TpsTensor *part, const TpsTensor *whole, gint64 first, gint64 n)
{
  gint64 samples = whole->shape.dims[0];

  tps_tensor_init_ref (part, whole);
  part->offset += tps_shape_n_bytes (&whole->shape) / (gsize) samples * (gsize) first;
  part->shape.dims[0] = n;
}

static void
clear_batch (gpointer batch)
{
  tps_train_batch_clear (batch);
}

static void
free_batches (gpointer batches)
{
  g_array_unref (batches);
}

GPtrArray *
tps_dataset_deal (const TpsDataset *dataset, guint batch_size, guint n_trainers)
{
  GPtrArray *dealt = g_ptr_array_new_with_free_func (free_batches);
  gint64 n_samples = dataset->target.shape.dims[0];
  guint trainer = 0;

  g_assert (batch_size > 0 && n_trainers > 0);
  for (guint i = 0; i < n_trainers; i++)
    {
      GArray *batches = g_array_new (FALSE, TRUE, sizeof (TpsTrainBatch));

      g_array_set_clear_func (batches, clear_batch);
      g_ptr_array_add (dealt, batches);
    }
  for (gint64 first = 0; first < n_samples; first += batch_size)
    {
      gint64 n = MIN (batch_size, n_samples - first);
      TpsTrainBatch batch;

      take_samples (&batch.input, &dataset->input, first, n);
      take_samples (&batch.target, &dataset->target, first, n);
      g_array_append_val (g_ptr_array_index (dealt, trainer), batch);
      trainer = (trainer + 1) % n_trainers;
    }
  return dealt;
}
