/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Detects threads of a server that are stuck. Each check sends a beat to each event loop, to the
 * timers and to the workers, which must have returned by the next check. The beat of the workers
 * passes through the timers and through the queue of short jobs. So long calls do not look like a
 * standstill, but a stuck loop or timer does, and so do workers that are all stuck. Inside
 * plugin/server only.
 */

#pragma once

#include "plugin/net/loop.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsPulse TpsPulse;

/* Borrows `loops`, [n_loops], and `workers`, which must outlive the pulse. */
TpsPulse *tps_pulse_new (TpsLoop *const *loops, guint n_loops, TpsWorkerPool *workers);

/* Beats that have not returned may outlive the pulse. */
void tps_pulse_free (TpsPulse *pulse);

/* TRUE: all beats of the last check have returned, and new ones have been sent. FALSE: some have
 * not, and `missing` (owned by the caller) names the first thread: "I/O thread 3", "workers". Never
 * blocks. Thread: any, one at a time. */
gboolean tps_pulse_check (TpsPulse *pulse, gchar **missing);

G_END_DECLS
