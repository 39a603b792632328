/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reference-counted bytes at 64-byte alignment, and their pool.
 *
 * A pool hands out buffers and takes them back when their last reference is released, so that the
 * data path uses memory that is already mapped (a page fault costs more than the copy). Buffers in
 * use are charged to the pool's budget; a buffer that does not fit is refused at once. Buffers that
 * are kept for reuse are charged to a second budget, and are freed when a charge elsewhere in that
 * budget's tree would otherwise be refused (budget.h).
 */

#pragma once

#include <thriftps/tensor.h>

#include "runtime/base/budget.h"

G_BEGIN_DECLS

#define TPS_BUFFER_ALIGNMENT 64

typedef struct TpsBufferPool TpsBufferPool;

/* Creates a pool, to which the caller owns a reference. The pool charges `budget` for buffers in
 * use, and `kept` for buffers that it keeps for reuse, at most `keep_bytes`. Either budget may be
 * NULL, which means no limit. References to them are taken. Buffers may outlive the caller's
 * reference to the pool. */
TpsBufferPool *tps_buffer_pool_new (TpsBudget *budget, TpsBudget *kept, gsize keep_bytes);

/* A source of memory for the larger buffers of a pool, instead of the heap. */
typedef struct
{
  /* Allocates a buffer in host memory of at least `n_bytes`, at TPS_BUFFER_ALIGNMENT, which the
   * caller owns. After RESOURCE_EXHAUSTED, the pool never again requests this size or more; after
   * any other error, it makes no further requests. May block. Thread: any. */
  TpsBuffer *(*alloc) (gpointer user_data, gsize n_bytes, GError **error);
  gpointer user_data;     /* must outlive the pool's last buffer */
  gsize min_bytes;        /* smaller buffers come from the heap */
  gboolean powers_of_two; /* block sizes are powers of two; a buffer is charged for its block */
} TpsBufferSource;

/* Like tps_buffer_pool_new(), with a source for memory that takes long to allocate and to free.
 * Such memory is freed only with the pool and its last buffer, or when a charge would be refused
 * otherwise. The source provides at most `keep_bytes`, in use or kept. Beyond this limit, and after
 * the source has refused, memory comes from the heap. Only the first refusal is logged. `source` is
 * copied. */
TpsBufferPool *tps_buffer_pool_new_from (TpsBudget *budget, TpsBudget *kept, gsize keep_bytes,
                                         const TpsBufferSource *source);

/* Takes and releases a reference. Thread: any. */
TpsBufferPool *tps_buffer_pool_ref (TpsBufferPool *pool);
void tps_buffer_pool_unref (TpsBufferPool *pool);

/* Returns the pool of the process, which is borrowed and never freed. It has no budget until
 * tps_buffer_pool_set_budgets() is called. Thread: any. */
TpsBufferPool *tps_buffer_pool_get_default (void);

/* Returns a buffer of `n_bytes` with undefined contents, to which the caller owns a reference. NULL
 * means that nothing was charged. Errors: RESOURCE_EXHAUSTED, as tps_budget_charge() or because the
 * system has no memory. The caller must not hold a lock under which another thread reclaims
 * (budget.h). Thread: any. */
TpsBuffer *tps_buffer_pool_get (TpsBufferPool *pool, gsize n_bytes, GError **error);

/* As tps_buffer_pool_get(), but returns NULL without an error. */
TpsBuffer *tps_buffer_pool_try_get (TpsBufferPool *pool, gsize n_bytes);

/* As tps_buffer_pool_get(), but takes memory only as the buffer is filled: before bytes are
 * written, tps_buffer_charge() must charge the first `n_bytes` of the buffer to the pool's budget.
 * Errors: RESOURCE_EXHAUSTED, as above; the earlier charge then stays. Thread: any; charges: one at
 * a time. */
TpsBuffer *tps_buffer_pool_get_empty (TpsBufferPool *pool, gsize n_bytes, GError **error);
gboolean tps_buffer_charge (TpsBuffer *buffer, gsize n_bytes, GError **error);

/* Frees all buffers that are kept for reuse. Thread: any. */
void tps_buffer_pool_trim (TpsBufferPool *pool);

/* Sets the budgets of a pool that has none, such as the default pool. Buffers in use stay without a
 * charge. Must be called at most once, before other threads use the pool. */
void tps_buffer_pool_set_budgets (TpsBufferPool *pool, TpsBudget *budget, TpsBudget *kept);

/* Returns the budget of the pool, borrowed; NULL if it has none. */
TpsBudget *tps_buffer_pool_get_budget (TpsBufferPool *pool);

/* The bytes in use. Thread: any; a value at one moment. */
gsize tps_buffer_pool_get_n_bytes_out (TpsBufferPool *pool);

/* The bytes that the source has provided, in use or kept. Thread: any; a value at one moment. */
gsize tps_buffer_pool_get_n_bytes_of_source (TpsBufferPool *pool);

/* Returns the charge for a buffer of `n_bytes` from the heap; G_MAXSIZE if no buffer is that
 * large. */
gsize tps_buffer_pool_get_cost (gsize n_bytes);

/* As tps_buffer_new(), but filled with zeros. Neither is charged if the pool's budget is full. */
TpsBuffer *tps_buffer_new_zeroed (gsize n_bytes);

/* Returns a copy of `n_bytes`, possibly 0. A copy of at most TPS_BUFFER_MAX_SMALL bytes is not much
 * larger than its contents, comes from no pool, and is kept for reuse by the thread that releases
 * it. Aborts as tps_buffer_new() does. */
#define TPS_BUFFER_MAX_SMALL 4096
TpsBuffer *tps_buffer_new_copy (gconstpointer data, gsize n_bytes);

/* Returns the bytes of memory that such a copy takes, including its header and rounding. */
gsize tps_buffer_get_copy_cost (gsize n_bytes);

/* Wraps memory that another process maps too, and that may change at any time. This process must
 * not write to it, unless the other process has offered it for results. The buffer is never
 * exclusive. The owner of the memory waits while the buffer has a reference, so references must be
 * released as soon as the request has been served. Data that are needed for longer must be
 * copied. */
TpsBuffer *tps_buffer_new_shared (gconstpointer data, gsize n_bytes, GDestroyNotify free_func,
                                  gpointer user_data);

/* Returns the device of the data, borrowed (NULL = the host). A writer of the data must have the
 * only reference (tps_buffer_is_exclusive()), or coordinate with the readers. */
TpsDevice *tps_buffer_get_device (const TpsBuffer *buffer);

/* Returns TRUE if the caller has the only reference and no other process maps the memory. */
gboolean tps_buffer_is_exclusive (TpsBuffer *buffer);

/* Returns TRUE if the buffer came from tps_buffer_new_shared(). */
gboolean tps_buffer_is_shared (const TpsBuffer *buffer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBufferPool, tps_buffer_pool_unref)

G_END_DECLS
