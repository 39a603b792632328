/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reference-counted bytes at 64-byte alignment, and their pool, which reuses memory that is already
 * mapped (a page fault costs more than a copy). Buffers in use are charged to the pool's budget,
 * and refused at once if they do not fit. Buffers kept for reuse are charged to a second budget,
 * and freed when a charge elsewhere in its tree would be refused (budget.h). */

#pragma once

#include <thriftps/tensor.h>

#include "runtime/base/budget.h"

G_BEGIN_DECLS

#define TPS_BUFFER_ALIGNMENT 64

typedef struct TpsBufferPool TpsBufferPool;

/* Creates a pool, to which the caller owns a reference, and which its buffers may outlive. It
 * charges `budget` for buffers in use, and `kept` for at most `keep_bytes` of kept ones; NULL means
 * no limit. References to budgets are taken. */
TpsBufferPool *tps_buffer_pool_new (TpsBudget *budget, TpsBudget *kept, gsize keep_bytes);

/* A source of memory for the larger buffers of a pool, instead of the heap. */
typedef struct
{
  /* Allocates a buffer of at least `n_bytes` in host memory, at TPS_BUFFER_ALIGNMENT, owned by the
   * caller. After RESOURCE_EXHAUSTED, the pool never again requests this size or more; after other
   * errors, nothing. May block. Thread: any. */
  TpsBuffer *(*alloc) (gpointer user_data, gsize n_bytes, GError **error);
  gpointer user_data;     /* must outlive the pool's last buffer */
  gsize min_bytes;        /* smaller buffers come from the heap */
  gboolean powers_of_two; /* block sizes are powers of two; a buffer is charged for its block */
} TpsBufferSource;

/* As tps_buffer_pool_new(), with a source (copied) for memory that takes long to allocate. It
 * provides at most `keep_bytes`, in use or kept; such memory is freed with the pool and its last
 * buffer, or when a charge would be refused. Otherwise memory comes from the heap. Only the first
 * refusal is logged. */
TpsBufferPool *tps_buffer_pool_new_from (TpsBudget *budget, TpsBudget *kept, gsize keep_bytes,
                                         const TpsBufferSource *source);
TpsBufferPool *tps_buffer_pool_ref (TpsBufferPool *pool);
void tps_buffer_pool_unref (TpsBufferPool *pool);

/* Returns the pool of the process, which is borrowed and never freed. It has no budget until
 * tps_buffer_pool_set_budgets() is called. Thread: any. */
TpsBufferPool *tps_buffer_pool_get_default (void);

/* Returns a buffer of `n_bytes`, undefined, to which the caller owns a reference. NULL: nothing was
 * charged; RESOURCE_EXHAUSTED. The caller must not hold a lock under which another thread reclaims
 * (budget.h). Thread: any. */
TpsBuffer *tps_buffer_pool_get (TpsBufferPool *pool, gsize n_bytes, GError **error);

/* As tps_buffer_pool_get(), but takes memory as the buffer is filled: before bytes are written,
 * tps_buffer_charge() must charge the first `n_bytes`; a refused charge leaves the earlier one.
 * Thread: any; charges: one at a time. */
TpsBuffer *tps_buffer_pool_get_empty (TpsBufferPool *pool, gsize n_bytes, GError **error);
gboolean tps_buffer_charge (TpsBuffer *buffer, gsize n_bytes, GError **error);

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

/* Returns the charge for a buffer of `n_bytes` from the heap; G_MAXSIZE: there is none so large. */
gsize tps_buffer_pool_get_cost (gsize n_bytes);

/* As tps_buffer_new(), but filled with zeros. Neither is charged if the pool's budget is full. */
TpsBuffer *tps_buffer_new_zeroed (gsize n_bytes);

/* Returns a copy of `n_bytes`, possibly 0. A copy of at most TPS_BUFFER_MAX_SMALL bytes comes from
 * no pool, and the thread that releases it keeps it for reuse. Aborts as tps_buffer_new(). */
#define TPS_BUFFER_MAX_SMALL 4096
TpsBuffer *tps_buffer_new_copy (gconstpointer data, gsize n_bytes);

/* Returns the bytes of memory that such a copy takes, including its header and rounding. */
gsize tps_buffer_get_copy_cost (gsize n_bytes);

/* Wraps memory that another process maps and may change at any time. This process must not write to
 * it, unless it was offered for results. Never exclusive. The owner of the memory waits for the
 * last reference, so it must be released as soon as the request is served. */
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
