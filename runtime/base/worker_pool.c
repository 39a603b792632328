/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A queue, the threads that empty it, and one thread more that puts due timers into it.
 *
 * submit() -> queue -> a worker runs it.
 * add_timer() -> tree ordered by deadline -> the clock thread sleeps until the earliest -> queue -> a worker.
 */

#include "runtime/base/worker_pool.h"

#include <signal.h>

#include "runtime/base/magazine.h"
#include "runtime/base/sync.h"

typedef struct Job Job;

struct Job
{
  TpsJobFunc func;
  gpointer user_data;
  Job *next;
};

typedef struct
{
  gint64 deadline_ns;
  guint64 id;
  Job *job;
} Timer;

struct TpsWorkerPool
{
  gchar *name;
  guint n_threads;
  TpsThread *threads;
  TpsThread clock_thread;

  TpsMutex lock; /* guards everything below */
  TpsCond work;  /* a job is queued, or stopping */
  TpsCond clock; /* the earliest deadline changed, or stopping */
  Job *first;
  Job **last; /* where the next job is linked */
  guint n_idle;
  GTree *timers;     /* Timer -> Timer, by deadline, then id; owns them */
  GHashTable *by_id; /* &timer->id -> Timer */
  guint64 last_timer_id;
  gboolean stopping;
};

static TpsDepot job_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine job_magazine;

static Job *
job_new (TpsJobFunc func, gpointer user_data)
{
  Job *job = tps_magazine_take (&job_magazine, &job_depot);

  if (job == NULL)
    job = g_new (Job, 1);
  *job = (Job) { .func = func, .user_data = user_data };
  return job;
}

static void
job_free (Job *job)
{
  if (job != NULL)
    tps_magazine_put (&job_magazine, &job_depot, job);
}

/* The pool's lock is held. */
static void
push_job (TpsWorkerPool *pool, Job *job)
{
  job->next = NULL;
  *pool->last = job;
  pool->last = &job->next;
  if (pool->n_idle > 0)
    tps_cond_signal (&pool->work);
}

/* Waits for a job; NULL when the pool stops and nothing is left. The pool's lock is held. */
static Job *
pop_job (TpsWorkerPool *pool)
{
  Job *job;

  while (pool->first == NULL && !pool->stopping)
    {
      pool->n_idle++;
      tps_cond_wait (&pool->work, &pool->lock);
      pool->n_idle--;
    }
  job = pool->first;
  if (job == NULL)
    return NULL;
  pool->first = job->next;
  if (pool->first == NULL)
    pool->last = &pool->first;
  return job;
}

static void *
run_worker (void *user_data)
{
  TpsWorkerPool *pool = user_data;
  Job *job;

  tps_mutex_lock (&pool->lock);
  while ((job = pop_job (pool)) != NULL)
    {
      tps_mutex_unlock (&pool->lock);
      job->func (job->user_data);
      job_free (job);
      tps_mutex_lock (&pool->lock);
    }
  tps_mutex_unlock (&pool->lock);
  return NULL;
}

static gint
compare_timers (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const Timer *left = a;
  const Timer *right = b;

  if (left->deadline_ns != right->deadline_ns)
    return left->deadline_ns < right->deadline_ns ? -1 : 1;
  return left->id < right->id ? -1 : left->id > right->id;
}

static void
timer_free (gpointer data)
{
  Timer *timer = data;

  job_free (timer->job);
  g_free (timer);
}

/* NULL where there is none. The pool's lock is held. */
static Timer *
earliest_timer (TpsWorkerPool *pool)
{
  GTreeNode *node = g_tree_node_first (pool->timers);

  return node == NULL ? NULL : g_tree_node_key (node);
}

/* Removes `timer` and hands out its job. The pool's lock is held. */
static Job *
take_timer (TpsWorkerPool *pool, Timer *timer)
{
  Job *job = g_steal_pointer (&timer->job);

  g_hash_table_remove (pool->by_id, &timer->id);
  g_tree_remove (pool->timers, timer);
  return job;
}

