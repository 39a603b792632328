/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Threads that run jobs: arithmetic on more than 64 KiB, and all work that may block.
 *
 * Workers alternate between the pool's queue (the runtime's jobs) and the queues of owners
 * (connections), which they visit round robin, one job at a time, so an owner delays only its own
 * jobs. Queues may form groups (tenants), which take turns in the same way.
 *
 * Jobs of more than about 10 ms belong to the long lane: a pool of n threads runs at most n - 1 of
 * them at a time (but one if n is 1). Timers run on a thread of their own and never wait for a
 * worker. */

#pragma once

#include <thriftps/service.h>

G_BEGIN_DECLS

typedef struct TpsWorkerPool TpsWorkerPool;
typedef struct TpsJobQueue TpsJobQueue;

typedef void (*TpsJobFunc) (gpointer user_data);

#define TPS_N_LANES 2

/* Creates a pool of `n_threads` >= 1 threads. The caller owns the pool. The first 15 characters of
 * the name appear in lists of threads. Ends the process if the system refuses a thread. */
TpsWorkerPool *tps_worker_pool_new (const gchar *name, guint n_threads);

/* As tps_worker_pool_new(), but fails if the system refuses a thread. Pools that are made while
 * requests are served must be made with this function. Errors: RESOURCE_EXHAUSTED. */
TpsWorkerPool *tps_worker_pool_try_new (const gchar *name, guint n_threads, GError **error);

/* Ends the timers (one that is not due never runs), runs all queued jobs, and joins the threads.
 * Queues may outlive the pool, but take no more jobs. Must not be called from a job or a timer. */
void tps_worker_pool_free (TpsWorkerPool *pool);

/* Waits until no job is queued or running. A service may be freed after this call if no more jobs
 * are submitted for it; a job could otherwise still be in one of its functions. Must not be called
 * from a job. Thread: any. */
void tps_worker_pool_settle (TpsWorkerPool *pool);

/* Returns the number of threads with which the pool was created. Dividing a job into more parts
 * than threads has no benefit. */
guint tps_worker_pool_get_n_threads (TpsWorkerPool *pool);

/* The present work of a pool. */
typedef struct
{
  guint64 n_waiting; /* jobs that have not begun */
  guint64 n_running;
  guint64 n_ended; /* since the pool was made */
} TpsWorkerLoad;

/* Reads the present work, as values at one moment. Takes no lock. Thread: any. */
void tps_worker_pool_get_load (const TpsWorkerPool *pool, TpsWorkerLoad *load);

/* Appends a short job to the pool's own queue, first in, first out. Never blocks. Thread: any. */
void tps_worker_pool_submit (TpsWorkerPool *pool, TpsJobFunc func, gpointer user_data);

/* As tps_worker_pool_submit(), for a part of the caller's work: the job is long if the caller is a
 * long job of this pool. */
void tps_worker_pool_submit_part (TpsWorkerPool *pool, TpsJobFunc func, gpointer user_data);

/* Returns the number of jobs of a lane that have not begun. Takes the pool's lock. Thread: any. */
guint tps_worker_pool_get_n_queued (TpsWorkerPool *pool, TpsLane lane);

/* ---- queues of owners ----------------------------------------------------------------------- */

/* Creates an empty queue of one owner, whose jobs run in `lane`. The caller owns a reference. */
TpsJobQueue *tps_job_queue_new (TpsWorkerPool *pool, TpsLane lane);
/* Releases a reference. Queued jobs run even after the last reference. Thread: any. */
void tps_job_queue_unref (TpsJobQueue *queue);

/* Appends a job. A worker calls either `func` or, if the queue was cancelled before the job began,
 * `cancel`. A job without `cancel` (NULL) always runs. Never blocks. Thread: any. */
void tps_job_queue_submit (TpsJobQueue *queue, TpsJobFunc func, TpsJobFunc cancel,
                           gpointer user_data);

/* Cancels all jobs that have not begun, and those submitted later; workers call their `cancel`.
 * Never blocks. May be called again, even after the pool was freed. Thread: any. */
void tps_job_queue_cancel (TpsJobQueue *queue);

/* ---- groups of queues ----------------------------------------------------------------------- */

/* Queues that share one turn in each lane. */
typedef struct TpsJobGroup TpsJobGroup;

/* Creates a group without queues. The caller owns a reference. Thread of both: any. */
TpsJobGroup *tps_job_group_new (TpsWorkerPool *pool);
void tps_job_group_unref (TpsJobGroup *group);

/* Moves the queue to `group` of the same pool, to which it takes a reference. NULL, the default, is
 * the group of all other queues. A queue that waits takes its turn in the old group. Thread:
 * any. */
void tps_job_queue_set_group (TpsJobQueue *queue, TpsJobGroup *group);

/* ---- timers --------------------------------------------------------------------------------- */

/* Adds a one-shot timer: `func` runs once on the pool's timer thread, soon after `deadline_ns`
 * (monotonic). It must be short and must not block. Returns an id for
 * tps_worker_pool_cancel_timer(), never 0. Thread: any. */
guint64 tps_worker_pool_add_timer (TpsWorkerPool *pool, gint64 deadline_ns, TpsJobFunc func,
                                   gpointer user_data);

/* TRUE: the timer had not begun, and never runs. FALSE: it has run or is running. Thread: any. */
gboolean tps_worker_pool_cancel_timer (TpsWorkerPool *pool, guint64 timer_id);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsWorkerPool, tps_worker_pool_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsJobQueue, tps_job_queue_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsJobGroup, tps_job_group_unref)

G_END_DECLS
