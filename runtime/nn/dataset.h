/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Training data that a master generates from a seed. The data of a seed are the same on every
 * platform. */

#pragma once

#include "runtime/nn/batch.h"

G_BEGIN_DECLS

typedef struct
{
  TpsTensor input;  /* INT64 [samples, length] */
  TpsTensor target; /* INT64 [samples] */
} TpsDataset;

/* An entry of the data registry ("DummyData"). */
typedef struct
{
  const gchar *name;
  gboolean (*generate) (GVariant *config, gint64 seed, TpsDataset *dataset, GError **error);
} TpsDataClass;

/* The registry of data. Find: errors (NULL) NOT_FOUND; the message lists the known names. Register:
 * must be called before any trainer runs; `klass` must stay valid until the process ends. List:
 * static names, NULL-terminated, in an array owned by the caller (g_free). */
const TpsDataClass *tps_data_class_find (const gchar *name, GError **error);
void tps_data_class_register (const TpsDataClass *klass);
const gchar **tps_data_class_list (void);

/* Releases the tensors. */
void tps_dataset_clear (TpsDataset *dataset);

/* Divides the samples into batches of `batch_size` (the last may be shorter) and distributes them
 * in strides: trainer r gets batches r, r + n_trainers, …. Batches reference the memory of the
 * dataset without copying it. Returns an array of `n_trainers` GArrays of TpsTrainBatch, owned by
 * the caller (g_ptr_array_unref() frees everything). */
GPtrArray *tps_dataset_deal (const TpsDataset *dataset, guint batch_size, guint n_trainers);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDataset, tps_dataset_clear)

G_END_DECLS
