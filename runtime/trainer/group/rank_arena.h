/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory for the data of collectives. Each rank takes buffers from a part of its own. All ranks map
 * the parts of all ranks, so that they can reduce data in place. Internal to this folder.
 *
 * A part is a range of addresses. It has memory only where there are buffers: memory is allocated
 * and released with each buffer. */

#pragma once

#include "runtime/base/buffer.h"
#include "runtime/trainer/group/rank_memory.h"

G_BEGIN_DECLS

typedef struct TpsRankArena TpsRankArena;

/* The size of the address range of a part, in bytes. */
#define TPS_RANK_ARENA_PART_BYTES (G_GUINT64_CONSTANT (64) << 30)

/* Creates the arena with the part of this rank. The caller must send `address` to the other ranks.
 * Owned by the caller. Returns NULL if memory cannot be shared here, if the address space of the
 * process is limited, or if there are too many ranks. */
TpsRankArena *tps_rank_arena_new (guint rank, guint size, TpsRankFileAddress *address);

/* Maps the part of another rank. Returns FALSE if the part cannot be opened. */
gboolean tps_rank_arena_open (TpsRankArena *arena, guint rank, const TpsRankFileAddress *address);

/* Prevents other processes from opening the part of this rank. Must not be called before all ranks
 * have opened this part. */
void tps_rank_arena_close_door (TpsRankArena *arena);

/* Takes a buffer with undefined contents from the part of this rank. Owned by the caller; may
 * outlive the caller's reference to the arena. Returns NULL if there is no memory. Thread: any. */
TpsBuffer *tps_rank_arena_take (TpsRankArena *arena, gsize n_bytes);

/* Returns the place of data in the part of this rank: the offset in bytes from the beginning of the
 * part, at least 1. Returns 0 if the data lie elsewhere. Thread: any. */
guint64 tps_rank_arena_find (const TpsRankArena *arena, gconstpointer data);

/* Returns the data at a place in the part of `rank`, borrowed. Returns NULL if `n_bytes` from this
 * place exceed the part. Thread: any. */
guint8 *tps_rank_arena_at (const TpsRankArena *arena, guint rank, guint64 place, gsize n_bytes);

/* Releases the caller's reference to the arena. Thread: any. */
void tps_rank_arena_unref (TpsRankArena *arena);

G_END_DECLS
