/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums and averages of all ranks, in rank order, through memory that processes of one machine
 * share. Internal to this folder.
 *
 * Every rank's calls must be the same, of the same sizes, in the same order. All of them block, and
 * fail with GROUP_BROKEN naming who is missing, gone or has left.
 */

#pragma once

#include "runtime/trainer/group/rank_memory.h"
#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

typedef struct TpsSharedSum TpsSharedSum;

/* Of the memory that the ranks are to share. */
gsize tps_shared_sum_get_n_bytes (guint size);

/* Takes `memory` over, of that many bytes, whose door is closed. */
TpsSharedSum *tps_shared_sum_new (TpsRankMemory *memory);
void tps_shared_sum_free (TpsSharedSum *shared);

/* data [n_elems] = the sum of all ranks', added in rank order. */
gboolean tps_shared_sum_run (TpsSharedSum *shared, gfloat *data, gsize n_elems, gint64 deadline_ns,
                             GError **error);

/* As the group's average(), runtime/trainer/ports/process_group.h. */
gboolean tps_shared_sum_average (TpsSharedSum *shared, TpsAverage *average, gint64 deadline_ns,
                                 GError **error);

/* All ranks' calls fail from now on. Thread: any, also while one runs. */
void tps_shared_sum_break (TpsSharedSum *shared);

G_END_DECLS
