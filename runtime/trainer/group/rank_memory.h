/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory that the ranks of one machine map, and where they meet. Internal to this folder.
 *
 * Rank 0 makes it, the others open it by the numbers that rank 0 tells them; it has no name in any
 * file system and goes with its last process. Every rank must come to the same meetings.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_RANK_MEMORY_MAX_RANKS 64

typedef struct TpsRankMemory TpsRankMemory;

/* What the others need to open the memory. */
typedef struct
{
  guint64 handle; /* process and file descriptor; never 0 */
  guint64 token;  /* tells this memory from another one that stands there by accident */
} TpsRankMemoryAddress;

/* `n_bytes` of zeros. On rank 0. NULL where memory cannot be shared here. */
TpsRankMemory *tps_rank_memory_create (guint size, gsize n_bytes, TpsRankMemoryAddress *address);

/* On the other ranks, with the same size and bytes. NULL where it cannot be opened: another
 * machine, another user. */
TpsRankMemory *tps_rank_memory_open (const TpsRankMemoryAddress *address, guint rank, guint size,
                                     gsize n_bytes);

/* All ranks have opened it: from now on no other process can. */
void tps_rank_memory_close_door (TpsRankMemory *memory);

guint tps_rank_memory_get_rank (const TpsRankMemory *memory);
guint tps_rank_memory_get_size (const TpsRankMemory *memory);

/* Page-aligned; borrowed. */
gpointer tps_rank_memory_get_data (TpsRankMemory *memory);

/* Returns when all ranks have come; what they wrote before is seen after. Errors: GROUP_BROKEN
 * naming who is missing, gone or has left. */
gboolean tps_rank_memory_meet (TpsRankMemory *memory, gint64 deadline_ns, GError **error);

/* All ranks' meetings fail from now on. Thread: any, also while one is waited for. */
void tps_rank_memory_break (TpsRankMemory *memory);

void tps_rank_memory_free (TpsRankMemory *memory);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRankMemory, tps_rank_memory_free)

G_END_DECLS
