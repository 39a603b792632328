/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/block_work.h"

#include "runtime/base/sync.h"

#define MAX_HELPERS 3 /* more helpers do not get more memory bandwidth */

typedef struct
{
  TpsRefcount refcount;
  TpsBlockWork work;
  atomic_uint next_block;
  atomic_uint n_done;
} SharedWork;

/* Takes over a reference. A helper that comes late finds no blocks left. */
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

void
tps_block_work_run (TpsWorkerPool *pool, const TpsBlockWork *work)
{
  guint n_helpers = MIN (work->n_blocks / work->blocks_per_helper,
                         MIN (tps_worker_pool_get_n_threads (pool) - 1, MAX_HELPERS));
  SharedWork *shared = g_new0 (SharedWork, 1);

  tps_refcount_init (&shared->refcount);
  shared->work = *work;
  for (guint i = 0; i < n_helpers; i++)
    {
      tps_refcount_inc (&shared->refcount);
      tps_worker_pool_submit (pool, take_blocks, shared);
    }
  take_blocks (shared);
}
