/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions that any thread posts to one loop. The loop runs them, and sleeps when there are none.
 * The check for functions in every turn of the loop takes no lock. */

#pragma once

#include <glib.h>
#include <stdatomic.h>

#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef void (*TpsPostedFunc) (gpointer user_data);

typedef struct
{
  atomic_bool awake; /* the loop will check the queue before it sleeps */
  atomic_bool any;   /* written under the lock */

  GArray *running; /* of Posted, swapped with `posted`; loop's thread only */

  TpsMutex lock; /* guards the following, and the change of `awake` to FALSE */
  GArray *posted;
} TpsPostQueue;

/* Initialise an empty queue in the caller's storage, and free its memory. clear() drops functions
 * that have not run. */
void tps_post_queue_init (TpsPostQueue *queue);
void tps_post_queue_clear (TpsPostQueue *queue);

/* Adds a function; functions run in the order in which they were posted. Returns TRUE if the loop
 * sleeps or is about to sleep; the caller must then wake the loop. Thread: any. */
gboolean tps_post_queue_add (TpsPostQueue *queue, TpsPostedFunc func, gpointer user_data);

/* Returns TRUE if there are functions to run. May miss a concurrent post, which
 * tps_post_queue_begin_sleep() then finds. Thread: the loop's. */
static inline gboolean
tps_post_queue_has_any (TpsPostQueue *queue)
{
  return atomic_load_explicit (&queue->any, memory_order_relaxed);
}

/* Runs the functions that are queued now; functions that these post run in the next turn. Thread:
 * the loop's. */
void tps_post_queue_run (TpsPostQueue *queue);

/* Returns FALSE if there is a function to run. Otherwise returns TRUE, and marks the loop as
 * asleep: the next tps_post_queue_add() returns TRUE. Thread: the loop's. */
gboolean tps_post_queue_begin_sleep (TpsPostQueue *queue);

/* Marks the loop as awake, so that posts need no wake-up. Thread: the loop's. */
static inline void
tps_post_queue_end_sleep (TpsPostQueue *queue)
{
  atomic_store_explicit (&queue->awake, TRUE, memory_order_relaxed);
}

G_END_DECLS
