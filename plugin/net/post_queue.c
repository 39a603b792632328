/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/post_queue.h"

typedef struct
{
  TpsPostedFunc func;
  gpointer user_data;
} Posted;

void
tps_post_queue_init (TpsPostQueue *queue)
{
  atomic_init (&queue->awake, TRUE);
  atomic_init (&queue->any, FALSE);
  queue->running = g_array_new (FALSE, FALSE, sizeof (Posted));
  queue->posted = g_array_new (FALSE, FALSE, sizeof (Posted));
  tps_mutex_init (&queue->lock);
}

void
tps_post_queue_clear (TpsPostQueue *queue)
{
  g_array_unref (queue->running);
  g_array_unref (queue->posted);
  tps_mutex_clear (&queue->lock);
}

gboolean
tps_post_queue_add (TpsPostQueue *queue, TpsPostedFunc func, gpointer user_data)
{
  Posted posted = { func, user_data };
  gboolean was_awake;

  tps_mutex_lock (&queue->lock);
  g_array_append_val (queue->posted, posted);
  atomic_store_explicit (&queue->any, TRUE, memory_order_relaxed);
  was_awake = atomic_exchange_explicit (&queue->awake, TRUE, memory_order_relaxed);
  tps_mutex_unlock (&queue->lock);
  return !was_awake;
}

void
tps_post_queue_run (TpsPostQueue *queue)
{
  GArray *running;

  if (!tps_post_queue_has_any (queue))
    return;
  tps_mutex_lock (&queue->lock);
  /* The arrays are swapped, so that the functions may post further functions, which run the next
   * time. */
  running = queue->posted;
  queue->posted = queue->running;
  atomic_store_explicit (&queue->any, FALSE, memory_order_relaxed);
  tps_mutex_unlock (&queue->lock);

  for (guint i = 0; i < running->len; i++)
    {
      Posted posted = g_array_index (running, Posted, i);

      posted.func (posted.user_data);
    }
  g_array_set_size (running, 0);
  queue->running = running;
}

gboolean
tps_post_queue_begin_sleep (TpsPostQueue *queue)
{
  gboolean any;

  tps_mutex_lock (&queue->lock);
  /* The lock is held, so no post can come between this check and the change of `awake`. A later
   * post finds that the loop is not awake, and its caller wakes the loop. */
  any = queue->posted->len > 0;
  atomic_store_explicit (&queue->awake, any, memory_order_relaxed);
  tps_mutex_unlock (&queue->lock);
  return !any;
}
