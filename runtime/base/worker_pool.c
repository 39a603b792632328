/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The path of a job from its submission to a worker, and the threads of the pool.
 *
 * submit() appends the job to a queue and wakes an idle worker. Workers take jobs in the order of
 * job_rings.h, short jobs before long ones. The bound of the long lane leaves a thread for short
 * jobs. cancel() moves the jobs of a queue that have a `cancel` to the pool's own queue, where this
 * function runs instead of the job. One more thread runs timers (timers.h).
 *
 * Every step takes constant time, except a cancellation, which visits the jobs of the queue.
 */

#include "runtime/base/worker_pool.h"


#include "runtime/base/error.h"
#include "runtime/base/job_rings.h"
#include "runtime/base/magazine.h"
#include "runtime/base/thread.h"
#include "runtime/base/worker_pool_private.h"

static TpsDepot job_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine job_magazine;

/* The pool and the lane of the job that the calling thread runs. */
static _Thread_local const TpsWorkerPool *current_pool;
static _Thread_local TpsLane current_lane;

/* ---- jobs ----------------------------------------------------------------------------------- */

static TpsJob *
job_new (TpsJobFunc func, TpsJobFunc cancel, gpointer user_data)
{
  TpsJob *job = tps_magazine_take (&job_magazine, &job_depot);

  if (job == NULL)
    job = g_new (TpsJob, 1);
  *job = (TpsJob) { .func = func, .cancel = cancel, .user_data = user_data };
  return job;
}

static void
job_free (TpsJob *job)
{
  tps_magazine_put (&job_magazine, &job_depot, job);
}

/* ---- counts of jobs ------------------------------------------------------------------------- */

/* Adds 1 to `n`. The pool's lock is held, so no atomic read-modify-write is needed. */
static void
count_job (atomic_ullong *n)
{
  atomic_store_explicit (n, atomic_load_explicit (n, memory_order_relaxed) + 1,
                         memory_order_release);
}

/* Reads the counts in the reverse order of their changes, so that no difference is negative. */
void
tps_worker_pool_get_load (const TpsWorkerPool *pool, TpsWorkerLoad *load)
{
  guint64 n_ended = atomic_load_explicit (&pool->n_ended, memory_order_acquire);
  guint64 n_begun = atomic_load_explicit (&pool->n_begun, memory_order_acquire);
  guint64 n_submitted = atomic_load_explicit (&pool->n_submitted, memory_order_acquire);

  *load = (TpsWorkerLoad) { n_submitted - n_begun, n_begun - n_ended, n_ended };
}

/* ---- workers -------------------------------------------------------------------------------- */

/* Returns TRUE if no job waits or runs. The pool's lock is held. */
static gboolean
is_settled (const TpsWorkerPool *pool)
{
  TpsWorkerLoad load;

  tps_worker_pool_get_load (pool, &load);
  return load.n_waiting == 0 && load.n_running == 0;
}

/* Runs the next job of the lane. The pool's lock is held; it is released while the job runs. */
static void
run_next (TpsWorkerPool *pool, TpsLaneJobs *lane)
{
  TpsJobQueue *done;
  TpsJob *job = tps_job_lane_take (pool, lane, &done);

  lane->n_running++;
  if (job != NULL)
    count_job (&pool->n_begun);
  /* The submission of a job to a full lane wakes no worker. If the lane has room now, an idle
   * worker must be woken for this job. */
  if (pool->n_idle > 0 && tps_job_lane_find (pool) != NULL)
    tps_cond_signal (&pool->work);
  tps_mutex_unlock (&pool->lock);
  g_clear_pointer (&done, tps_job_queue_unref);
  if (job != NULL)
    {
      current_lane = (TpsLane) (lane - pool->lanes);
      job->func (job->user_data);
      job_free (job);
    }
  tps_mutex_lock (&pool->lock);
  if (job != NULL)
    count_job (&pool->n_ended);
  lane->n_running--;
  if (pool->n_settling > 0 && is_settled (pool))
    tps_cond_broadcast (&pool->settled);
}

static void *
run_worker (void *user_data)
{
  TpsWorkerPool *pool = user_data;

  current_pool = pool;
  tps_mutex_lock (&pool->lock);
  for (;;)
    {
      TpsLaneJobs *lane = tps_job_lane_find (pool);

      if (lane != NULL)
        {
          run_next (pool, lane);
          continue;
        }
      if (pool->stopping)
        break;
      pool->n_idle++;
      tps_cond_wait (&pool->work, &pool->lock);
      pool->n_idle--;
    }
  tps_mutex_unlock (&pool->lock);
  return NULL;
}

/* ---- the pool ------------------------------------------------------------------------------- */

static void *
run_timers (void *user_data)
{
  tps_timers_run (&((TpsWorkerPool *) user_data)->timers);
  return NULL;
}

static gboolean
start_threads (TpsWorkerPool *pool, GError **error)
{
  pool->has_timer_thread = tps_thread_start (&pool->timer_thread, pool->name, run_timers, pool,
                                             error);
  while (pool->has_timer_thread && pool->n_started < pool->n_parallel
         && tps_thread_start (&pool->threads[pool->n_started], pool->name, run_worker, pool, error))
    pool->n_started++;
  return pool->n_started == pool->n_parallel;
}

