/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Queues of jobs, the threads that empty them, and one thread for timers.
 *
 * submit() -> a queue; a queue with jobs stands in the ring of its group, and a group with such
 * queues in the ring of the lane -> a worker takes the first job of the lane's own queue, or of the
 * first queue of the first group, by turns; group and queue go to the ends of their rings if they
 * have more. Short jobs come first; the bound of the long lane leaves a thread for them. cancel()
 * -> the jobs of a queue go to the pool's own, where their `cancel` runs. add_timer() -> tree
 * ordered by deadline -> the timer thread sleeps until the earliest, and runs it.
 *
 * Every step takes constant time, but for a cancellation, which visits the queue's jobs.
 */

#include "runtime/base/worker_pool.h"

#include <signal.h>

#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/sync.h"

typedef struct Job Job;

struct Job
{
  TpsJobFunc func;
  TpsJobFunc cancel; /* NULL = the job always runs */
  gpointer user_data;
  Job *next;
};

typedef struct
{
  Job *first;
  Job **last; /* where the next job is linked */
} JobList;

typedef struct
{
  gint64 deadline_ns;
  guint64 id;
  TpsJobFunc func;
  gpointer user_data;
} Timer;

struct TpsJobQueue
{
  TpsRefcount refcount;
  TpsWorkerPool *pool; /* a reference */
  TpsLane lane;

  /* Under the pool's lock. */
  JobList jobs;
  TpsJobGroup *group;        /* of its ring; a reference. NULL = the pool's */
  TpsJobGroup *wanted_group; /* which it joins with its next turn; a reference, or NULL */
  TpsJobQueue *next;         /* in the ring */
  gboolean in_ring;          /* from the first job to the turn that finds or leaves no job */
  gboolean cancelled;
};

/* The queues of a group that have jobs in one lane. */
typedef struct
{
  TpsJobQueue *ring;  /* in the order of their turns; each is referenced */
  TpsJobQueue **tail; /* where the next queue is linked */
  TpsJobGroup *next;  /* in the lane's ring */
  gboolean in_ring;   /* of the lane: whenever there are queues. They keep the group */
} GroupRing;

struct TpsJobGroup
{
  TpsRefcount refcount;         /* not of the pool's group */
  TpsWorkerPool *pool;          /* a reference; NULL in the pool's group */
  GroupRing rings[TPS_N_LANES]; /* under the pool's lock */
};

typedef struct
{
  JobList own;        /* of the pool; in the short lane cancellations too */
  TpsJobGroup *ring;  /* groups with jobs, in the order of their turns */
  TpsJobGroup **tail; /* where the next group is linked */
  gboolean own_next;  /* the own queue is next, if it has a job */
  guint n_queued;     /* jobs of all these queues */
  guint n_running;
  guint max_running;
} Lane;

struct TpsWorkerPool
{
  TpsRefcount refcount; /* the creator's, and one of every queue */
  gchar *name;
  guint n_parallel;   /* jobs at the same time */
  TpsThread *threads; /* [n_started], n_parallel of them */
  guint n_started;
  TpsThread timer_thread;
  gboolean has_timer_thread;

  /* Jobs since the pool was made; changed under the lock, read without it. */
  atomic_ullong n_submitted;
  atomic_ullong n_begun;
  atomic_ullong n_ended;

  TpsMutex lock; /* guards everything below */
  TpsCond work;  /* a job is queued, or stopping */
  TpsCond clock; /* the earliest deadline changed, or stopping */
  Lane lanes[TPS_N_LANES];
  TpsJobGroup group; /* of queues without one */
  guint n_idle;
  GTree *timers;     /* Timer -> Timer, by deadline, then id; owns them */
  GHashTable *by_id; /* &timer->id -> Timer */
  guint64 last_timer_id;
  gboolean timers_stopping;
  gboolean stopping;
};

static TpsDepot job_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine job_magazine;

/* The pool and the lane of the job that the calling thread runs. */
static _Thread_local const TpsWorkerPool *current_pool;
static _Thread_local TpsLane current_lane;

