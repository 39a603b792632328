/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Cells: numbers that many threads increase all the time, and that are read now and then. Each
 * thread adds to a copy of its own, without an atomic read-modify-write and on cache lines that no
 * other thread writes; a reader adds the copies up. The cells of a thread lie side by side.
 *
 * Memory: 8 KiB for 1,024 cells in each thread that has added to one of them. A thread that ends
 * leaves its copies to the next. Up to 63 threads have copies of their own; all others share one
 * set by atomic additions. At most 2^19 cells. Cell 0 is valid and counts nothing. Thread: any. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Cells that are made together have consecutive numbers. */
#define TPS_CELL_BLOCK 32

typedef guint32 TpsCell;

/* Returns a new cell, or the first of a block of TPS_CELL_BLOCK new cells, whose numbers are zero.
 * Returns 0 if the process has no more cells. */
TpsCell tps_cell_new (void);
TpsCell tps_cell_block_new (void);

/* Free one cell, or the block that begins with `first`. The cell may be 0. No thread may add to the
 * cells during or after this call. */
void tps_cell_free (TpsCell cell);
void tps_cell_block_free (TpsCell first);

/* Private to this file and cells.c: the copies of one thread. */
#define TPS_CELL_CHUNK_CELLS 1024
#define TPS_CELL_CHUNKS 512

typedef struct
{
  guint64 slots[TPS_CELL_CHUNK_CELLS]; /* atomic */
} TpsCellChunk;

typedef struct
{
  TpsCellChunk *chunks[TPS_CELL_CHUNKS]; /* atomic; NULL = not made yet */
} TpsCellShard;

/* The copies of this thread, if no other thread adds to them; else NULL. */
extern __thread TpsCellShard *tps_cell_own_shard;

/* As tps_cell_add(), but not inline: for a thread that has no own copy of this cell. */
void tps_cell_add_anywhere (TpsCell cell, guint64 n);

/* Adds `n` to the cell. Inline, because a call adds to a dozen cells. */
static inline void
tps_cell_add (TpsCell cell, guint64 n)
{
  TpsCellShard *shard = tps_cell_own_shard;
  TpsCellChunk *chunk = NULL;
  guint64 *slot;

  if (G_LIKELY (shard != NULL))
    chunk = __atomic_load_n (&shard->chunks[cell / TPS_CELL_CHUNK_CELLS], __ATOMIC_RELAXED);
  if (G_UNLIKELY (chunk == NULL))
    {
      tps_cell_add_anywhere (cell, n);
      return;
    }
  slot = &chunk->slots[cell % TPS_CELL_CHUNK_CELLS];
  __atomic_store_n (slot, __atomic_load_n (slot, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/* Returns the sum of all copies, which never decreases for one reader unless it wraps around. */
guint64 tps_cell_read (TpsCell cell);

/* Adds the sums of a block to `sums` [TPS_CELL_BLOCK]. */
void tps_cell_block_read (TpsCell first, guint64 *sums);

G_END_DECLS
