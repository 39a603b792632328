/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Training data that a master generates from a seed. A seed gives the same data on every
 * platform. */

#pragma once

#include "runtime/base/registry.h"
#include "runtime/tensor/batch.h"

G_BEGIN_DECLS

/* Owns its tensors; must be cleared with tps_dataset_clear(). */
typedef struct
{
  TpsTensor input;  /* INT64 [samples, length] */
  TpsTensor target; /* INT64 [samples] */
} TpsDataset;

/* An entry of the data registry ("DummyData"). */
typedef struct
{
  const gchar *name;
  /* Initialises `dataset` with samples generated from `seed`. The caller owns the dataset. Errors:
   * INVALID_ARGUMENT naming the configuration key; RESOURCE_EXHAUSTED. */
  gboolean (*generate) (GVariant *config, gint64 seed, TpsDataset *dataset, GError **error);
} TpsDataClass;

TPS_DECLARE_REGISTRY (TpsDataClass, tps_data_class);

/* Releases the tensors. */
void tps_dataset_clear (TpsDataset *dataset);

/* Divides the samples into batches of `batch_size` (the last may be shorter) and distributes them
 * in strides: trainer r gets batches r, r + n_trainers, …. Batches reference the memory of the
 * dataset without copying it. Returns an array of `n_trainers` GArrays of TpsTrainBatch, owned by
 * the caller (g_ptr_array_unref() frees everything). */
GPtrArray *tps_dataset_deal (const TpsDataset *dataset, guint batch_size, guint n_trainers);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDataset, tps_dataset_clear)

G_END_DECLS