/* ---- jobs ----------------------------------------------------------------------------------- */

static Job *
job_new (TpsJobFunc func, TpsJobFunc cancel, gpointer user_data)
{
  Job *job = tps_magazine_take (&job_magazine, &job_depot);

  if (job == NULL)
    job = g_new (Job, 1);
  *job = (Job) { .func = func, .cancel = cancel, .user_data = user_data };
  return job;
}

static void
job_free (Job *job)
{
  tps_magazine_put (&job_magazine, &job_depot, job);
}

static void
job_list_init (JobList *list)
{
  list->first = NULL;
  list->last = &list->first;
}

static void
job_list_append (JobList *list, Job *job)
{
  job->next = NULL;
  *list->last = job;
  list->last = &job->next;
}

static Job *
job_list_pop (JobList *list)
{
  Job *job = list->first;

  if (job == NULL)
    return NULL;
  list->first = job->next;
  if (list->first == NULL)
    list->last = &list->first;
  return job;
}

/* ---- queues, with the pool's lock held ------------------------------------------------------ */

static void
group_init (TpsJobGroup *group)
{
  for (guint i = 0; i < TPS_N_LANES; i++)
    group->rings[i] = (GroupRing) { .tail = &group->rings[i].ring };
}

static void
group_join_lane (TpsWorkerPool *pool, TpsLane lane, TpsJobGroup *group)
{
  GroupRing *ring = &group->rings[lane];

  ring->in_ring = TRUE;
  ring->next = NULL;
  *pool->lanes[lane].tail = group;
  pool->lanes[lane].tail = &ring->next;
}

static TpsJobGroup *
group_leave_lane (TpsWorkerPool *pool, TpsLane lane)
{
  TpsJobGroup *group = pool->lanes[lane].ring;
  GroupRing *ring = &group->rings[lane];

  pool->lanes[lane].ring = ring->next;
  if (ring->next == NULL)
    pool->lanes[lane].tail = &pool->lanes[lane].ring;
  ring->in_ring = FALSE;
  return group;
}

/* The group of a queue that is in no ring. */
static TpsJobGroup *
update_group (TpsJobQueue *queue)
{
  if (queue->group != queue->wanted_group)
    {
      g_clear_pointer (&queue->group, tps_job_group_unref);
      if (queue->wanted_group != NULL)
        queue->group = tps_job_group_ref (queue->wanted_group);
    }
  return queue->group != NULL ? queue->group : &queue->pool->group;
}

/* Takes over a reference of the queue. */
static void
join_ring (TpsJobQueue *queue)
{
  TpsJobGroup *group = update_group (queue);
  GroupRing *ring = &group->rings[queue->lane];

  queue->in_ring = TRUE;
  queue->next = NULL;
  *ring->tail = queue;
  ring->tail = &queue->next;
  if (!ring->in_ring)
    group_join_lane (queue->pool, queue->lane, group);
}

/* The first queue of the group whose turn it is; the group's next turn is its last. */
static TpsJobQueue *
leave_ring (TpsWorkerPool *pool, TpsLane lane)
{
  TpsJobGroup *group = group_leave_lane (pool, lane);
  GroupRing *ring = &group->rings[lane];
  TpsJobQueue *queue = ring->ring;

  ring->ring = queue->next;
  if (ring->ring == NULL)
    ring->tail = &ring->ring;
  else
    group_join_lane (pool, lane, group);
  queue->in_ring = FALSE;
  return queue;
}

/* A lane at its bound needs no thread more: the worker whose job ends looks for the next one. */
static void
wake_for (TpsWorkerPool *pool, TpsLane lane)
{
  if (pool->n_idle > 0 && pool->lanes[lane].n_running < pool->lanes[lane].max_running)
    tps_cond_signal (&pool->work);
}

static void
push_own (TpsWorkerPool *pool, TpsLane lane, Job *job)
{
  job_list_append (&pool->lanes[lane].own, job);
  pool->lanes[lane].n_queued++;
  wake_for (pool, lane);
}

