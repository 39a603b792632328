/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/chunk_layout.h"

#include <errno.h>
#include <sys/random.h>

#include "runtime/base/error.h"

/* ---- layout --------------------------------------------------------------------------------- */

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

/* ---- checksums ------------------------------------------------------------------------------ */

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
  return tps_fail (
      error, code,
      "chunk %d of %d is corrupt and may be sent again: its CRC32C is 0x%08x, expected 0x%08x",
      chunk->index, chunk->count, crc, (guint32) chunk->crc32c);
}

/* ---- names of transfers --------------------------------------------------------------------- */

void
tps_transfer_make_name (gchar name[TPS_TRANSFER_NAME_BYTES])
{
  guint64 bits[2];

  while (getrandom (bits, sizeof bits, 0) != sizeof bits)
    if (errno != EINTR)
      g_error ("no random numbers: %s", g_strerror (errno));
  g_snprintf (name, TPS_TRANSFER_NAME_BYTES, "%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x",
              bits[0], bits[1]);
}

/* ---- messages from chunks ------------------------------------------------------------------- */

void
tps_message_builder_init (TpsMessageBuilder *builder, gsize max_bytes, TpsBufferPool *bodies)
{
  TpsScannerOptions options = { .max_message_bytes = max_bytes,
                                .bodies = bodies,
                                .transferred = TRUE };

  builder->scanner = tps_scanner_new (&options);
  builder->message = NULL;
}

void
tps_message_builder_clear (TpsMessageBuilder *builder)
{
  g_clear_pointer (&builder->scanner, tps_scanner_free);
  g_clear_pointer (&builder->message, tps_message_free);
}

gboolean
tps_message_builder_feed (TpsMessageBuilder *builder, GBytes *bytes, gboolean is_last,
                          GError **error)
{
  gsize n_left, n_consumed;
  const guint8 *next = g_bytes_get_data (bytes, &n_left);

  for (; n_left > 0; next += n_consumed, n_left -= n_consumed)
    {
      if (builder->message != NULL)
        return tps_fail (error, TPS_ERROR_PROTOCOL, "bytes follow the end of the message");
      if (!tps_scanner_feed (builder->scanner, next, n_left, &n_consumed, error))
        return FALSE;
      builder->message = tps_scanner_take (builder->scanner);
    }
  if (is_last && builder->message == NULL)
    return tps_fail (error, TPS_ERROR_PROTOCOL, "the message is incomplete after the last chunk");
  return TRUE;
}
