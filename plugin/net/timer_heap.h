/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One-shot timers ordered by deadline, cancelled by id. The heap has no clock and no thread; it is
 * not thread-safe. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef void (*TpsTimerFunc) (gpointer user_data);

/* Must be initialised with tps_timer_heap_init(); a heap of zero bytes is not valid. */
typedef struct
{
  GPtrArray *timers; /* binary heap, the earliest first */
  GHashTable *by_id;
  guint64 last_id;
} TpsTimerHeap;

/* Initialise an empty heap in the caller's storage, and free its memory. */
void tps_timer_heap_init (TpsTimerHeap *heap);
void tps_timer_heap_clear (TpsTimerHeap *heap); /* drops all timers without running them */

/* Adds a timer and returns its id; ids are never 0 and never reused. Timers with the same deadline
 * run in the order in which they were added. */
guint64 tps_timer_heap_add (TpsTimerHeap *heap, gint64 deadline_ns, TpsTimerFunc func,
                            gpointer user_data);

/* Removes a timer. Returns FALSE if the timer has run, was cancelled, or never existed. */
gboolean tps_timer_heap_cancel (TpsTimerHeap *heap, guint64 id);

/* Returns the earliest deadline; G_MAXINT64 if there is none. */
gint64 tps_timer_heap_get_next_ns (const TpsTimerHeap *heap);

/* Removes the earliest timer if it is due, and returns TRUE; the caller must then run `func
 * (user_data)`. Returns FALSE if no timer is due. */
gboolean tps_timer_heap_pop (TpsTimerHeap *heap, gint64 now_ns, TpsTimerFunc *func,
                             gpointer *user_data);

G_END_DECLS
