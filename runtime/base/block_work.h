/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Work that is cut into blocks and shared by the calling thread and idle workers: each takes ranges
 * of blocks until none is left.
 */

#pragma once

#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_blocks;          /* >= 1 */
  guint range_blocks;      /* taken at a time, >= 1 */
  guint blocks_per_helper; /* the work that justifies one more helper, >= 1 */
  /* Called for ranges that make up all blocks, in any order, possibly at the same time. */
  void (*run) (gpointer user_data, guint first_block, guint n_blocks);
  /* Called once, by the thread that ran the last range. `user_data` is not used after that. */
  void (*done) (gpointer user_data);
  gpointer user_data;
} TpsBlockWork;

/* Returns the maximum number of threads that tps_block_work_run() occupies at a time, including
 * the calling one. */
guint tps_block_work_get_n_threads (TpsWorkerPool *pool, guint n_blocks, guint blocks_per_helper);

/* Runs `work`, which is copied, on the calling thread and on idle workers of `pool`. Returns when
 * no range is left; other threads may still run the last ranges then. Thread: any. */
void tps_block_work_run (TpsWorkerPool *pool, const TpsBlockWork *work);

G_END_DECLS
