/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The path of a job from its submission to a worker, and the threads of the pool.
 *
 * submit() appends the job to a queue and wakes an idle worker. A lane has the pool's own queue
 * and a ring of groups. A group has, for each lane, a ring of its queues with jobs. A worker takes
 * jobs alternately from the lane's own queue and from the first queue of the first group. If that
 * group and queue have more jobs, each then joins the end of its ring. Short jobs come before long
 * ones. The bound of the long lane leaves a thread for short jobs. cancel() moves the jobs of a
 * queue that have a `cancel` to the pool's own queue, where this function runs instead of the job.
 * One more thread runs timers.
 *
 * Every step takes constant time, except a cancellation, which visits the jobs of the queue. The
 * functions through which each job passes are inline. */

#include "runtime/base/worker_pool.h"

#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"

/* One-shot timers, ordered by deadline and run by one thread. Their functions are called without
 * the lock, so they may add and cancel timers. Adding and cancelling take logarithmic time. */
typedef struct
{
  TpsMutex lock;     /* guards everything below */
  TpsCond clock;     /* the earliest deadline has changed, or the thread must stop */
  GTree *timers;     /* Timer -> Timer, by deadline, then id; owns them */
  GHashTable *by_id; /* &timer->id -> Timer */
  guint64 last_id;
  gboolean stops;
} TpsTimers;

typedef struct
{
  gint64 deadline_ns;
  guint64 id;
  TpsJobFunc func;
  gpointer user_data;
} Timer;

typedef struct TpsJob TpsJob;

struct TpsJob
{
  TpsJobFunc func;
  TpsJobFunc cancel; /* NULL = the job always runs */
  gpointer user_data;
  TpsJob *next;
};

typedef struct
{
  TpsJob *first;
  TpsJob **last; /* where the next job is linked */
} TpsJobList;

struct TpsJobQueue
{
  TpsRefcount refcount;
  TpsWorkerPool *pool; /* a reference */
  TpsLane lane;

  /* Under the pool's lock. */
  TpsJobList jobs;
  TpsJobGroup *group;        /* whose ring the queue joins; a reference. NULL = the pool's */
  TpsJobGroup *wanted_group; /* joined when the queue next enters a ring; a reference, or NULL */
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
  gboolean in_ring;   /* in the lane's ring: TRUE while there are queues, which reference it */
} TpsGroupRing;

struct TpsJobGroup
{
  TpsRefcount refcount;            /* not of the pool's group */
  TpsWorkerPool *pool;             /* a reference; NULL in the pool's group */
  TpsGroupRing rings[TPS_N_LANES]; /* under the pool's lock */
};

typedef struct
{
  TpsJobList own;     /* the pool's own queue; in the short lane, also cancellations */
  TpsJobGroup *ring;  /* groups with jobs, in the order of their turns */
  TpsJobGroup **tail; /* where the next group is linked */
  gboolean own_next;  /* the pool's own queue is next, if it has a job */
  guint n_queued;     /* jobs of all these queues */
  guint n_running;
  guint max_running;
} TpsLaneJobs;

struct TpsWorkerPool
{
  TpsRefcount refcount; /* references of the creator and of each queue and group */
  gchar *name;
  guint n_parallel;   /* jobs at the same time */
  TpsThread *threads; /* [n_parallel], of which n_started have been started */
  guint n_started;
  TpsThread timer_thread;
  gboolean has_timer_thread;
  TpsTimers timers; /* has a lock of its own, which is never held with the pool's */

  /* Jobs since the pool was made; changed under the lock, read without it. */
  atomic_ullong n_submitted;
  atomic_ullong n_begun;
  atomic_ullong n_ended;

  TpsMutex lock; /* guards everything below */
  TpsCond work;  /* a job has been queued, or `stopping` has been set */
  TpsCond settled;
  guint n_settling; /* threads in tps_worker_pool_settle() */
  TpsLaneJobs lanes[TPS_N_LANES];
  TpsJobGroup group; /* of all queues without a group of their own */
  guint n_idle;
  gboolean stopping;
};

