/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Detects stuck threads of a server. A beat is a job that is sent through a thread and must return
 * in time. Each event loop has a beat. One more beat passes through the timers and the workers'
 * queue of short jobs. So long calls do not look like a standstill, but a stuck loop or timer does,
 * and so do workers that are all stuck. Inside plugin/server only.
 */

#pragma once

#include "plugin/net/loop.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct TpsPulse TpsPulse;

/* Creates a pulse. Borrows `loops`, [n_loops], and `workers`, which must outlive the pulse. */
TpsPulse *tps_pulse_new (TpsLoop *const *loops, guint n_loops, TpsWorkerPool *workers);
/* Frees the pulse. Beats that have not returned may outlive it. */
void tps_pulse_free (TpsPulse *pulse);

/* Checks the beats. Returns FALSE if a beat has been away for `patience_ns`; `missing` (owned by
 * the caller) then names the first such thread: "I/O thread 3", "workers". Otherwise returns TRUE,
 * and sends new beats if all beats have returned. So a standstill is detected by the second check
 * after it began, if that check comes `patience_ns` after the first one. Several callers may have
 * different patience. Never blocks. Thread: any. */
gboolean tps_pulse_check (TpsPulse *pulse, gint64 now_ns, gint64 patience_ns, gchar **missing);

/* Returns TRUE at the first call after beats were sent, so that a standstill is logged only once,
 * even if several callers with different patience detect it. Thread: any. */
gboolean tps_pulse_begin_report (TpsPulse *pulse);

G_END_DECLS