static void *
run_clock (void *user_data)
{
  TpsWorkerPool *pool = user_data;

  tps_mutex_lock (&pool->lock);
  while (!pool->stopping)
    {
      Timer *timer = earliest_timer (pool);

      if (timer == NULL)
        tps_cond_wait (&pool->clock, &pool->lock);
      else if (timer->deadline_ns <= tps_clock_now_ns ())
        push_job (pool, take_timer (pool, timer));
      else
        tps_cond_wait_until (&pool->clock, &pool->lock, timer->deadline_ns);
    }
  tps_mutex_unlock (&pool->lock);
  return NULL;
}

static void
start_thread (TpsThread *thread, void *(*run) (void *), TpsWorkerPool *pool)
{
  g_autofree gchar *name = g_strndup (pool->name, 15);

  tps_sync_check (pthread_create (thread, NULL, run, pool));
  pthread_setname_np (*thread, name);
}

TpsWorkerPool *
tps_worker_pool_new (const gchar *name, guint n_threads)
{
  TpsWorkerPool *pool = g_new0 (TpsWorkerPool, 1);
  sigset_t all, before;

  g_return_val_if_fail (n_threads >= 1, NULL);
  pool->name = g_strdup (name);
  pool->n_threads = n_threads;
  pool->threads = g_new0 (TpsThread, n_threads);
  tps_mutex_init (&pool->lock);
  tps_cond_init (&pool->work);
  tps_cond_init (&pool->clock);
  pool->last = &pool->first;
  pool->timers = g_tree_new_full (compare_timers, NULL, timer_free, NULL);
  pool->by_id = g_hash_table_new (g_int64_hash, g_int64_equal);

  /* Signals are the host's business: they go to threads that it knows. */
  sigfillset (&all);
  tps_sync_check (pthread_sigmask (SIG_SETMASK, &all, &before));
  for (guint i = 0; i < n_threads; i++)
    start_thread (&pool->threads[i], run_worker, pool);
  start_thread (&pool->clock_thread, run_clock, pool);
  tps_sync_check (pthread_sigmask (SIG_SETMASK, &before, NULL));
  return pool;
}

void
tps_worker_pool_free (TpsWorkerPool *pool)
{
  tps_mutex_lock (&pool->lock);
  pool->stopping = TRUE;
  tps_cond_broadcast (&pool->work);
  tps_cond_broadcast (&pool->clock);
  tps_mutex_unlock (&pool->lock);

  tps_sync_check (pthread_join (pool->clock_thread, NULL));
  for (guint i = 0; i < pool->n_threads; i++)
    tps_sync_check (pthread_join (pool->threads[i], NULL));

  g_hash_table_unref (pool->by_id);
  g_tree_unref (pool->timers);
  tps_cond_clear (&pool->clock);
  tps_cond_clear (&pool->work);
  tps_mutex_clear (&pool->lock);
  g_free (pool->threads);
  g_free (pool->name);
  g_free (pool);
}

guint
tps_worker_pool_get_n_threads (TpsWorkerPool *pool)
{
  return pool->n_threads;
}

void
tps_worker_pool_submit (TpsWorkerPool *pool, TpsJobFunc func, gpointer user_data)
{
  Job *job = job_new (func, user_data);

  tps_mutex_lock (&pool->lock);
  push_job (pool, job);
  tps_mutex_unlock (&pool->lock);
}

guint64
tps_worker_pool_add_timer (TpsWorkerPool *pool, gint64 deadline_ns, TpsJobFunc func,
                           gpointer user_data)
{
  Timer *timer = g_new (Timer, 1);
  guint64 id;

  *timer = (Timer) { .deadline_ns = deadline_ns, .job = job_new (func, user_data) };
  tps_mutex_lock (&pool->lock);
  id = timer->id = ++pool->last_timer_id;
  g_tree_insert (pool->timers, timer, timer);
  g_hash_table_insert (pool->by_id, &timer->id, timer);
  if (earliest_timer (pool) == timer)
    tps_cond_signal (&pool->clock);
  tps_mutex_unlock (&pool->lock);
  return id;
}

gboolean
tps_worker_pool_cancel_timer (TpsWorkerPool *pool, guint64 timer_id)
{
  Timer *timer;

  tps_mutex_lock (&pool->lock);
  timer = g_hash_table_lookup (pool->by_id, &timer_id);
  if (timer != NULL)
    job_free (take_timer (pool, timer));
  tps_mutex_unlock (&pool->lock);
  return timer != NULL;
}
