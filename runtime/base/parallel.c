/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Threads of tps_parallel_run() take parts from a counter. A helper job runs one part and then
 * submits itself again, so that a long run (the rows of a large table) delays other jobs by no
 * more than one part. A helper that finds no part left only releases the run. The caller waits for
 * parts that other threads have begun. `func` and `user_data` are not used after that. */

#include "runtime/base/parallel.h"

#include "runtime/base/sync.h"
#include "runtime/machine/tuning.h"

typedef struct
{
  TpsRefcount refcount;
  TpsBlockWork work;
  atomic_uint next_block; /* the first block that no thread has taken; may exceed n_blocks */
  atomic_uint n_done;     /* blocks whose run() has returned */
} SharedWork;

typedef struct
{
  TpsRefcount refcount;
  TpsWorkerPool *workers;
  TpsPartFunc func;
  gpointer user_data;
  gsize n_parts;
  atomic_size_t next; /* the first part that no thread has taken; may exceed n_parts */

  TpsMutex lock; /* guards everything below */
  TpsCond all_done;
  gsize n_done;
} Run;

/* Takes ownership of a reference to the shared work. A helper that starts late finds no blocks
 * left, and only releases its reference. */
static void
take_blocks (gpointer user_data)
{
  SharedWork *shared = user_data;
  const TpsBlockWork *work = &shared->work;
  guint first;

  while ((first = atomic_fetch_add (&shared->next_block, work->range_blocks)) < work->n_blocks)
    {
      guint n = MIN (work->range_blocks, work->n_blocks - first);

      work->run (work->user_data, first, n);
      if (atomic_fetch_add (&shared->n_done, n) + n == work->n_blocks)
        work->done (work->user_data);
    }
  if (tps_refcount_dec (&shared->refcount))
    g_free (shared);
}

guint
tps_block_work_get_n_threads (TpsWorkerPool *pool, guint n_blocks, guint blocks_per_helper)
{
  guint max_helpers = MIN (tps_worker_pool_get_n_threads (pool) - 1,
                           (guint) tps_tuning_get ()->max_helpers);

  return 1 + MIN (n_blocks / blocks_per_helper, max_helpers);
}

void
tps_block_work_run (TpsWorkerPool *pool, const TpsBlockWork *work)
{
  guint n_threads = tps_block_work_get_n_threads (pool, work->n_blocks, work->blocks_per_helper);
  SharedWork *shared = g_new0 (SharedWork, 1);

  tps_refcount_init (&shared->refcount);
  shared->work = *work;
  for (guint i = 1; i < n_threads; i++)
    {
      tps_refcount_inc (&shared->refcount);
      tps_worker_pool_submit (pool, take_blocks, shared);
    }
  take_blocks (shared);
}

static void
run_unref (Run *run)
{
  if (!tps_refcount_dec (&run->refcount))
    return;
  tps_cond_clear (&run->all_done);
  tps_mutex_clear (&run->lock);
  g_free (run);
}

static gboolean
take_part (Run *run)
{
  gsize part = atomic_fetch_add_explicit (&run->next, 1, memory_order_relaxed);

  if (part >= run->n_parts)
    return FALSE;
  run->func (run->user_data, part);
  TPS_LOCK_SCOPE (&run->lock);
  if (++run->n_done == run->n_parts)
    tps_cond_signal (&run->all_done);
  return TRUE;
}

/* The job of a helper, which owns a reference to the run. */
static void
help (gpointer user_data)
{
  Run *run = user_data;

  if (take_part (run))
    tps_worker_pool_submit_part (run->workers, help, run);
  else
    run_unref (run);
}

static Run *
run_new (TpsWorkerPool *workers, gsize n_parts, TpsPartFunc func, gpointer user_data)
{
  Run *run = g_new0 (Run, 1);

  tps_refcount_init (&run->refcount);
  run->workers = workers;
  run->func = func;
  run->user_data = user_data;
  run->n_parts = n_parts;
  atomic_init (&run->next, 0);
  tps_mutex_init (&run->lock);
  tps_cond_init (&run->all_done);
  return run;
}

void
tps_parallel_run (TpsWorkerPool *workers, gsize n_parts, TpsPartFunc func, gpointer user_data)
{
  gsize n_helpers = workers == NULL ? 0
                                    : MIN (n_parts - 1, tps_worker_pool_get_n_threads (workers));
  Run *run;

  if (n_parts <= 1 || n_helpers == 0)
    {
      for (gsize part = 0; part < n_parts; part++)
        func (user_data, part);
      return;
    }
  run = run_new (workers, n_parts, func, user_data);
  for (gsize i = 0; i < n_helpers; i++)
    {
      tps_refcount_inc (&run->refcount);
      tps_worker_pool_submit_part (workers, help, run);
    }
  while (take_part (run))
    ;
  tps_mutex_lock (&run->lock);
  while (run->n_done < n_parts)
    tps_cond_wait (&run->all_done, &run->lock);
  tps_mutex_unlock (&run->lock);
  run_unref (run);
}

gsize
tps_parallel_count_parts (TpsWorkerPool *workers, gsize n_bytes, gsize max_parts)
{
  const TpsTuning *tuning = tps_tuning_get ();

  if (workers == NULL || n_bytes < tuning->wake_bytes)
    return 1;
  return CLAMP (n_bytes / tuning->part_bytes, 1, MAX (max_parts, 1));
}
