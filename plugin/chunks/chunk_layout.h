/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The division of a message into chunks, which all have the same length except the last. Used by
 * both sides. */

#pragma once

#include "plugin/frame/writer.h"

G_BEGIN_DECLS

/* The default length of a chunk: it fits into a frame of any Thrift library (C GLib and Java read
 * 16,384,000 bytes), and a window of chunks needs little memory. */
#define TPS_CHUNK_BYTES ((gsize) 4 << 20)

typedef struct
{
  gint64 n_bytes;     /* of the message, > 0 */
  gint32 n_chunks;    /* > 0 */
  gsize n_each_bytes; /* of each chunk except the last */
} TpsChunkLayout;

/* Divides `n_bytes`, which must be above 0, into chunks of `n_each_bytes`. The chunks are longer if
 * their number would exceed 2^31 - 1. */
TpsChunkLayout tps_chunk_layout (gint64 n_bytes, gsize n_each_bytes);

/* Returns TRUE if a message of `n_bytes` can consist of `n_chunks` chunks, the first of which has
 * `n_each_bytes`. */
gboolean tps_chunk_layout_is_possible (gint64 n_bytes, gint32 n_chunks, gsize n_each_bytes);

/* Returns the number of bytes of chunk `index`, which must be below n_chunks. */
gsize tps_chunk_layout_get_length (const TpsChunkLayout *layout, gint32 index);

/* Appends the memory of the bytes of chunk `index` to `pieces`, an array of struct iovec. The
 * memory is borrowed from `message`, which must have been ended. */
void tps_chunk_layout_get_pieces (const TpsChunkLayout *layout, gint32 index, TpsWriter *message,
                                  GArray *pieces);

G_END_DECLS
