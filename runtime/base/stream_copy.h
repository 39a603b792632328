/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A copy into memory that another core will read next: memory shared between processes. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Copies of at least this size bypass the caches. The value was chosen by measuring whole programs,
 * in which no data of that size are in a cache when they are copied. 3 trainers and their server
 * use 10 % less CPU time at 16 MiB and 15 % less at 32 MiB, the same at 8 MiB, and 10 % more at 4
 * MiB (//bench:batch_update); a bucket of 25 MiB costs 13 % less (//bench:parameter_server).
 * Measured on 2 cores with 2 MiB of second-level cache each. */
#define TPS_STREAM_COPY_MIN_BYTES ((gsize) 12 << 20)

/* From this size on another core helps if one is idle, since one core alone uses about half of the
 * memory bandwidth. An echo of 16 or 64 MiB through shared memory takes 0.6 of the time, with the
 * same work (//bench:transfer). */
#define TPS_STREAM_COPY_SHARED_BYTES ((gsize) 16 << 20)

/* Like memcpy(): any alignment, any size, no overlap. Any reader that is notified after this has
 * returned sees the bytes, by any means of notification. Thread: any. */
void tps_stream_copy (gpointer to, gconstpointer from, gsize n_bytes);

G_END_DECLS
