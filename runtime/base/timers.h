/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One-shot timers, ordered by deadline and run by one thread.
 *
 *   add()       a timer, from any thread
 *   cancel()    removes a timer that has not begun
 *   run()       runs due timers and sleeps until the next deadline; returns after stop()
 *
 * Functions of timers are called without the lock, so they may add and cancel timers.
 * Adding and cancelling take logarithmic time.
 */

#pragma once

#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef void (*TpsTimerFunc) (gpointer user_data);

typedef struct
{
  TpsMutex lock;     /* guards everything below */
  TpsCond clock;     /* the earliest deadline has changed, or the thread must stop */
  GTree *timers;     /* Timer -> Timer, by deadline, then id; owns them */
  GHashTable *by_id; /* &timer->id -> Timer */
  guint64 last_id;
  gboolean stops;
} TpsTimers;

/* Initialises an empty set of timers, in the caller's storage. One thread must call run(). */
void tps_timers_init (TpsTimers *timers);

/* Frees timers that have not begun; they never run. run() must have returned. */
void tps_timers_clear (TpsTimers *timers);

/* Calls `func` once, from run(), at or soon after `deadline_ns` (monotonic). Returns an id, never
 * 0. Never blocks. Thread: any. */
guint64 tps_timers_add (TpsTimers *timers, gint64 deadline_ns, TpsTimerFunc func,
                        gpointer user_data);

/* Returns TRUE if the timer had not begun; it never runs then. Returns FALSE if it has run or is
 * running. Does not wait. Thread: any. */
gboolean tps_timers_cancel (TpsTimers *timers, guint64 id);

/* Runs timers until stop(). Thread: one. */
void tps_timers_run (TpsTimers *timers);

/* Ends run() after the timer that is running, if any. Timers may still be added and cancelled, but
 * no more timers run. Does not wait. Thread: any. */
void tps_timers_stop (TpsTimers *timers);

G_END_DECLS
