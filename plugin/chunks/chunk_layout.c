/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/chunk_layout.h"

TpsChunkLayout
tps_chunk_layout (gint64 n_bytes, gsize n_each_bytes)
{
  gint64 n_each = (gint64) MAX (n_each_bytes, 1);

  if ((n_bytes - 1) / n_each >= G_MAXINT32)
    n_each = (n_bytes - 1) / G_MAXINT32 + 1;
  return (TpsChunkLayout) { .n_bytes = n_bytes,
                            .n_chunks = (gint32) ((n_bytes - 1) / n_each + 1),
                            .n_each_bytes = (gsize) MIN (n_each, n_bytes) };
}

/* There must be n_chunks - 1 full chunks, and a last chunk that is neither empty nor longer than
 * these. The product cannot overflow: both factors are less than 2^31. */
gboolean
tps_chunk_layout_is_possible (gint64 n_bytes, gint32 n_chunks, gsize n_each_bytes)
{
  gint64 n_before;

  if (n_bytes <= 0 || n_chunks <= 0 || n_each_bytes == 0 || n_each_bytes > G_MAXINT32
      || (gint64) n_each_bytes > n_bytes)
    return FALSE;
  n_before = (gint64) n_each_bytes * (n_chunks - 1);
  return n_before < n_bytes && n_bytes - n_before <= (gint64) n_each_bytes;
}

static gsize
get_offset (const TpsChunkLayout *layout, gint32 index)
{
  return layout->n_each_bytes * (gsize) index;
}

gsize
tps_chunk_layout_get_length (const TpsChunkLayout *layout, gint32 index)
{
  if (index < layout->n_chunks - 1)
    return layout->n_each_bytes;
  return (gsize) layout->n_bytes - get_offset (layout, index);
}

void
tps_chunk_layout_get_pieces (const TpsChunkLayout *layout, gint32 index, TpsWriter *message,
                             GArray *pieces)
{
  gsize n_skip = get_offset (layout, index);
  gsize n_left = tps_chunk_layout_get_length (layout, index);
  guint n_all;
  const struct iovec *all = tps_writer_get_pieces (message, &n_all, NULL);

  for (guint i = 0; i < n_all && n_left > 0; i++)
    {
      struct iovec piece;

      if (n_skip >= all[i].iov_len)
        {
          n_skip -= all[i].iov_len;
          continue;
        }
      piece.iov_base = (guint8 *) all[i].iov_base + n_skip;
      piece.iov_len = MIN (all[i].iov_len - n_skip, n_left);
      g_array_append_val (pieces, piece);
      n_left -= piece.iov_len;
      n_skip = 0;
    }
}
