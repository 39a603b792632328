/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of a transfer that both sides share: the division of a message into chunks, which all
 * have the same length except the last; their checksums; the names of transfers; the message from
 * its chunks. */

#pragma once

#include <sys/uio.h>

#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"
#include "plugin/wire/wire_chunks.h"
#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"

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

/* Returns TRUE if `n_bytes` can be `n_chunks` chunks, the first of which has `n_each_bytes`. */
gboolean tps_chunk_layout_is_possible (gint64 n_bytes, gint32 n_chunks, gsize n_each_bytes);

/* Returns the number of bytes of chunk `index`, which must be below n_chunks. */
gsize tps_chunk_layout_get_length (const TpsChunkLayout *layout, gint32 index);

/* Appends the memory of the bytes of chunk `index` to `pieces`, an array of struct iovec. The
 * memory is borrowed from `message`, which must have been ended. */
void tps_chunk_layout_get_pieces (const TpsChunkLayout *layout, gint32 index, TpsWriter *message,
                                  GArray *pieces);

/* ---- checksums ------------------------------------------------------------------------------ */

guint32 tps_crc32c_of_pieces (const struct iovec *pieces, guint n_pieces);

/* Returns TRUE if the CRC of a chunk matches its data. Errors: `code`. */
gboolean tps_crc32c_check_chunk (const TpsChunk *chunk, TpsErrorCode code, GError **error);

/* ---- names of transfers --------------------------------------------------------------------- */

/* Names are secret: only a client that knows a name can use its transfer. They are unique: two
 * clients never share a name. */
#define TPS_TRANSFER_NAME_BYTES 33 /* with its NUL */

/* Sets `name` to 128 random bits in hexadecimal. Thread: any. */
void tps_transfer_make_name (gchar name[TPS_TRANSFER_NAME_BYTES]);

/* ---- messages from chunks ------------------------------------------------------------------- */

/* A builder, in the caller's storage. */
typedef struct
{
  TpsScanner *scanner;
  TpsMessage *message; /* NULL before the last bytes; callers may steal the message */
} TpsMessageBuilder;

/* Begins a message of at most `max_bytes`. Its bodies come from `bodies` (a reference is taken;
 * NULL = the default pool). The caller must clear the builder. */
void tps_message_builder_init (TpsMessageBuilder *builder, gsize max_bytes, TpsBufferPool *bodies);
void tps_message_builder_clear (TpsMessageBuilder *builder);

/* Adds the next bytes. If `is_last` is TRUE, they must complete the message. Errors: PROTOCOL (the
 * bytes do not form a message, or the message ends earlier or later), RESOURCE_EXHAUSTED. */
gboolean tps_message_builder_feed (TpsMessageBuilder *builder, GBytes *bytes, gboolean is_last,
                                   GError **error);

G_END_DECLS
