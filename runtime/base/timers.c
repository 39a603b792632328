/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/timers.h"

typedef struct
{
  gint64 deadline_ns;
  guint64 id;
  TpsTimerFunc func;
  gpointer user_data;
} Timer;

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

void
tps_timers_init (TpsTimers *timers)
{
  *timers = (TpsTimers) {
    .timers = g_tree_new_full (compare_timers, NULL, g_free, NULL),
    .by_id = g_hash_table_new (g_int64_hash, g_int64_equal),
  };
  tps_mutex_init (&timers->lock);
  tps_cond_init (&timers->clock);
}

void
tps_timers_clear (TpsTimers *timers)
{
  g_hash_table_unref (timers->by_id);
  g_tree_unref (timers->timers);
  tps_cond_clear (&timers->clock);
  tps_mutex_clear (&timers->lock);
}

guint64
tps_timers_add (TpsTimers *timers, gint64 deadline_ns, TpsTimerFunc func, gpointer user_data)
{
  Timer *timer = g_new (Timer, 1);
  guint64 id;

  *timer = (Timer) { .deadline_ns = deadline_ns, .func = func, .user_data = user_data };
  tps_mutex_lock (&timers->lock);
  id = timer->id = ++timers->last_id;
  g_tree_insert (timers->timers, timer, timer);
  g_hash_table_insert (timers->by_id, &timer->id, timer);
  /* The timer thread must not sleep beyond the new deadline. */
  if (earliest_timer (timers) == timer)
    tps_cond_signal (&timers->clock);
  tps_mutex_unlock (&timers->lock);
  return id;
}

gboolean
tps_timers_cancel (TpsTimers *timers, guint64 id)
{
  Timer *timer;

  tps_mutex_lock (&timers->lock);
  timer = g_hash_table_lookup (timers->by_id, &id);
  if (timer != NULL)
    take_timer (timers, timer);
  tps_mutex_unlock (&timers->lock);
  return timer != NULL;
}

void
tps_timers_run (TpsTimers *timers)
{
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
}

void
tps_timers_stop (TpsTimers *timers)
{
  tps_mutex_lock (&timers->lock);
  timers->stops = TRUE;
  tps_cond_broadcast (&timers->clock);
  tps_mutex_unlock (&timers->lock);
}
