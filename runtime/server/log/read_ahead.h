/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads a part of a file sequentially by threads of its own, so that the disk reads while the
 * caller works. Memory: at most TPS_READ_AHEAD_BLOCKS blocks of TPS_READ_AHEAD_BYTES.
 *
 * Thread: one at a time. */

#pragma once

#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

#define TPS_READ_AHEAD_BYTES ((gsize) 2 << 20)
#define TPS_READ_AHEAD_BLOCKS 8

typedef struct TpsReadAhead TpsReadAhead;

/* Begins to read [begin, end) of `file`, which is borrowed and may be direct. `begin` and `end`
 * must be multiples of TPS_DISK_BLOCK. The caller owns the result. Errors: RESOURCE_EXHAUSTED (no
 * thread). */
TpsReadAhead *tps_read_ahead_new (TpsDiskFile *file, gint64 begin, gint64 end, GError **error);
/* Waits for the reads in progress, and frees the object. */
void tps_read_ahead_free (TpsReadAhead *ahead);

/* Returns the offset in the file of the next byte to be read. */
gint64 tps_read_ahead_get_position (const TpsReadAhead *ahead);

/* Copies the next `n_bytes`, which must not reach beyond `end`, to `data`. Blocks. Errors: those of
 * the disk, ABORTED (the file is shorter). After a failure, only tps_read_ahead_free() may be
 * called. */
gboolean tps_read_ahead_read (TpsReadAhead *ahead, gpointer data, gsize n_bytes, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsReadAhead, tps_read_ahead_free)

G_END_DECLS
