/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/timer_heap.h"

typedef struct
{
  guint64 id;
  gint64 deadline_ns;
  guint position;
  TpsTimerFunc func;
  gpointer user_data;
} Timer;

static Timer *
timer_at (const TpsTimerHeap *heap, guint position)
{
  return g_ptr_array_index (heap->timers, position);
}

static void
place (TpsTimerHeap *heap, Timer *timer, guint position)
{
  g_ptr_array_index (heap->timers, position) = timer;
  timer->position = position;
}

static gboolean
is_earlier (const Timer *a, const Timer *b)
{
  return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns : a->id < b->id;
}

static void
sift_up (TpsTimerHeap *heap, Timer *timer)
{
  guint position = timer->position;

  while (position > 0 && is_earlier (timer, timer_at (heap, (position - 1) / 2)))
    {
      place (heap, timer_at (heap, (position - 1) / 2), position);
      position = (position - 1) / 2;
    }
  place (heap, timer, position);
}

static void
sift_down (TpsTimerHeap *heap, Timer *timer)
{
  guint position = timer->position;

  for (guint child; (child = 2 * position + 1) < heap->timers->len; position = child)
    {
      if (child + 1 < heap->timers->len
          && is_earlier (timer_at (heap, child + 1), timer_at (heap, child)))
        child++;
      if (!is_earlier (timer_at (heap, child), timer))
        break;
      place (heap, timer_at (heap, child), position);
    }
  place (heap, timer, position);
}

static void
take_out (TpsTimerHeap *heap, Timer *timer)
{
  guint position = timer->position;
  Timer *last = timer_at (heap, heap->timers->len - 1);

  g_ptr_array_set_size (heap->timers, (gint) heap->timers->len - 1);
  g_hash_table_remove (heap->by_id, &timer->id);
  if (last == timer)
    return;
  place (heap, last, position);
  sift_up (heap, last); /* at most one of these two calls moves the timer */
  sift_down (heap, last);
}

void
tps_timer_heap_init (TpsTimerHeap *heap)
{
  heap->timers = g_ptr_array_new ();
  heap->by_id = g_hash_table_new (g_int64_hash, g_int64_equal);
  heap->last_id = 0;
}

void
tps_timer_heap_clear (TpsTimerHeap *heap)
{
  for (guint i = 0; i < heap->timers->len; i++)
    g_free (timer_at (heap, i));
  g_ptr_array_unref (heap->timers);
  g_hash_table_unref (heap->by_id);
}

guint64
tps_timer_heap_add (TpsTimerHeap *heap, gint64 deadline_ns, TpsTimerFunc func, gpointer user_data)
{
  Timer *timer = g_new (Timer, 1);

  timer->id = ++heap->last_id;
  timer->deadline_ns = deadline_ns;
  timer->position = heap->timers->len;
  timer->func = func;
  timer->user_data = user_data;
  g_ptr_array_add (heap->timers, timer);
  g_hash_table_insert (heap->by_id, &timer->id, timer);
  sift_up (heap, timer);
  return timer->id;
}

gboolean
tps_timer_heap_cancel (TpsTimerHeap *heap, guint64 id)
{
  Timer *timer = g_hash_table_lookup (heap->by_id, &id);

  if (timer == NULL)
    return FALSE;
  take_out (heap, timer);
  g_free (timer);
  return TRUE;
}

gint64
tps_timer_heap_get_next_ns (const TpsTimerHeap *heap)
{
  return heap->timers->len == 0 ? G_MAXINT64 : timer_at (heap, 0)->deadline_ns;
}

gboolean
tps_timer_heap_pop (TpsTimerHeap *heap, gint64 now_ns, TpsTimerFunc *func, gpointer *user_data)
{
  Timer *timer;

  if (tps_timer_heap_get_next_ns (heap) > now_ns)
    return FALSE;
  timer = timer_at (heap, 0);
  *func = timer->func;
  *user_data = timer->user_data;
  take_out (heap, timer);
  g_free (timer);
  return TRUE;
}
