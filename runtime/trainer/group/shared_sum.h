/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums and averages over all ranks, in rank order, through memory shared by processes of one
 * machine. Internal to this folder.
 *
 * Large data that lie in the ranks' arena on all ranks are reduced in place, by all ranks together;
 * other data travel through slots of the shared memory.
 *
 * All ranks must make the same calls, with the same sizes, in the same order. All calls block.
 * Errors: GROUP_BROKEN naming the rank that is missing, has ended or has broken the group.
 */

#pragma once

#include "runtime/trainer/group/rank_arena.h"
#include "runtime/trainer/group/rank_memory.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

typedef struct TpsSharedSum TpsSharedSum;

/* Returns the size of the memory that the ranks must share. */
gsize tps_shared_sum_get_n_bytes (guint size);

/* Creates a sum over `memory`, which must have that size and be closed to further ranks, and
 * `arena` (NULL on all ranks: none). Takes over both. Owned by the caller. */
TpsSharedSum *tps_shared_sum_new (TpsRankMemory *memory, TpsRankArena *arena);
void tps_shared_sum_free (TpsSharedSum *shared);

/* As get_memory() of the group. */
TpsBuffer *tps_shared_sum_get_memory (TpsSharedSum *shared, gsize n_bytes, TpsBuffer *current);

/* data [n_elems] = the sum over all ranks, in rank order, in place. */
gboolean tps_shared_sum_run (TpsSharedSum *shared, gfloat *data, gsize n_elems, gint64 deadline_ns,
                             GError **error);

/* As average() of the group, runtime/trainer/ports/process_group.h. */
gboolean tps_shared_sum_average (TpsSharedSum *shared, TpsAverage *average, gint64 deadline_ns,
                                 GError **error);

/* Makes current and later calls of all ranks fail. Thread: any. */
void tps_shared_sum_break (TpsSharedSum *shared);

G_END_DECLS