static TpsDepot job_depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine job_magazine;

/* The pool and the lane of the job that the calling thread runs. */
static _Thread_local const TpsWorkerPool *current_pool;
static _Thread_local TpsLane current_lane;

/* Orders timers by deadline. Timers of equal deadlines are ordered by creation. */
static gint
compare_timers (gconstpointer a, gconstpointer b, gpointer user_data)
{
  const Timer *left = a;
  const Timer *right = b;

  if (left->deadline_ns != right->deadline_ns)
    return left->deadline_ns < right->deadline_ns ? -1 : 1;
  return left->id < right->id ? -1 : left->id > right->id;
}

/* Returns the timer with the earliest deadline; NULL if there is no timer. The lock is held. */
static Timer *
earliest_timer (TpsTimers *timers)
{
  GTreeNode *node = g_tree_node_first (timers->timers);

  return node == NULL ? NULL : g_tree_node_key (node);
}

/* Removes and frees `timer`, and returns a copy. The table uses the id in the timer as its key, so
 * its entry must be removed first. The lock is held. */
static Timer
take_timer (TpsTimers *timers, Timer *timer)
{
  Timer taken = *timer;

  g_hash_table_remove (timers->by_id, &timer->id);
  g_tree_remove (timers->timers, timer);
  return taken;
}

static inline void
job_list_init (TpsJobList *list)
{
  list->first = NULL;
  list->last = &list->first;
}

static inline void
job_group_init (TpsJobGroup *group)
{
  for (guint i = 0; i < TPS_N_LANES; i++)
    group->rings[i] = (TpsGroupRing) { .tail = &group->rings[i].ring };
}

/* Releases a reference; the last one frees the memory of the pool, whose threads must have ended.
 * The pool's lock must not be held. Thread: any. */
static inline void
worker_pool_unref (TpsWorkerPool *pool)
{
  if (!tps_refcount_dec (&pool->refcount))
    return;
  /* Timers that have not begun never run. */
  g_hash_table_unref (pool->timers.by_id);
  g_tree_unref (pool->timers.timers);
  tps_cond_clear (&pool->timers.clock);
  tps_mutex_clear (&pool->timers.lock);
  tps_cond_clear (&pool->settled);
  tps_cond_clear (&pool->work);
  tps_mutex_clear (&pool->lock);
  g_free (pool->threads);
  g_free (pool->name);
  g_free (pool);
}

/* Appends `job`, of which the list takes ownership. */
static inline void
job_list_append (TpsJobList *list, TpsJob *job)
{
  job->next = NULL;
  *list->last = job;
  list->last = &job->next;
}

/* Removes and returns the first job of the list, which the caller then owns; NULL if the list is
 * empty. */
static inline TpsJob *
job_list_pop (TpsJobList *list)
{
  TpsJob *job = list->first;

  if (job == NULL)
    return NULL;
  list->first = job->next;
  if (list->first == NULL)
    list->last = &list->first;
  return job;
}

static inline void
job_group_join_lane (TpsWorkerPool *pool, TpsLane lane, TpsJobGroup *group)
{
  TpsGroupRing *ring = &group->rings[lane];

  ring->in_ring = TRUE;
  ring->next = NULL;
  *pool->lanes[lane].tail = group;
  pool->lanes[lane].tail = &ring->next;
}

/* Removes the first group from the lane's ring, which must not be empty, and returns it,
 * borrowed. */
static inline TpsJobGroup *
job_group_leave_lane (TpsWorkerPool *pool, TpsLane lane)
{
  TpsJobGroup *group = pool->lanes[lane].ring;
  TpsGroupRing *ring = &group->rings[lane];

  pool->lanes[lane].ring = ring->next;
  if (ring->next == NULL)
    pool->lanes[lane].tail = &pool->lanes[lane].ring;
  ring->in_ring = FALSE;
  return group;
}

/* Moves a queue that is in no ring to the group that was requested last. Returns its group,
 * borrowed. */
