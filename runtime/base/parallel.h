/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Parts of one computation, run by the calling thread and by idle workers. */

#pragma once

#include "runtime/base/worker_pool.h"

typedef void (*TpsPartFunc) (gpointer user_data, gsize part);

/* Runs parts 0 … n_parts - 1, in any order, and returns when all are complete. The calling thread
 * takes part and waits only for parts that were begun, so it may be a worker of the pool. NULL
 * `workers`: it runs all parts. */
void tps_parallel_run (TpsWorkerPool *workers, gsize n_parts, TpsPartFunc func, gpointer user_data);

/* Returns the number of parts for work on `n_bytes`, from 1 to `max_parts`; 1 if the work does not
 * justify a wake-up or `workers` is NULL. Thread: any. */
gsize tps_parallel_count_parts (TpsWorkerPool *workers, gsize n_bytes, gsize max_parts);

/* Work that is cut into blocks and shared by the calling thread and idle workers: each takes ranges
 * of blocks until none is left. */
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

/* Returns the most threads of tps_block_work_run() at a time, including the calling one. */
guint tps_block_work_get_n_threads (TpsWorkerPool *pool, guint n_blocks, guint blocks_per_helper);

/* Runs `work`, which is copied, on the calling thread and on idle workers of `pool`. Returns when
 * no range is left; other threads may still run the last ranges then. Thread: any. */
void tps_block_work_run (TpsWorkerPool *pool, const TpsBlockWork *work);
