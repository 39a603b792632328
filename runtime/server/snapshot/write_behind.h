/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes to one file, with threads of its own, so that the caller can prepare the next piece during
 * the writes. There is one thread for each concurrent write that the disk supports, at most four.
 * Memory: at most TPS_WRITE_BEHIND_BLOCKS blocks of TPS_WRITE_BEHIND_BYTES.
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

#define TPS_WRITE_BEHIND_BYTES ((gsize) 2 << 20)
#define TPS_WRITE_BEHIND_BLOCKS 8

typedef struct TpsWriteBehind TpsWriteBehind;

/* Starts the threads. `file` is borrowed, and must not be used for anything else until
 * tps_write_behind_free(). Errors: RESOURCE_EXHAUSTED (no thread). */
TpsWriteBehind *tps_write_behind_new (TpsDiskFile *file, GError **error);

/* Waits for the queued writes, and frees. All blocks must have been submitted or returned. */
void tps_write_behind_free (TpsWriteBehind *behind);

/* Returns a block of TPS_WRITE_BEHIND_BYTES, aligned for direct writes, with undefined contents.
 * The caller must submit or return it. Waits until a block is free, so the caller must hold fewer
 * than TPS_WRITE_BEHIND_BLOCKS. */
guint8 *tps_write_behind_take (TpsWriteBehind *behind);

/* Queues the write of the first `n_bytes` of a block, which the caller must not use any more.
 * Writes may take place in any order. After a failure, later blocks are not written. */
void tps_write_behind_submit (TpsWriteBehind *behind, guint8 *block, gsize n_bytes, gint64 offset);

/* Returns a block without a write. */
void tps_write_behind_return (TpsWriteBehind *behind, guint8 *block);

/* Returns TRUE if a write has failed. Does not wait. */
gboolean tps_write_behind_has_failed (TpsWriteBehind *behind);

/* Waits for the queued writes. Errors: the first error of the disk. */
gboolean tps_write_behind_drain (TpsWriteBehind *behind, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsWriteBehind, tps_write_behind_free)

G_END_DECLS
