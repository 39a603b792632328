/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Whether the threads of a server still turn: each event loop, the timers and the workers are sent
 * a beat, which must have come back by the next look. A worker's beat passes through the timers,
 * and through the queue for short jobs. So long calls do not look like a standstill, but a loop or
 * a timer that is stuck does, and so do workers that are all stuck. Inside plugin/server only.
 */

#pragma once

#include "plugin/net/loop.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsPulse TpsPulse;

/* Borrows `loops`, [n_loops], and `workers`, which must outlive the pulse. */
TpsPulse *tps_pulse_new (TpsLoop *const *loops, guint n_loops, TpsWorkerPool *workers);

/* Beats that are under way may end later. */
void tps_pulse_free (TpsPulse *pulse);

/* TRUE: all beats of the last look are back, and new ones have been sent. FALSE: some are not, and
 * `missing` (owned by the caller) names the first thread: "I/O thread 3", "workers". Never blocks.
 * Thread: any, one at a time. */
gboolean tps_pulse_check (TpsPulse *pulse, gchar **missing);

G_END_DECLS
