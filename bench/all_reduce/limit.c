/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "bench/all_reduce/rank.h"
#include "runtime/base/buffer.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/base/sync.h"

#define BLOCK_ELEMS 2048 /* so that a block stays in the first-level cache */
#define MAX_THREADS 64

/* One order: the state that its threads share. */
typedef struct
{
  gfloat *data[MAX_THREADS]; /* of each rank */
  guint n_threads;
  gsize n_elems;
  guint n_calls;
  pthread_barrier_t barrier; /* waits for all threads before each call, and at the end */
} Work;

/* A thread and its part of the data. */
typedef struct
{
  Work *work;
  guint number;
} Thread;

static void
sum_block (const Work *work, gsize begin, gsize n)
{
  gfloat *sum = work->data[0] + begin;

  for (guint t = 1; t < work->n_threads; t++)
    tps_cpu_accumulate (TPS_DTYPE_FLOAT32, sum, work->data[t] + begin, n);
  for (guint t = 1; t < work->n_threads; t++)
    memcpy (work->data[t] + begin, sum, n * sizeof *sum);
}

static void
sum_part (const Work *work, guint number)
{
  gsize end = work->n_elems * (number + 1) / work->n_threads;

  for (gsize at = work->n_elems * number / work->n_threads; at < end; at += BLOCK_ELEMS)
    sum_block (work, at, MIN (BLOCK_ELEMS, end - at));
}

static void *
run_thread (void *user_data)
{
  const Thread *thread = user_data;

  for (guint i = 0; i < thread->work->n_calls; i++)
    {
      pthread_barrier_wait (&thread->work->barrier);
      sum_part (thread->work, thread->number);
    }
  pthread_barrier_wait (&thread->work->barrier);
  return NULL;
}

static void
run_threads (Work *work)
{
  Thread threads[MAX_THREADS] = { { work, 0 } };
  TpsThread handles[MAX_THREADS] = { 0 };

  for (guint t = 1; t < work->n_threads; t++)
    {
      threads[t] = (Thread) { work, t };
      tps_sync_check (pthread_create (&handles[t], NULL, run_thread, &threads[t]));
    }
  run_thread (&threads[0]);
  for (guint t = 1; t < work->n_threads; t++)
    tps_sync_check (pthread_join (handles[t], NULL));
}

static gint64
measure (Work *work, guint n_calls)
{
  gint64 start_ns;

  work->n_calls = n_calls;
  pthread_barrier_init (&work->barrier, NULL, work->n_threads);
  start_ns = tps_clock_now_ns ();
  run_threads (work);
  pthread_barrier_destroy (&work->barrier);
  return tps_clock_now_ns () - start_ns;
}

static gint64
run (gpointer user_data, gsize n_elems, guint n_calls, GError **error)
{
  Work work = { .n_threads = *(const guint *) user_data, .n_elems = n_elems };
  TpsBuffer *buffers[MAX_THREADS] = { NULL };
  gint64 ns = -1;

  for (guint t = 0; t < work.n_threads; t++)
    {
      buffers[t] = tps_buffer_new (n_elems * sizeof (gfloat));
      work.data[t] = (gfloat *) (gpointer) tps_buffer_get_data (buffers[t]);
      tps_all_reduce_fill (work.data[t], n_elems, t);
    }
  measure (&work, 1);
  if (tps_all_reduce_check (work.data[0], n_elems, work.n_threads, error))
    {
      for (guint t = 0; t < work.n_threads; t++)
        memset (work.data[t], 0, n_elems * sizeof (gfloat));
      ns = measure (&work, n_calls);
    }
  for (guint t = 0; t < work.n_threads; t++)
    g_clear_pointer (&buffers[t], tps_buffer_unref);
  return ns;
}

gint
tps_all_reduce_run_limit (guint n_threads)
{
  return tps_all_reduce_serve (run, &n_threads);
}