TpsWorkerPool *
tps_worker_pool_try_new (const gchar *name, guint n_threads, GError **error)
{
  TpsWorkerPool *pool = g_new0 (TpsWorkerPool, 1);

  g_return_val_if_fail (n_threads >= 1, NULL);
  tps_refcount_init (&pool->refcount);
  pool->name = g_strdup (name);
  pool->n_parallel = n_threads;
  pool->threads = g_new0 (TpsThread, n_threads);
  tps_mutex_init (&pool->lock);
  tps_cond_init (&pool->work);
  tps_cond_init (&pool->settled);
  tps_timers_init (&pool->timers);
  for (guint i = 0; i < TPS_N_LANES; i++)
    {
      tps_job_list_init (&pool->lanes[i].own);
      pool->lanes[i].tail = &pool->lanes[i].ring;
      pool->lanes[i].max_running = i == TPS_LANE_LONG ? MAX (n_threads - 1, 1) : n_threads;
    }
  tps_job_group_init (&pool->group);
  if (start_threads (pool, error))
    return pool;
  tps_worker_pool_free (pool);
  return NULL;
}

TpsWorkerPool *
tps_worker_pool_new (const gchar *name, guint n_threads)
{
  g_autoptr (GError) error = NULL;
  TpsWorkerPool *pool = tps_worker_pool_try_new (name, n_threads, &error);

  if (pool == NULL)
    g_error ("%s", error->message);
  return pool;
}

/* The timer thread must end first, because a timer may submit a job. */
void
tps_worker_pool_free (TpsWorkerPool *pool)
{
  tps_timers_stop (&pool->timers);
  if (pool->has_timer_thread)
    tps_sync_check (pthread_join (pool->timer_thread, NULL));

  tps_mutex_lock (&pool->lock);
  pool->stopping = TRUE;
  tps_cond_broadcast (&pool->work);
  tps_mutex_unlock (&pool->lock);
  for (guint i = 0; i < pool->n_started; i++)
    tps_sync_check (pthread_join (pool->threads[i], NULL));
  tps_worker_pool_unref (pool);
}

void
tps_worker_pool_settle (TpsWorkerPool *pool)
{
  tps_mutex_lock (&pool->lock);
  pool->n_settling++;
  while (!is_settled (pool))
    tps_cond_wait (&pool->settled, &pool->lock);
  pool->n_settling--;
  tps_mutex_unlock (&pool->lock);
}

guint
tps_worker_pool_get_n_threads (TpsWorkerPool *pool)
{
  return pool->n_parallel;
}

guint
tps_worker_pool_get_n_queued (TpsWorkerPool *pool, TpsLane lane)
{
  guint n_queued;

  tps_mutex_lock (&pool->lock);
  n_queued = pool->lanes[lane].n_queued;
  tps_mutex_unlock (&pool->lock);
  return n_queued;
}

static void
submit (TpsWorkerPool *pool, TpsLane lane, TpsJobFunc func, gpointer user_data)
{
  TpsJob *job = job_new (func, NULL, user_data);

  tps_mutex_lock (&pool->lock);
  count_job (&pool->n_submitted);
  tps_job_lane_push_own (pool, lane, job);
  tps_mutex_unlock (&pool->lock);
}

void
tps_worker_pool_submit (TpsWorkerPool *pool, TpsJobFunc func, gpointer user_data)
{
  submit (pool, TPS_LANE_SHORT, func, user_data);
}

void
tps_worker_pool_submit_part (TpsWorkerPool *pool, TpsJobFunc func, gpointer user_data)
{
  submit (pool, current_pool == pool ? current_lane : TPS_LANE_SHORT, func, user_data);
}

/* Replaces a job of a cancelled queue by its `cancel`, which becomes a job of the pool's own queue.
 * The pool's lock is held. */
static void
push_cancellation (TpsJobQueue *queue, TpsJob *job)
{
  job->func = job->cancel;
  tps_job_lane_push_own (queue->pool, TPS_LANE_SHORT, job);
}

void
tps_job_queue_submit (TpsJobQueue *queue, TpsJobFunc func, TpsJobFunc cancel, gpointer user_data)
{
  TpsJob *job = job_new (func, cancel, user_data);

  tps_mutex_lock (&queue->pool->lock);
  count_job (&queue->pool->n_submitted);
  if (queue->cancelled && cancel != NULL)
    push_cancellation (queue, job);
  else
    tps_job_lane_push (queue, job);
  tps_mutex_unlock (&queue->pool->lock);
}

/* A queue that is in a ring stays there until its next turn, even if it has no jobs left. */
void
tps_job_queue_cancel (TpsJobQueue *queue)
{
  TpsJob *job;

  tps_mutex_lock (&queue->pool->lock);
  queue->cancelled = TRUE;
  job = queue->jobs.first;
  tps_job_list_init (&queue->jobs);
  for (TpsJob *next; job != NULL; job = next)
    {
      next = job->next;
      if (job->cancel == NULL)
        {
          tps_job_list_append (&queue->jobs, job);
          continue;
        }
      queue->pool->lanes[queue->lane].n_queued--;
      push_cancellation (queue, job);
    }
  tps_mutex_unlock (&queue->pool->lock);
}

guint64
tps_worker_pool_add_timer (TpsWorkerPool *pool, gint64 deadline_ns, TpsJobFunc func,
                           gpointer user_data)
{
  return tps_timers_add (&pool->timers, deadline_ns, func, user_data);
}

gboolean
tps_worker_pool_cancel_timer (TpsWorkerPool *pool, guint64 timer_id)
{
  return tps_timers_cancel (&pool->timers, timer_id);
}
