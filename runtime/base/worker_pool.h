/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Threads that run jobs: everything above 64 KiB of arithmetic, and what may block. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsWorkerPool TpsWorkerPool;

typedef void (*TpsJobFunc) (gpointer user_data);

/* `n_threads` >= 1; the name shows in thread lists (15 characters). */
TpsWorkerPool *tps_worker_pool_new (const gchar *name, guint n_threads);

/* Runs what is queued, then joins the threads; timers that are not due yet never run. Not from a job. */
void tps_worker_pool_free (TpsWorkerPool *pool);

guint tps_worker_pool_get_n_threads (TpsWorkerPool *pool);

/* First in, first out. Never blocks. Thread: any. */
void tps_worker_pool_submit (TpsWorkerPool *pool, TpsJobFunc func, gpointer user_data);

/* One-shot timers on the pool's clock thread: `func` runs on a worker at or soon after `deadline_ns` (monotonic).
 * Returns an id for tps_worker_pool_cancel_timer(), never 0. */
guint64 tps_worker_pool_add_timer (TpsWorkerPool *pool, gint64 deadline_ns, TpsJobFunc func,
                                   gpointer user_data);

/* TRUE when the timer had not been handed to a worker and never will be; FALSE when it ran or is about to. */
gboolean tps_worker_pool_cancel_timer (TpsWorkerPool *pool, guint64 timer_id);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsWorkerPool, tps_worker_pool_free)

G_END_DECLS
