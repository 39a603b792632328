/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Parts of one computation, run by the calling thread and by idle workers. */

#pragma once

#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef void (*TpsPartFunc) (gpointer user_data, gsize part);

/* Runs parts 0 … n_parts - 1, in any order, and returns when all are complete. The calling thread
 * takes part and does not wait for workers that have not begun a part, so it may itself be a worker
 * of the pool. If `workers` is NULL, the calling thread runs all parts. */
void tps_parallel_run (TpsWorkerPool *workers, gsize n_parts, TpsPartFunc func, gpointer user_data);

/* Returns the number of parts for work on `n_bytes`, from 1 to `max_parts`; 1 if the work does not
 * justify a wake-up or `workers` is NULL. Thread: any. */
gsize tps_parallel_count_parts (TpsWorkerPool *workers, gsize n_bytes, gsize max_parts);

G_END_DECLS
