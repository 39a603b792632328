/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Parts of one computation, taken by the calling thread and by idle workers. */

#pragma once

#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

typedef void (*TpsPartFunc) (gpointer user_data, gsize part);

/* Runs parts 0 … n_parts - 1, in any order, and returns when all are done. The calling thread takes
 * part and waits for no worker that has not begun a part, so it may be one of the pool's own.
 * `workers` may be NULL. */
void tps_parallel_run (TpsWorkerPool *workers, gsize n_parts, TpsPartFunc func, gpointer user_data);

/* How many parts to cut work on `n_bytes` into, at most `max_parts`, at least one: one where it is
 * not worth a wake-up. */
gsize tps_parallel_count_parts (TpsWorkerPool *workers, gsize n_bytes, gsize max_parts);

G_END_DECLS