static void
push_job (TpsJobQueue *queue, Job *job)
{
  TpsWorkerPool *pool = queue->pool;

  if (!queue->in_ring)
    join_ring (tps_job_queue_ref (queue));
  job_list_append (&queue->jobs, job);
  pool->lanes[queue->lane].n_queued++;
  wake_for (pool, queue->lane);
}

/* The next job of a lane that has one. `done` (NULL = none) is a queue to unref without the lock.
 * NULL where the queue whose turn it was has been cancelled. */
static Job *
take_job_of_lane (TpsWorkerPool *pool, Lane *lane, TpsJobQueue **done)
{
  TpsJobQueue *queue;
  Job *job;

  *done = NULL;
  if (lane->own.first != NULL && (lane->own_next || lane->ring == NULL))
    {
      lane->own_next = FALSE;
      lane->n_queued--;
      return job_list_pop (&lane->own);
    }
  lane->own_next = TRUE;
  queue = leave_ring (pool, (TpsLane) (lane - pool->lanes));
  job = job_list_pop (&queue->jobs);
  if (job != NULL)
    lane->n_queued--;
  if (queue->jobs.first != NULL)
    join_ring (queue);
  else
    *done = queue;
  return job;
}

/* The lane whose turn it is; NULL: no lane has a job that may run now. */
static Lane *
find_lane (TpsWorkerPool *pool)
{
  for (guint i = 0; i < TPS_N_LANES; i++)
    {
      Lane *lane = &pool->lanes[i];

      if ((lane->own.first != NULL || lane->ring != NULL) && lane->n_running < lane->max_running)
        return lane;
    }
  return NULL;
}

/* ---- what there is to do -------------------------------------------------------------------- */

/* With the pool's lock held, so that an addition needs no atomic instruction. */
static void
count_job (atomic_ullong *n)
{
  atomic_store_explicit (n, atomic_load_explicit (n, memory_order_relaxed) + 1,
                         memory_order_release);
}

/* In the order of later to earlier, so that no difference is negative. */
void
tps_worker_pool_get_load (const TpsWorkerPool *pool, TpsWorkerLoad *load)
{
  guint64 n_ended = atomic_load_explicit (&pool->n_ended, memory_order_acquire);
  guint64 n_begun = atomic_load_explicit (&pool->n_begun, memory_order_acquire);
  guint64 n_submitted = atomic_load_explicit (&pool->n_submitted, memory_order_acquire);

  *load = (TpsWorkerLoad) { n_submitted - n_begun, n_begun - n_ended, n_ended };
}

/* ---- workers -------------------------------------------------------------------------------- */

/* With the lock held, released meanwhile. */
static void
run_next (TpsWorkerPool *pool, Lane *lane)
{
  TpsJobQueue *done;
  Job *job = take_job_of_lane (pool, lane, &done);

  lane->n_running++;
  if (job != NULL)
    count_job (&pool->n_begun);
  if (pool->n_idle > 0
      && find_lane (pool) != NULL) /* of the other lane, where this one has got room */
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
}

