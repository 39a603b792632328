/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/model/update_digest.h"

#include "runtime/server/push_digest.h"

gsize
tps_update_digest_n_blocks (gsize n_bytes)
{
  return (n_bytes + TPS_UPDATE_DIGEST_BLOCK_BYTES - 1) / TPS_UPDATE_DIGEST_BLOCK_BYTES;
}

TpsPushDigest
tps_update_digest_of_block (gconstpointer data, gsize n_bytes)
{
  return tps_push_digest_of_bytes (data, n_bytes);
}

TpsPushDigest
tps_update_digest_combine (gint32 trainer, gint64 version, const TpsTensor *gradients,
                           guint n_gradients, const TpsPushDigest *blocks)
{
  TpsPushHash *hash = tps_push_hash_new ();

  tps_push_hash_add_i64 (hash, trainer);
  tps_push_hash_add_i64 (hash, version);
  for (guint i = 0; i < n_gradients; i++)
    {
      gsize n_blocks = tps_update_digest_n_blocks (tps_shape_n_bytes (&gradients[i].shape));

      tps_push_hash_add_blocks (hash, &gradients[i].shape, blocks, n_blocks);
      blocks += n_blocks;
    }
  return tps_push_hash_end (hash);
}

TpsPushDigest
tps_update_digest_compute (gint32 trainer, gint64 version, const TpsTensor *gradients,
                           guint n_gradients)
{
  g_autoptr (GArray) blocks = g_array_new (FALSE, FALSE, sizeof (TpsPushDigest));

  for (guint i = 0; i < n_gradients; i++)
    {
      const guint8 *data = tps_tensor_data (&gradients[i]);
      gsize n_bytes = tps_shape_n_bytes (&gradients[i].shape);

      for (gsize at = 0; at < n_bytes; at += TPS_UPDATE_DIGEST_BLOCK_BYTES)
        {
          TpsPushDigest block = tps_update_digest_of_block (
              data + at, MIN (TPS_UPDATE_DIGEST_BLOCK_BYTES, n_bytes - at));

          g_array_append_val (blocks, block);
        }
    }
  return tps_update_digest_combine (trainer, version, gradients, n_gradients,
                                    (const TpsPushDigest *) (gconstpointer) blocks->data);
}
