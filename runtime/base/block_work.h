/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Work that is cut into blocks, shared by the thread that has it and workers that are idle: each
 * takes ranges of blocks until none is left.
 */

#pragma once

#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_blocks;          /* >= 1 */
  guint range_blocks;      /* taken at a time, >= 1 */
  guint blocks_per_helper; /* that one must be worth calling, >= 1 */
  /* Called for ranges that make up all blocks, in any order, at the same time. */
  void (*run) (gpointer user_data, guint first_block, guint n_blocks);
  /* Called once, by whoever ran the last; nothing refers to `user_data` from then on. */
  void (*done) (gpointer user_data);
  gpointer user_data;
} TpsBlockWork;

/* Takes part until no range is left; the last ones may still be run by others when this returns.
 * `work` is copied. Thread: any. */
void tps_block_work_run (TpsWorkerPool *pool, const TpsBlockWork *work);

G_END_DECLS
