/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory for the data of collectives. Each rank has a part, from which it takes buffers, and maps
 * the parts of all ranks, so that the ranks can reduce data in place. Internal to this folder.
 *
 * A part is a range of addresses. It has memory only where there are buffers: memory is allocated
 * and released with each buffer. */

#pragma once

#include "runtime/base/buffer.h"
#include "runtime/trainer/group/rank_file.h"

G_BEGIN_DECLS

typedef struct TpsRankArena TpsRankArena;

/* The size of the address range of a part, in bytes. */
#define TPS_RANK_ARENA_PART_BYTES (G_GUINT64_CONSTANT (64) << 30)

/* Creates the part of this rank; the caller must hand `address` to the other ranks. Owned by the
 * caller. NULL if memory cannot be shared here, or if the addresses of the process are limited. */
TpsRankArena *tps_rank_arena_new (guint rank, guint size, TpsRankFileAddress *address);

/* Maps the part of another rank. FALSE if it cannot be opened. */
gboolean tps_rank_arena_open (TpsRankArena *arena, guint rank, const TpsRankFileAddress *address);

/* Prevents other processes from opening the part of this rank. Must not be called before all
 * ranks have opened it. */
void tps_rank_arena_close_door (TpsRankArena *arena);

/* Takes a buffer with undefined contents from the part of this rank. Owned by the caller; may
 * outlive the caller's reference to the arena. NULL if there is no memory. Thread: any. */
TpsBuffer *tps_rank_arena_take (TpsRankArena *arena, gsize n_bytes);

/* Returns the place of data in the part of this rank, in bytes from its beginning, at least 1.
 * Returns 0 if the data lie elsewhere. Thread: any. */
guint64 tps_rank_arena_find (const TpsRankArena *arena, gconstpointer data);

/* Returns the data at a place in the part of `rank`, borrowed; NULL if `n_bytes` from there do not
 * lie in it. Thread: any. */
guint8 *tps_rank_arena_at (const TpsRankArena *arena, guint rank, guint64 place, gsize n_bytes);

/* Releases the reference of the caller. Thread: any. */
void tps_rank_arena_unref (TpsRankArena *arena);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRankArena, tps_rank_arena_unref)

G_END_DECLS
