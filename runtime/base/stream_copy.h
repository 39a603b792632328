/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A copy into memory that another core reads next: memory shared between processes. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Copies of so many bytes go past the caches. Chosen by whole programs, in which nothing of that
 * size is in a cache when it is copied: 3 trainers and their server spend 10 % less of the CPU at
 * 16 MiB and 15 % less at 32 MiB, as much at 8 MiB, 10 % more at 4 MiB (//bench:batch_update); a
 * bucket of 25 MiB costs 13 % less (//bench:parameter_server). Measured on 2 cores with 2 MiB of
 * second-level cache each. */
#define TPS_STREAM_COPY_MIN_BYTES ((gsize) 12 << 20)

/* From here on another core helps where one is idle: one core alone moves about half of what the
 * memory can. An echo of 16 or 64 MiB through shared memory takes 0.6 of the time, with the same
 * work (//bench:transfer). */
#define TPS_STREAM_COPY_SHARED_BYTES ((gsize) 16 << 20)

/* As memcpy(): any alignment, any size, no overlap. Whoever is told of the bytes after this has
 * returned finds them, however it is told. Thread: any. */
void tps_stream_copy (gpointer to, gconstpointer from, gsize n_bytes);

G_END_DECLS
