/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/all_reduce/rank.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <thriftps/client.h>

#include "runtime/base/buffer.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/trainer/ports/process_group.h"

/* -- orders -- */

#define PERIOD 61 /* the period of the data: small integers, whose sums are exact */

static gfloat
get_element (guint rank, gsize i)
{
  return (gfloat) ((i + 7 * rank) % PERIOD);
}

/* Writes the contribution of rank `rank`. */
static void
fill (gfloat *data, gsize n_elems, guint rank)
{
  for (gsize i = 0; i < n_elems; i++)
    data[i] = get_element (rank, i);
}

/* Compares `data` with the expected sum of `size` ranks. */
static gboolean
check (const gfloat *data, gsize n_elems, guint size, GError **error)
{
  for (gsize i = 0; i < n_elems; i++)
    {
      gfloat expected = 0;

      for (guint rank = 0; rank < size; rank++)
        expected += get_element (rank, i);
      if (data[i] == expected)
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                   "element %" G_GSIZE_FORMAT " of the sum is %g, expected %g", i,
                   (gdouble) data[i], (gdouble) expected);
      return FALSE;
    }
  return TRUE;
}

/* Sums `n_elems` floats once with a check, and `n_calls` times with a clock. Returns the
 * nanoseconds of the `n_calls` sums; -1 with an error. */
typedef gint64 (*Run) (gpointer user_data, gsize n_elems, guint n_calls, GError **error);

static void
answer (Run run, gpointer user_data, gsize n_bytes, guint n_calls)
{
  g_autoptr (GError) error = NULL;
  gint64 ns = run (user_data, n_bytes / sizeof (gfloat), n_calls, &error);

  if (ns >= 0)
    printf ("ok %.9f\n", (gdouble) ns / 1e9);
  else
    printf ("error %s\n", error->message);
  fflush (stdout);
}

/* Reads orders and calls `run` for each of them, until the end of the input. */
static gint
serve (Run run, gpointer user_data)
{
  gchar line[256];

  while (fgets (line, sizeof line, stdin) != NULL)
    {
      gchar *at;
      guint64 n_bytes = g_ascii_strtoull (line, &at, 10);
      guint64 n_calls = g_ascii_strtoull (at, NULL, 10);

      answer (run, user_data, n_bytes, (guint) n_calls);
    }
  return 0;
}

/* -- the limit -- */

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
run_limit (gpointer user_data, gsize n_elems, guint n_calls, GError **error)
{
  Work work = { .n_threads = *(const guint *) user_data, .n_elems = n_elems };
  TpsBuffer *buffers[MAX_THREADS] = { NULL };
  gint64 ns = -1;

  for (guint t = 0; t < work.n_threads; t++)
    {
      buffers[t] = tps_buffer_new (n_elems * sizeof (gfloat));
      work.data[t] = (gfloat *) (gpointer) tps_buffer_get_data (buffers[t]);
      fill (work.data[t], n_elems, t);
    }
  measure (&work, 1);
  if (check (work.data[0], n_elems, work.n_threads, error))
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
  return serve (run_limit, &n_threads);
}

/* -- a rank of our groups -- */

#define TIMEOUT_NS (G_GINT64_CONSTANT (60) * 1000000000)

/* A rank and its running call, which on_done() ends on a thread of the group. */
typedef struct
{
  const TpsAllReduceRank *options;
  TpsProcessGroup *group;
  sem_t done;
  GError *error; /* of the last call */
} Rank;

static void
on_done (gpointer user_data, const GError *error)
{
  Rank *rank = user_data;

  if (error != NULL)
    rank->error = g_error_copy (error);
  sem_post (&rank->done);
}

static gboolean
sum (Rank *rank, gfloat *data, gsize n_elems, GError **error)
{
  rank->group->ops->all_reduce_f32 (rank->group, data, n_elems, on_done, rank);
  while (sem_wait (&rank->done) != 0)
    continue;
  if (rank->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&rank->error));
  return FALSE;
}

/* Times `n_calls` sums of zeros, which stay zeros. The ranks first meet in a sum of one element. */
static gint64
run_timed (Rank *rank, gfloat *data, gsize n_elems, guint n_calls, GError **error)
{
  gfloat meeting = 0;
  gint64 start_ns;

  memset (data, 0, n_elems * sizeof *data);
  if (!sum (rank, &meeting, 1, error))
    return -1;
  start_ns = tps_clock_now_ns ();
  for (guint i = 0; i < n_calls; i++)
    if (!sum (rank, data, n_elems, error))
      return -1;
  return tps_clock_now_ns () - start_ns;
}

/* Returns the memory of the data. The group has no memory for small data, which it copies. */
static TpsBuffer *
get_memory (Rank *rank, gsize n_bytes)
{
  TpsBuffer *placed = NULL;

  if (g_str_equal (rank->options->role, "placed"))
    placed = rank->group->ops->get_memory (rank->group, n_bytes, NULL);
  return placed != NULL ? placed : tps_buffer_new (n_bytes);
}

static gint64
run_rank (gpointer user_data, gsize n_elems, guint n_calls, GError **error)
{
  Rank *rank = user_data;
  g_autoptr (TpsBuffer) buffer = get_memory (rank, n_elems * sizeof (gfloat));
  gfloat *data = (gfloat *) (gpointer) tps_buffer_get_data (buffer);

  fill (data, n_elems, rank->options->rank);
  if (!sum (rank, data, n_elems, error) || !check (data, n_elems, rank->options->size, error))
    return -1;
  return run_timed (rank, data, n_elems, n_calls, error);
}

static TpsProcessGroup *
join (const TpsAllReduceRank *options, GError **error)
{
  g_autofree gchar *prefix = g_strconcat (options->role, "/", NULL);
  TpsRemoteStoreOptions store_options = { .address = options->store, .timeout_ns = TIMEOUT_NS };
  TpsStore *store = tps_remote_store_new (&store_options, error);
  TpsProcessGroupOptions group_options = {
    .rank = options->rank,
    .size = options->size,
    .store = store,
    .prefix = prefix,
    .timeout_ns = TIMEOUT_NS,
    .no_shared_memory = g_str_equal (options->role, "tcp"),
  };
  TpsProcessGroup *group;

  if (store == NULL)
    return NULL;
  group = tps_process_group_new ("gloo", &group_options, error);
  store->ops->free (store);
  return group;
}

gint
tps_all_reduce_run_rank (const TpsAllReduceRank *options)
{
  g_autoptr (GError) error = NULL;
  Rank rank = { .options = options };
  gint status;

  rank.group = join (options, &error);
  if (rank.group == NULL)
    {
      fprintf (stderr, "all_reduce: rank %u: %s\n", options->rank, error->message);
      return 1;
    }
  sem_init (&rank.done, 0, 0);
  status = serve (run_rank, &rank);
  rank.group->ops->abort (rank.group); /* the other ranks may have ended already */
  rank.group->ops->free (rank.group);
  sem_destroy (&rank.done);
  return status;
}
