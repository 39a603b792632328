/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The structures of a pool. Internal to worker_pool.c (jobs and threads), job_rings.h (the order of
 * jobs) and job_queue.c (the life of queues and groups). */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/base/timers.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

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

/* Makes an empty list. */
static inline void
tps_job_list_init (TpsJobList *list)
{
  list->first = NULL;
  list->last = &list->first;
}

/* Makes the rings of a group, all empty. */
static inline void
tps_job_group_init (TpsJobGroup *group)
{
  for (guint i = 0; i < TPS_N_LANES; i++)
    group->rings[i] = (TpsGroupRing) { .tail = &group->rings[i].ring };
}

/* Releases a reference; the last one frees the memory of the pool, whose threads must have ended.
 * The pool's lock must not be held. Thread: any. */
static inline void
tps_worker_pool_unref (TpsWorkerPool *pool)
{
  if (!tps_refcount_dec (&pool->refcount))
    return;
  tps_timers_clear (&pool->timers);
  tps_cond_clear (&pool->settled);
  tps_cond_clear (&pool->work);
  tps_mutex_clear (&pool->lock);
  g_free (pool->threads);
  g_free (pool->name);
  g_free (pool);
}

G_END_DECLS
