/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums and averages over all ranks, in rank order, through memory shared by processes of one
 * machine. Internal to this folder.
 *
 * Large data that lie in the ranks' arena on all ranks are reduced in place, by all ranks together;
 * other data travel through slots of the shared memory.
 *
 * All ranks must make the same calls, with the same sizes, in the same order. Sums and averages
 * block until `deadline_ns` (monotonic) at most. Errors: GROUP_BROKEN naming the rank that is
 * missing, has ended, has broken the group or has sent invalid values.
 */

#pragma once

#include "runtime/trainer/group/rank_arena.h"
#include "runtime/trainer/group/rank_memory.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

typedef struct TpsSharedSum TpsSharedSum;

/* Returns the size in bytes of the memory that `size` ranks must share. */
gsize tps_shared_sum_get_n_bytes (guint size);

/* Creates a sum, owned by the caller. `memory` must have the size tps_shared_sum_get_n_bytes() and
 * be closed to further ranks. `arena` must be NULL on all ranks or on none. Takes over both. */
TpsSharedSum *tps_shared_sum_new (TpsRankMemory *memory, TpsRankArena *arena);
void tps_shared_sum_free (TpsSharedSum *shared);

/* As TpsProcessGroupOps.get_memory(). Thread: any. */
TpsBuffer *tps_shared_sum_get_memory (TpsSharedSum *shared, gsize n_bytes, TpsBuffer *current);

/* data [n_elems] = the sum over all ranks, in rank order, in place. */
gboolean tps_shared_sum_run (TpsSharedSum *shared, gfloat *data, gsize n_elems, gint64 deadline_ns,
                             GError **error);

/* As TpsProcessGroupOps.average(). */
gboolean tps_shared_sum_average (TpsSharedSum *shared, TpsAverage *average, gint64 deadline_ns,
                                 GError **error);

/* Makes current and later calls of all ranks fail. Thread: any. */
void tps_shared_sum_break (TpsSharedSum *shared);

G_END_DECLS