static void *
run_worker (void *user_data)
{
  TpsWorkerPool *pool = user_data;

  current_pool = pool;
  tps_mutex_lock (&pool->lock);
  for (;;)
    {
      Lane *lane = find_lane (pool);

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

/* ---- timers --------------------------------------------------------------------------------- */

static gint
compare_timers (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const Timer *left = a;
  const Timer *right = b;

  if (left->deadline_ns != right->deadline_ns)
    return left->deadline_ns < right->deadline_ns ? -1 : 1;
  return left->id < right->id ? -1 : left->id > right->id;
}

/* NULL where there is none. The pool's lock is held. */
static Timer *
earliest_timer (TpsWorkerPool *pool)
{
  GTreeNode *node = g_tree_node_first (pool->timers);

  return node == NULL ? NULL : g_tree_node_key (node);
}

/* Removes and frees `timer`, returns a copy. The pool's lock is held. */
static Timer
take_timer (TpsWorkerPool *pool, Timer *timer)
{
  Timer taken = *timer;

  g_hash_table_remove (pool->by_id, &timer->id);
  g_tree_remove (pool->timers, timer);
  return taken;
}

static void *
run_timers (void *user_data)
{
  TpsWorkerPool *pool = user_data;

  tps_mutex_lock (&pool->lock);
  while (!pool->timers_stopping)
    {
      Timer *timer = earliest_timer (pool);

      if (timer == NULL)
        tps_cond_wait (&pool->clock, &pool->lock);
      else if (timer->deadline_ns <= tps_clock_now_ns ())
        {
          Timer due = take_timer (pool, timer);

          tps_mutex_unlock (&pool->lock);
          due.func (due.user_data);
          tps_mutex_lock (&pool->lock);
        }
      else
        tps_cond_wait_until (&pool->clock, &pool->lock, timer->deadline_ns);
    }
  tps_mutex_unlock (&pool->lock);
  return NULL;
}

/* ---- the pool ------------------------------------------------------------------------------- */

static gboolean
start_thread (TpsThread *thread, void *(*run) (void *), TpsWorkerPool *pool, GError **error)
{
  g_autofree gchar *name = g_strndup (pool->name, 15);
  gint rc = pthread_create (thread, NULL, run, pool);

  if (rc == 0)
    pthread_setname_np (*thread, name);
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "no thread for \"%s\": %s", name,
                 g_strerror (rc));
  return rc == 0;
}

/* Signals are the host's business: they go to threads that it knows. */
static gboolean
start_threads (TpsWorkerPool *pool, GError **error)
{
  sigset_t all, before;

  sigfillset (&all);
  tps_sync_check (pthread_sigmask (SIG_SETMASK, &all, &before));
  pool->has_timer_thread = start_thread (&pool->timer_thread, run_timers, pool, error);
  while (pool->has_timer_thread && pool->n_started < pool->n_parallel
         && start_thread (&pool->threads[pool->n_started], run_worker, pool, error))
    pool->n_started++;
  tps_sync_check (pthread_sigmask (SIG_SETMASK, &before, NULL));
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
  tps_cond_init (&pool->clock);
  for (guint i = 0; i < TPS_N_LANES; i++)
    {
      job_list_init (&pool->lanes[i].own);
      pool->lanes[i].tail = &pool->lanes[i].ring;
      pool->lanes[i].max_running = i == TPS_LANE_LONG ? MAX (n_threads - 1, 1) : n_threads;
    }
  group_init (&pool->group);
  pool->timers = g_tree_new_full (compare_timers, NULL, g_free, NULL);
  pool->by_id = g_hash_table_new (g_int64_hash, g_int64_equal);
  if (start_threads (pool, error))
    return pool;
  tps_worker_pool_free (pool);
  return NULL;
}

TpsWorkerPool *
tps_worker_pool_new (const gchar *name, guint n_threads)
{
  TpsWorkerPool *pool = tps_worker_pool_try_new (name, n_threads, NULL);

  if (pool == NULL)
    g_error ("the system refuses a thread for \"%s\"", name);
  return pool;
}

static void
pool_unref (TpsWorkerPool *pool)
{
  if (!tps_refcount_dec (&pool->refcount))
    return;
  g_hash_table_unref (pool->by_id);
  g_tree_unref (pool->timers);
  tps_cond_clear (&pool->clock);
  tps_cond_clear (&pool->work);
  tps_mutex_clear (&pool->lock);
  g_free (pool->threads);
  g_free (pool->name);
  g_free (pool);
}

/* The timer thread ends first: a timer may submit a job. */
void
tps_worker_pool_free (TpsWorkerPool *pool)
{
  tps_mutex_lock (&pool->lock);
  pool->timers_stopping = TRUE;
  tps_cond_broadcast (&pool->clock);
  tps_mutex_unlock (&pool->lock);
  if (pool->has_timer_thread)
    tps_sync_check (pthread_join (pool->timer_thread, NULL));

  tps_mutex_lock (&pool->lock);
  pool->stopping = TRUE;
  tps_cond_broadcast (&pool->work);
  tps_mutex_unlock (&pool->lock);
  for (guint i = 0; i < pool->n_started; i++)
    tps_sync_check (pthread_join (pool->threads[i], NULL));
  pool_unref (pool);
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
  Job *job = job_new (func, NULL, user_data);

  tps_mutex_lock (&pool->lock);
  count_job (&pool->n_submitted);
  push_own (pool, lane, job);
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

TpsJobQueue *
tps_job_queue_new (TpsWorkerPool *pool, TpsLane lane)
{
  TpsJobQueue *queue = g_new0 (TpsJobQueue, 1);

  tps_refcount_init (&queue->refcount);
  tps_refcount_inc (&pool->refcount);
  queue->pool = pool;
  queue->lane = lane;
  job_list_init (&queue->jobs);
  return queue;
}

TpsJobQueue *
tps_job_queue_ref (TpsJobQueue *queue)
{
  tps_refcount_inc (&queue->refcount);
  return queue;
}

void
tps_job_queue_unref (TpsJobQueue *queue)
{
  if (!tps_refcount_dec (&queue->refcount))
    return;
  g_clear_pointer (&queue->group, tps_job_group_unref);
  g_clear_pointer (&queue->wanted_group, tps_job_group_unref);
  pool_unref (queue->pool);
  g_free (queue);
}

TpsJobGroup *
tps_job_group_new (TpsWorkerPool *pool)
{
  TpsJobGroup *group = g_new0 (TpsJobGroup, 1);

  tps_refcount_init (&group->refcount);
  tps_refcount_inc (&pool->refcount);
  group->pool = pool;
  group_init (group);
  return group;
}

TpsJobGroup *
tps_job_group_ref (TpsJobGroup *group)
{
  tps_refcount_inc (&group->refcount);
  return group;
}

void
tps_job_group_unref (TpsJobGroup *group)
{
  if (!tps_refcount_dec (&group->refcount))
    return;
  pool_unref (group->pool);
  g_free (group);
}

/* The group that is left may go with it: without the lock, as it may be the last user of the
 * pool. */
void
tps_job_queue_set_group (TpsJobQueue *queue, TpsJobGroup *group)
{
  TpsJobGroup *left;

  tps_mutex_lock (&queue->pool->lock);
  left = queue->wanted_group;
  queue->wanted_group = group != NULL ? tps_job_group_ref (group) : NULL;
  tps_mutex_unlock (&queue->pool->lock);
  g_clear_pointer (&left, tps_job_group_unref);
}

/* The pool's lock is held. The job of a cancelled queue becomes its cancellation, one of the pool's
 * own jobs. */
static void
push_cancellation (TpsJobQueue *queue, Job *job)
{
  job->func = job->cancel;
  push_own (queue->pool, TPS_LANE_SHORT, job);
}

void
tps_job_queue_submit (TpsJobQueue *queue, TpsJobFunc func, TpsJobFunc cancel, gpointer user_data)
{
  Job *job = job_new (func, cancel, user_data);

  tps_mutex_lock (&queue->pool->lock);
  count_job (&queue->pool->n_submitted);
  if (queue->cancelled && cancel != NULL)
    push_cancellation (queue, job);
  else
    push_job (queue, job);
  tps_mutex_unlock (&queue->pool->lock);
}

/* A queue in the ring stays there until its turn, perhaps without jobs. */
void
tps_job_queue_cancel (TpsJobQueue *queue)
{
  Job *job;

  tps_mutex_lock (&queue->pool->lock);
  queue->cancelled = TRUE;
  job = queue->jobs.first;
  job_list_init (&queue->jobs);
  for (Job *next; job != NULL; job = next)
    {
      next = job->next;
      if (job->cancel == NULL)
        {
          job_list_append (&queue->jobs, job);
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
  Timer *timer = g_new (Timer, 1);
  guint64 id;

  *timer = (Timer) { .deadline_ns = deadline_ns, .func = func, .user_data = user_data };
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
    take_timer (pool, timer);
  tps_mutex_unlock (&pool->lock);
  return timer != NULL;
}
