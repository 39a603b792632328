/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/block_work.h"

#include "runtime/base/sync.h"
#include "runtime/machine/tuning.h"

typedef struct
{
  TpsRefcount refcount;
  TpsBlockWork work;
  atomic_uint next_block; /* the first block that no thread has taken; may exceed n_blocks */
  atomic_uint n_done;     /* blocks whose run() has returned */
} SharedWork;

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
