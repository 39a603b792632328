/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How a message is cut into chunks: all of the same length but for the last. For both sides. */

#pragma once

#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* Of a chunk where nothing asks for shorter ones: fits into a frame of any Thrift library (C GLib
 * and Java read 16,384,000 bytes), and a window of them is little memory. */
#define TPS_CHUNK_BYTES ((gsize) 4 << 20)

typedef struct
{
  gint64 n_bytes;     /* of the message, > 0 */
  gint32 n_chunks;    /* > 0 */
  gsize n_each_bytes; /* of every chunk but the last */
} TpsChunkLayout;

/* Cuts `n_bytes` into chunks of `n_each_bytes`; longer ones where there would be more of them than
 * can be counted. */
TpsChunkLayout tps_chunk_layout (gint64 n_bytes, gsize n_each_bytes);

/* Whether a message of `n_bytes` can have been cut into `n_chunks` chunks of which the first has
 * `n_each_bytes`. */
gboolean tps_chunk_layout_is_possible (gint64 n_bytes, gint32 n_chunks, gsize n_each_bytes);

/* Bytes of chunk `index`, which is one of them. */
gsize tps_chunk_layout_get_length (const TpsChunkLayout *layout, gint32 index);

/* Appends to `pieces` (an array of struct iovec) where the bytes of chunk `index` of `message`,
 * which has been ended, lie. They are borrowed from the message. */
void tps_chunk_layout_get_pieces (const TpsChunkLayout *layout, gint32 index, TpsWriter *message,
                                  GArray *pieces);

G_END_DECLS
