/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One-shot timers ordered by deadline, cancelled by id. Owns no clock and no thread; not
 * thread-safe. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef void (*TpsTimerFunc) (gpointer user_data);

/* All zero is not a heap: init first. */
typedef struct
{
  GPtrArray *timers; /* binary heap, the earliest first */
  GHashTable *by_id;
  guint64 last_id;
} TpsTimerHeap;

void tps_timer_heap_init (TpsTimerHeap *heap);
void tps_timer_heap_clear (TpsTimerHeap *heap); /* what has not run never will */

/* Ids are never 0 and never reused. Timers of one deadline run in the order in which they were
 * added. */
guint64 tps_timer_heap_add (TpsTimerHeap *heap, gint64 deadline_ns, TpsTimerFunc func,
                            gpointer user_data);

/* FALSE: it ran, was cancelled, or never was. */
gboolean tps_timer_heap_cancel (TpsTimerHeap *heap, guint64 id);

/* G_MAXINT64 when there is none. */
gint64 tps_timer_heap_get_next_ns (const TpsTimerHeap *heap);

/* Takes out the earliest timer if its time has come; run `func (user_data)` then. */
gboolean tps_timer_heap_pop (TpsTimerHeap *heap, gint64 now_ns, TpsTimerFunc *func,
                             gpointer *user_data);

G_END_DECLS
