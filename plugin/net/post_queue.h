/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions that any thread posts to one loop, which runs them and sleeps when there are none. What
 * the loop asks for in every turn is asked for without the lock. */

#pragma once

#include <glib.h>
#include <stdatomic.h>

#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef void (*TpsPostedFunc) (gpointer user_data);

typedef struct
{
  atomic_bool awake; /* the loop will look before it sleeps */
  atomic_bool any;   /* written under the lock */

  GArray *running; /* the loop's thread only; of Posted, swapped with `posted` */

  TpsMutex lock; /* guards what follows, and that `awake` becomes FALSE */
  GArray *posted;
} TpsPostQueue;

void tps_post_queue_init (TpsPostQueue *queue);
void tps_post_queue_clear (TpsPostQueue *queue);

/* Thread: any. First in, first out. TRUE: the loop sleeps, or is about to, and must be woken. */
gboolean tps_post_queue_add (TpsPostQueue *queue, TpsPostedFunc func, gpointer user_data);

/* What is being added right now may be missed: tps_post_queue_begin_sleep() will see it. The loop's
 * thread. */
static inline gboolean
tps_post_queue_has_any (TpsPostQueue *queue)
{
  return atomic_load_explicit (&queue->any, memory_order_relaxed);
}

/* Runs what stands there now; what these functions post comes in the next turn. The loop's
 * thread. */
void tps_post_queue_run (TpsPostQueue *queue);

/* FALSE when there is something to run. TRUE: from now on who adds something is told to wake the
 * loop. The loop's thread. */
gboolean tps_post_queue_begin_sleep (TpsPostQueue *queue);

static inline void
tps_post_queue_end_sleep (TpsPostQueue *queue)
{
  atomic_store_explicit (&queue->awake, TRUE, memory_order_relaxed);
}

G_END_DECLS
