/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Detects threads of a server that are stuck. Each event loop, the timers and the workers get a
 * beat, which they must return in time. The beat of the workers passes through the timers and the
 * queue of short jobs. So long calls do not look like a standstill, but a stuck loop or timer does,
 * and so do workers that are all stuck. Inside plugin/server only.
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

/* FALSE: a beat has been away for `patience_ns`, and `missing` (owned by the caller) names the
 * first such thread: "I/O thread 3", "workers". TRUE otherwise; if all beats have returned, new
 * ones are sent. So a standstill is found by the second check after it began, `patience_ns` after
 * the first. Several callers may have different patience. Never blocks. Thread: any. */
gboolean tps_pulse_check (TpsPulse *pulse, gint64 now_ns, gint64 patience_ns, gchar **missing);

/* TRUE at the first call since the beats were sent: a standstill must be logged once, even if it is
 * found by several callers with different patience. Thread: any. */
gboolean tps_pulse_begin_report (TpsPulse *pulse);

G_END_DECLS
