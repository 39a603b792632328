/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The order of jobs. Internal to worker_pool.c.
 *
 * A lane has the pool's own queue and a ring of groups. A group has, for each lane, a ring of its
 * queues with jobs. A worker takes jobs alternately from the lane's own queue and from the first
 * queue of the first group. If that group and queue have more jobs, each then joins the end of its
 * ring. Every step takes constant time.
 *
 * The functions are inline because each job passes through them twice, when it is submitted and
 * when it is taken. The pool's lock must be held.
 */

#pragma once

#include "runtime/base/worker_pool_private.h"

G_BEGIN_DECLS

/* Appends `job`, of which the list takes ownership. */
static inline void
tps_job_list_append (TpsJobList *list, TpsJob *job)
{
  job->next = NULL;
  *list->last = job;
  list->last = &job->next;
}

/* Removes and returns the first job of the list, which the caller then owns; NULL if the list is
 * empty. */
static inline TpsJob *
tps_job_list_pop (TpsJobList *list)
{
  TpsJob *job = list->first;

  if (job == NULL)
    return NULL;
  list->first = job->next;
  if (list->first == NULL)
    list->last = &list->first;
  return job;
}

/* Appends a group that has jobs in the lane to the lane's ring. */
static inline void
tps_job_group_join_lane (TpsWorkerPool *pool, TpsLane lane, TpsJobGroup *group)
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
tps_job_group_leave_lane (TpsWorkerPool *pool, TpsLane lane)
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
tps_job_queue_update_group (TpsJobQueue *queue)
{
  if (queue->group != queue->wanted_group)
    {
      g_clear_pointer (&queue->group, tps_job_group_unref);
      if (queue->wanted_group != NULL)
        queue->group = tps_job_group_ref (queue->wanted_group);
    }
  return queue->group != NULL ? queue->group : &queue->pool->group;
}

/* Appends the queue to the ring of its group. The ring takes over a reference to the queue. */
static inline void
tps_job_queue_join_ring (TpsJobQueue *queue)
{
  TpsJobGroup *group = tps_job_queue_update_group (queue);
  TpsGroupRing *ring = &group->rings[queue->lane];

  queue->in_ring = TRUE;
  queue->next = NULL;
  *ring->tail = queue;
  ring->tail = &queue->next;
  if (!ring->in_ring)
    tps_job_group_join_lane (queue->pool, queue->lane, group);
}

/* Removes and returns the first queue of the first group. If the group has more queues, it becomes
 * the last group of the lane. The caller takes over the ring's reference to the queue. */
static inline TpsJobQueue *
tps_job_queue_leave_ring (TpsWorkerPool *pool, TpsLane lane)
{
  TpsJobGroup *group = tps_job_group_leave_lane (pool, lane);
  TpsGroupRing *ring = &group->rings[lane];
  TpsJobQueue *queue = ring->ring;

  ring->ring = queue->next;
  if (ring->ring == NULL)
    ring->tail = &ring->ring;
  else
    tps_job_group_join_lane (pool, lane, group);
  queue->in_ring = FALSE;
  return queue;
}

/* Wakes an idle worker, if there is one, for a new job. A lane that already runs as many jobs as it
 * may needs no further thread: a worker takes the next job when its own job ends. */
static inline void
tps_job_lane_wake (TpsWorkerPool *pool, TpsLane lane)
{
  if (pool->n_idle > 0 && pool->lanes[lane].n_running < pool->lanes[lane].max_running)
    tps_cond_signal (&pool->work);
}

/* Appends a job to the pool's own queue of the lane. Takes ownership of `job`. */
static inline void
tps_job_lane_push_own (TpsWorkerPool *pool, TpsLane lane, TpsJob *job)
{
  tps_job_list_append (&pool->lanes[lane].own, job);
  pool->lanes[lane].n_queued++;
  tps_job_lane_wake (pool, lane);
}

/* Appends a job to a queue, which joins its ring if it had no jobs. Takes ownership of `job`. */
static inline void
tps_job_lane_push (TpsJobQueue *queue, TpsJob *job)
{
  TpsWorkerPool *pool = queue->pool;

  if (!queue->in_ring)
    {
      tps_refcount_inc (&queue->refcount);
      tps_job_queue_join_ring (queue);
    }
  tps_job_list_append (&queue->jobs, job);
  pool->lanes[queue->lane].n_queued++;
  tps_job_lane_wake (pool, queue->lane);
}

/* Takes the next job of a lane with jobs; the caller owns the job. Returns NULL if the jobs of the
 * queue whose turn it is have been cancelled. The caller must release the lock and then the
 * reference to the queue `*done` (NULL = none). */
static inline TpsJob *
tps_job_lane_take (TpsWorkerPool *pool, TpsLaneJobs *lane, TpsJobQueue **done)
{
  TpsJobQueue *queue;
  TpsJob *job;

  *done = NULL;
  if (lane->own.first != NULL && (lane->own_next || lane->ring == NULL))
    {
      lane->own_next = FALSE;
      lane->n_queued--;
      return tps_job_list_pop (&lane->own);
    }
  lane->own_next = TRUE;
  queue = tps_job_queue_leave_ring (pool, (TpsLane) (lane - pool->lanes));
  job = tps_job_list_pop (&queue->jobs);
  if (job != NULL)
    lane->n_queued--;
  if (queue->jobs.first != NULL)
    tps_job_queue_join_ring (queue);
  else
    *done = queue;
  return job;
}

/* Returns the lane of the next job; NULL if no lane has a job that may run now. */
static inline TpsLaneJobs *
tps_job_lane_find (TpsWorkerPool *pool)
{
  for (guint i = 0; i < TPS_N_LANES; i++)
    {
      TpsLaneJobs *lane = &pool->lanes[i];

      if ((lane->own.first != NULL || lane->ring != NULL) && lane->n_running < lane->max_running)
        return lane;
    }
  return NULL;
}

G_END_DECLS
