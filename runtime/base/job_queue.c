/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The life of queues and groups. Submission and cancellation of jobs are in worker_pool.c. */

#include "runtime/base/worker_pool_private.h"

TpsJobQueue *
tps_job_queue_new (TpsWorkerPool *pool, TpsLane lane)
{
  TpsJobQueue *queue = g_new0 (TpsJobQueue, 1);

  tps_refcount_init (&queue->refcount);
  tps_refcount_inc (&pool->refcount);
  queue->pool = pool;
  queue->lane = lane;
  tps_job_list_init (&queue->jobs);
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
  tps_worker_pool_unref (queue->pool);
  g_free (queue);
}

TpsJobGroup *
tps_job_group_new (TpsWorkerPool *pool)
{
  TpsJobGroup *group = g_new0 (TpsJobGroup, 1);

  tps_refcount_init (&group->refcount);
  tps_refcount_inc (&pool->refcount);
  group->pool = pool;
  tps_job_group_init (group);
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
  tps_worker_pool_unref (group->pool);
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
  queue->wanted_group = group != NULL ? tps_job_group_ref (group) : NULL;
  tps_mutex_unlock (&queue->pool->lock);
  g_clear_pointer (&left, tps_job_group_unref);
}
