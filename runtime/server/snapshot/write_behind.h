/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes to one file by threads of its own, as many as the disk supports concurrent writes. The
 * caller can thus prepare the next piece during the writes. Memory: at most TPS_WRITE_BEHIND_BLOCKS
 * blocks of TPS_WRITE_BEHIND_BYTES.
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

#define TPS_WRITE_BEHIND_BYTES ((gsize) 2 << 20)
#define TPS_WRITE_BEHIND_BLOCKS 8

typedef struct TpsWriteBehind TpsWriteBehind;

/* `file` is borrowed, and must not be used otherwise until tps_write_behind_free(). Errors:
 * RESOURCE_EXHAUSTED (no thread). */
TpsWriteBehind *tps_write_behind_new (TpsDiskFile *file, GError **error);

/* Waits for the queued writes. */
void tps_write_behind_free (TpsWriteBehind *behind);

/* A block of TPS_WRITE_BEHIND_BYTES, aligned for direct writes, contents undefined. Waits until one
 * is free. Fewer than TPS_WRITE_BEHIND_BLOCKS may be taken and not submitted. */
guint8 *tps_write_behind_take (TpsWriteBehind *behind);

/* Queues the write of the first `n_bytes` of a block; the block is returned. Writes may take place
 * in any order. After a failure nothing is written. */
void tps_write_behind_submit (TpsWriteBehind *behind, guint8 *block, gsize n_bytes, gint64 offset);

/* Returns a block without a write. */
void tps_write_behind_return (TpsWriteBehind *behind, guint8 *block);

/* Whether a write has failed. Does not wait. */
gboolean tps_write_behind_has_failed (TpsWriteBehind *behind);

/* Waits for the queued writes. Errors: the first one of the disk. */
gboolean tps_write_behind_drain (TpsWriteBehind *behind, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsWriteBehind, tps_write_behind_free)

G_END_DECLS