static inline TpsJobGroup *
job_queue_update_group (TpsJobQueue *queue)
{
  if (queue->group != queue->wanted_group)
    {
      g_clear_pointer (&queue->group, tps_job_group_unref);
      if (queue->wanted_group != NULL)
        tps_refcount_inc (&queue->wanted_group->refcount);
      queue->group = queue->wanted_group;
    }
  return queue->group != NULL ? queue->group : &queue->pool->group;
}

/* Appends the queue to the ring of its group. The ring takes over a reference to the queue. */
static inline void
job_queue_join_ring (TpsJobQueue *queue)
{
  TpsJobGroup *group = job_queue_update_group (queue);
  TpsGroupRing *ring = &group->rings[queue->lane];

  queue->in_ring = TRUE;
  queue->next = NULL;
  *ring->tail = queue;
  ring->tail = &queue->next;
  if (!ring->in_ring)
    job_group_join_lane (queue->pool, queue->lane, group);
}

/* Removes and returns the first queue of the first group. If the group has more queues, it becomes
 * the last group of the lane. The caller takes over the ring's reference to the queue. */
static inline TpsJobQueue *
job_queue_leave_ring (TpsWorkerPool *pool, TpsLane lane)
{
  TpsJobGroup *group = job_group_leave_lane (pool, lane);
  TpsGroupRing *ring = &group->rings[lane];
  TpsJobQueue *queue = ring->ring;

  ring->ring = queue->next;
  if (ring->ring == NULL)
    ring->tail = &ring->ring;
  else
    job_group_join_lane (pool, lane, group);
  queue->in_ring = FALSE;
  return queue;
}

/* Wakes an idle worker, if there is one, for a new job. A lane that already runs as many jobs as it
 * may needs no further thread: a worker takes the next job when its own job ends. */
static inline void
job_lane_wake (TpsWorkerPool *pool, TpsLane lane)
{
  if (pool->n_idle > 0 && pool->lanes[lane].n_running < pool->lanes[lane].max_running)
    tps_cond_signal (&pool->work);
}

/* Appends a job to the pool's own queue of the lane. Takes ownership of `job`. */
static inline void
job_lane_push_own (TpsWorkerPool *pool, TpsLane lane, TpsJob *job)
{
  job_list_append (&pool->lanes[lane].own, job);
  pool->lanes[lane].n_queued++;
  job_lane_wake (pool, lane);
}

/* Appends a job to a queue, which joins its ring if it had no jobs. Takes ownership of `job`. */
static inline void
job_lane_push (TpsJobQueue *queue, TpsJob *job)
{
  TpsWorkerPool *pool = queue->pool;

  if (!queue->in_ring)
    {
      tps_refcount_inc (&queue->refcount);
      job_queue_join_ring (queue);
    }
  job_list_append (&queue->jobs, job);
  pool->lanes[queue->lane].n_queued++;
  job_lane_wake (pool, queue->lane);
}

/* Takes the next job of a lane with jobs; the caller owns the job. Returns NULL if the jobs of the
 * queue whose turn it is have been cancelled. The caller must release the lock and then the
 * reference to the queue `*done` (NULL = none). */
static inline TpsJob *
job_lane_take (TpsWorkerPool *pool, TpsLaneJobs *lane, TpsJobQueue **done)
{
  TpsJobQueue *queue;
  TpsJob *job;

  *done = NULL;
  if (lane->own.first != NULL && (lane->own_next || lane->ring == NULL))
    {
      lane->own_next = FALSE;
      lane->n_queued--;
      return job_list_pop (&lane->own);
    }
  lane->own_next = TRUE;
  queue = job_queue_leave_ring (pool, (TpsLane) (lane - pool->lanes));
  job = job_list_pop (&queue->jobs);
  if (job != NULL)
    lane->n_queued--;
  if (queue->jobs.first != NULL)
    job_queue_join_ring (queue);
  else
    *done = queue;
  return job;
}

