/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/chunk_crc.h"

guint32
tps_crc32c_of_pieces (const struct iovec *pieces, guint n_pieces)
{
  guint32 crc = 0;

  for (guint i = 0; i < n_pieces; i++)
    crc = tps_crc32c (crc, pieces[i].iov_base, pieces[i].iov_len);
  return crc;
}

gboolean
tps_crc32c_check_chunk (const TpsChunk *chunk, TpsErrorCode code, GError **error)
{
  gsize n_bytes;
  gconstpointer data = g_bytes_get_data (chunk->data.received, &n_bytes);
  guint32 crc = tps_crc32c (0, data, n_bytes);

  if (crc == (guint32) chunk->crc32c)
    return TRUE;
  g_set_error (
      error, TPS_ERROR, code,
      "chunk %d of %d is corrupt and may be sent again: its CRC32C is 0x%08x, expected 0x%08x",
      chunk->index, chunk->count, crc, (guint32) chunk->crc32c);
  return FALSE;
}
