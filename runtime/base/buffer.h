/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reference-counted bytes at 64-byte alignment, and the pool they come from.
 *
 * A pool hands out buffers and takes them back when their last reference goes, so that the data
 * path touches memory that is already mapped (a page fault costs more than the copy). Buffers that
 * are out are charged to the pool's budget; a buffer that does not fit is refused at once. Buffers
 * that are kept for reuse are charged to a second budget, and are freed when a charge elsewhere in
 * its tree would be refused otherwise (budget.h).
 */

#pragma once

#include "runtime/base/budget.h"

G_BEGIN_DECLS

#define TPS_BUFFER_ALIGNMENT 64

typedef struct TpsBuffer TpsBuffer;
typedef struct TpsBufferPool TpsBufferPool;
typedef struct TpsDevice TpsDevice; /* runtime/device/backend.h */

/* A pool that charges `budget` for the buffers that are out, and `kept` for those that it keeps for
 * reuse, `keep_bytes` at most. Either may be NULL: no limit. References are taken. Buffers may
 * outlive the caller's reference of the pool. */
TpsBufferPool *tps_buffer_pool_new (TpsBudget *budget, TpsBudget *kept, gsize keep_bytes);

/* Where a pool has the memory of its larger buffers from, in place of the heap. */
typedef struct
{
  /* A buffer in host memory of at least `n_bytes`, at TPS_BUFFER_ALIGNMENT, owned by the caller.
   * NULL with RESOURCE_EXHAUSTED: not so much now; any other error: never again. May block. Thread:
   * any. */
  TpsBuffer *(*alloc) (gpointer user_data, gsize n_bytes, GError **error);
  gpointer user_data; /* outlives the pool's last buffer */
  gsize min_bytes;    /* smaller buffers come from the heap */
} TpsBufferSource;

/* As tps_buffer_pool_new(), with a source for memory that takes long to get and to give back: once
 * got, it stays until the pool and its last buffer go or its budget is short, and of it there are
 * at most `keep_bytes`, out or kept. What goes beyond that comes from the heap, and so does what
 * the source refuses, which is warned of once; it is not asked for as much again. `source` is
 * copied. */
TpsBufferPool *tps_buffer_pool_new_from (TpsBudget *budget, TpsBudget *kept, gsize keep_bytes,
                                         const TpsBufferSource *source);

TpsBufferPool *tps_buffer_pool_ref (TpsBufferPool *pool);
void tps_buffer_pool_unref (TpsBufferPool *pool);

/* The process's own pool, borrowed, never freed. It has no budget until
 * tps_buffer_pool_set_budgets() is called. */
TpsBufferPool *tps_buffer_pool_get_default (void);

/* A buffer of `n_bytes` with undefined contents. NULL: nothing is charged. Errors:
 * RESOURCE_EXHAUSTED, as tps_budget_charge() or because the system has no memory. Thread: any, but
 * without a lock under which another thread reclaims (budget.h). */
TpsBuffer *tps_buffer_pool_get (TpsBufferPool *pool, gsize n_bytes, GError **error);
TpsBuffer *tps_buffer_pool_try_get (TpsBufferPool *pool, gsize n_bytes);

/* Frees all that is kept for reuse. Thread: any. */
void tps_buffer_pool_trim (TpsBufferPool *pool);

/* Gives a pool that has none its budgets, once; for the default pool. Buffers that are out stay
 * without a charge. Must be called before other threads use the pool. */
void tps_buffer_pool_set_budgets (TpsBufferPool *pool, TpsBudget *budget, TpsBudget *kept);

/* Borrowed; may be NULL. */
TpsBudget *tps_buffer_pool_get_budget (TpsBufferPool *pool);

/* Bytes that are out now. Thread: any; a snapshot. */
gsize tps_buffer_pool_get_n_bytes_out (TpsBufferPool *pool);

/* Bytes that its source gave, out or kept. Thread: any; a snapshot. */
gsize tps_buffer_pool_get_n_bytes_of_source (TpsBufferPool *pool);

/* What is charged for a buffer of `n_bytes`; G_MAXSIZE where none is that large. */
gsize tps_buffer_pool_get_cost (gsize n_bytes);

/* From the default pool, without a charge where its budget is full; aborts when there is no memory,
 * as g_malloc() does. Must not be used for sizes that a peer chooses. */
TpsBuffer *tps_buffer_new (gsize n_bytes);
TpsBuffer *tps_buffer_new_zeroed (gsize n_bytes);

/* A copy of `n_bytes`, which may be few or none: up to TPS_BUFFER_MAX_SMALL a buffer is not much
 * larger than what it holds, comes from no pool, and is kept for reuse by the thread that lets go
 * of it. Aborts as tps_buffer_new() does. */
#define TPS_BUFFER_MAX_SMALL 4096
TpsBuffer *tps_buffer_new_copy (gconstpointer data, gsize n_bytes);

/* What such a copy takes, with what is kept beside it. */
gsize tps_buffer_get_copy_cost (gsize n_bytes);

/* Wraps memory of somebody else; `free_func` (may be NULL) is called with `user_data` when the last
 * reference goes. `device` says where the memory lies; NULL = host memory. */
TpsBuffer *tps_buffer_new_foreign (gpointer data, gsize n_bytes, TpsDevice *device,
                                   GDestroyNotify free_func, gpointer user_data);

/* Wraps memory that another process maps too: it may change at any time, and must not be written to
 * here. Never exclusive. Whoever holds such a buffer keeps its owner waiting, so it is let go of as
 * soon as what was asked for is done; what is to stay longer is copied. */
TpsBuffer *tps_buffer_new_shared (gconstpointer data, gsize n_bytes, GDestroyNotify free_func,
                                  gpointer user_data);

/* Thread: any. */
TpsBuffer *tps_buffer_ref (TpsBuffer *buffer);
void tps_buffer_unref (TpsBuffer *buffer);

/* Borrowed. Writing needs that nobody else reads: tps_buffer_is_exclusive(), or an agreement. */
guint8 *tps_buffer_get_data (const TpsBuffer *buffer);
gsize tps_buffer_get_size (const TpsBuffer *buffer);
TpsDevice *tps_buffer_get_device (const TpsBuffer *buffer);

/* Whether the caller's is the only reference, and the memory may be written to. */
gboolean tps_buffer_is_exclusive (TpsBuffer *buffer);

/* Whether it came from tps_buffer_new_shared(). */
gboolean tps_buffer_is_shared (const TpsBuffer *buffer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBuffer, tps_buffer_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBufferPool, tps_buffer_pool_unref)

G_END_DECLS