/* Returns the lane of the next job; NULL if no lane has a job that may run now. */
static inline TpsLaneJobs *
job_lane_find (TpsWorkerPool *pool)
{
  for (guint i = 0; i < TPS_N_LANES; i++)
    {
      TpsLaneJobs *lane = &pool->lanes[i];

      if ((lane->own.first != NULL || lane->ring != NULL) && lane->n_running < lane->max_running)
        return lane;
    }
  return NULL;
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

void
tps_job_queue_unref (TpsJobQueue *queue)
{
  if (!tps_refcount_dec (&queue->refcount))
    return;
  g_clear_pointer (&queue->group, tps_job_group_unref);
  g_clear_pointer (&queue->wanted_group, tps_job_group_unref);
  worker_pool_unref (queue->pool);
  g_free (queue);
}

TpsJobGroup *
tps_job_group_new (TpsWorkerPool *pool)
{
  TpsJobGroup *group = g_new0 (TpsJobGroup, 1);

  tps_refcount_init (&group->refcount);
  tps_refcount_inc (&pool->refcount);
  group->pool = pool;
  job_group_init (group);
  return group;
}

void
tps_job_group_unref (TpsJobGroup *group)
{
  if (!tps_refcount_dec (&group->refcount))
    return;
  worker_pool_unref (group->pool);
  g_free (group);
}

/* Releases the old group without the lock. The group's last reference may release the last
 * reference to the pool, which frees the lock. */
void
tps_job_queue_set_group (TpsJobQueue *queue, TpsJobGroup *group)
{
  TpsJobGroup *left;

  tps_mutex_lock (&queue->pool->lock);
  left = queue->wanted_group;
  queue->wanted_group = group;
  if (group != NULL)
    tps_refcount_inc (&group->refcount);
  tps_mutex_unlock (&queue->pool->lock);
  g_clear_pointer (&left, tps_job_group_unref);
}

static TpsJob *
job_new (TpsJobFunc func, TpsJobFunc cancel, gpointer user_data)
{
  TpsJob *job = tps_magazine_take (&job_magazine, &job_depot);

  if (job == NULL)
    job = g_new (TpsJob, 1);
  *job = (TpsJob) { .func = func, .cancel = cancel, .user_data = user_data };
  return job;
}

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
  TpsJob *job = job_lane_take (pool, lane, &done);

  lane->n_running++;
  if (job != NULL)
    count_job (&pool->n_begun);
  /* The submission of a job to a full lane wakes no worker. If the lane has room now, an idle
   * worker must be woken for this job. */
  if (pool->n_idle > 0 && job_lane_find (pool) != NULL)
    tps_cond_signal (&pool->work);
  tps_mutex_unlock (&pool->lock);
  g_clear_pointer (&done, tps_job_queue_unref);
  if (job != NULL)
    {
      current_lane = (TpsLane) (lane - pool->lanes);
      job->func (job->user_data);
      tps_magazine_put (&job_magazine, &job_depot, job);
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
  TPS_LOCK_SCOPE (&pool->lock);
  for (;;)
    {
      TpsLaneJobs *lane = job_lane_find (pool);

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
  return NULL;
}

static void *
run_timers (void *user_data)
{
  TpsTimers *timers = &((TpsWorkerPool *) user_data)->timers;

  tps_mutex_lock (&timers->lock);
  while (!timers->stops)
    {
      Timer *timer = earliest_timer (timers);

      if (timer == NULL)
        tps_cond_wait (&timers->clock, &timers->lock);
      else if (timer->deadline_ns <= tps_clock_now_ns ())
        {
          Timer due = take_timer (timers, timer);

          tps_mutex_unlock (&timers->lock);
          due.func (due.user_data);
          tps_mutex_lock (&timers->lock);
        }
      else
        tps_cond_wait_until (&timers->clock, &timers->lock, timer->deadline_ns);
    }
  tps_mutex_unlock (&timers->lock);
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
  pool->timers = (TpsTimers) {
    .timers = g_tree_new_full (compare_timers, NULL, g_free, NULL),
    .by_id = g_hash_table_new (g_int64_hash, g_int64_equal),
  };
  tps_mutex_init (&pool->timers.lock);
  tps_cond_init (&pool->timers.clock);
  for (guint i = 0; i < TPS_N_LANES; i++)
    {
      job_list_init (&pool->lanes[i].own);
      pool->lanes[i].tail = &pool->lanes[i].ring;
      pool->lanes[i].max_running = i == TPS_LANE_LONG ? MAX (n_threads - 1, 1) : n_threads;
    }
  job_group_init (&pool->group);
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
  tps_mutex_lock (&pool->timers.lock);
  pool->timers.stops = TRUE;
  tps_cond_broadcast (&pool->timers.clock);
  tps_mutex_unlock (&pool->timers.lock);
  if (pool->has_timer_thread)
    tps_sync_check (pthread_join (pool->timer_thread, NULL));

  tps_mutex_lock (&pool->lock);
  pool->stopping = TRUE;
  tps_cond_broadcast (&pool->work);
  tps_mutex_unlock (&pool->lock);
  for (guint i = 0; i < pool->n_started; i++)
    tps_sync_check (pthread_join (pool->threads[i], NULL));
  worker_pool_unref (pool);
}

void
tps_worker_pool_settle (TpsWorkerPool *pool)
{
  TPS_LOCK_SCOPE (&pool->lock);
  pool->n_settling++;
  while (!is_settled (pool))
    tps_cond_wait (&pool->settled, &pool->lock);
  pool->n_settling--;
}

guint
tps_worker_pool_get_n_threads (TpsWorkerPool *pool)
{
  return pool->n_parallel;
}

guint
tps_worker_pool_get_n_queued (TpsWorkerPool *pool, TpsLane lane)
{
  TPS_LOCK_SCOPE (&pool->lock);
  return pool->lanes[lane].n_queued;
}

static void
submit (TpsWorkerPool *pool, TpsLane lane, TpsJobFunc func, gpointer user_data)
{
  TpsJob *job = job_new (func, NULL, user_data);

  TPS_LOCK_SCOPE (&pool->lock);
  count_job (&pool->n_submitted);
  job_lane_push_own (pool, lane, job);
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
  job_lane_push_own (queue->pool, TPS_LANE_SHORT, job);
}

void
tps_job_queue_submit (TpsJobQueue *queue, TpsJobFunc func, TpsJobFunc cancel, gpointer user_data)
{
  TpsJob *job = job_new (func, cancel, user_data);

  TPS_LOCK_SCOPE (&queue->pool->lock);
  count_job (&queue->pool->n_submitted);
  if (queue->cancelled && cancel != NULL)
    push_cancellation (queue, job);
  else
    job_lane_push (queue, job);
}

/* A queue that is in a ring stays there until its next turn, even if it has no jobs left. */
void
tps_job_queue_cancel (TpsJobQueue *queue)
{
  TpsJob *job;

  TPS_LOCK_SCOPE (&queue->pool->lock);
  queue->cancelled = TRUE;
  job = queue->jobs.first;
  job_list_init (&queue->jobs);
  for (TpsJob *next; job != NULL; job = next)
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
}

guint64
tps_worker_pool_add_timer (TpsWorkerPool *pool, gint64 deadline_ns, TpsJobFunc func,
                           gpointer user_data)
{
  TpsTimers *timers = &pool->timers;
  Timer *timer = g_new (Timer, 1);
  guint64 id;

  *timer = (Timer) { .deadline_ns = deadline_ns, .func = func, .user_data = user_data };
  TPS_LOCK_SCOPE (&timers->lock);
  id = timer->id = ++timers->last_id;
  g_tree_insert (timers->timers, timer, timer);
  g_hash_table_insert (timers->by_id, &timer->id, timer);
  /* The timer thread must not sleep beyond the new deadline. */
  if (earliest_timer (timers) == timer)
    tps_cond_signal (&timers->clock);
  return id;
}

gboolean
tps_worker_pool_cancel_timer (TpsWorkerPool *pool, guint64 timer_id)
{
  TpsTimers *timers = &pool->timers;
  Timer *timer;

  TPS_LOCK_SCOPE (&timers->lock);
  timer = g_hash_table_lookup (timers->by_id, &timer_id);
  if (timer != NULL)
    take_timer (timers, timer);
  return timer != NULL;
}
