/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/trainer/ddp/fleet.h"

GVariant *
model_config (bool sparse, gint64 rows, gint64 width, gint64 layers)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, nullptr);
  g_variant_dict_insert (&dict, "num_embeddings", "x", rows);
  g_variant_dict_insert (&dict, "embedding_dim", "x", width);
  g_variant_dict_insert (&dict, "dense_input_size", "x", width);
  g_variant_dict_insert (&dict, "dense_output_size", "x", width);
  g_variant_dict_insert (&dict, "dense_layers_count", "x", layers);
  g_variant_dict_insert (&dict, "sparse", "b", static_cast<gboolean> (sparse));
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

TpsTrainBatch
make_batch (gint64 n, gint64 length, const std::function<gint64 (gint64)> &id,
            const std::function<gint64 (gint64)> &target)
{
  TpsTrainBatch batch = {};

  tps_tensor_init_2d (&batch.input, TPS_DTYPE_INT64, n, length);
  tps_tensor_init_1d (&batch.target, TPS_DTYPE_INT64, n);
  for (gint64 i = 0; i < n * length; i++)
    static_cast<gint64 *> (tps_tensor_data (&batch.input))[i] = id (i);
  for (gint64 i = 0; i < n; i++)
    static_cast<gint64 *> (tps_tensor_data (&batch.target))[i] = target (i);
  return batch;
}
