/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elements in device memory: their location, and blocking copies for callers without a stream of
 * their own. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. Thread: any; no lock that others need should
 * be held. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Returns the device of the buffer, borrowed; NULL if the host can read the buffer. */
TpsDevice *tps_device_memory_of_buffer (const TpsBuffer *buffer);
/* As tps_device_memory_of_buffer(), for the buffer of a tensor. Returns NULL for a tensor without a
 * buffer. */
TpsDevice *tps_device_memory_of_tensor (const TpsTensor *tensor);

/* Copies between host memory and memory of `device`, in any direction. Blocks. */
gboolean tps_device_memory_copy (TpsDevice *device, gpointer to, gconstpointer from, gsize n_bytes,
                                 GError **error);
/* Sets the bytes to zero. Blocks. */
gboolean tps_device_memory_clear (TpsDevice *device, gpointer memory, gsize n_bytes,
                                  GError **error);

/* Initialises `copy` as the owner of a copy of `tensor`, which must lie in device memory. The copy
 * lies in host memory from a pool of tps_pinned_pool_new(). Blocks. */
gboolean tps_device_memory_download (TpsTensor *copy, const TpsTensor *tensor, GError **error);

/* The smallest page-locked buffer: smaller buffers are copied just as fast from ordinary memory. */
#define TPS_PINNED_MIN_BYTES ((gsize) 64 << 10)

/* As tps_buffer_pool_new(), but buffers of at least TPS_PINNED_MIN_BYTES, up to `keep_bytes` in
 * total, are page-locked for `device` (alloc_host). If it is NULL or uses host memory, or if
 * page-locking is refused (one line in the log), the pool uses ordinary memory. */
TpsBufferPool *tps_pinned_pool_new (TpsDevice *device, TpsBudget *budget, TpsBudget *kept,
                                    gsize keep_bytes);

/* Memory of a device that an owner keeps for later use, and frees when an allocation on the device
 * fails for lack of memory. Thread: any. */
typedef struct
{
  TpsDevice *device;
  /* Frees all idle memory. Returns TRUE if there was any. Called with `lock` held. */
  gboolean (*free_all) (gpointer user_data);
  gpointer user_data;
  TpsMutex lock;
  guint n_frees; /* under the lock */
} TpsIdleMemory;

/* Initialise and clear `idle` in the caller's storage. `device` and `user_data` are borrowed until
 * clear(), which does not free idle memory. */
void tps_idle_memory_init (TpsIdleMemory *idle, TpsDevice *device,
                           gboolean (*free_all) (gpointer user_data), gpointer user_data);
void tps_idle_memory_clear (TpsIdleMemory *idle);

/* Allocates memory of the device, owned by the caller. If it has too little, frees all idle memory
 * and, if that freed some, tries once more. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED (NULL). */
TpsBuffer *tps_idle_memory_alloc (TpsIdleMemory *idle, gsize n_bytes, GError **error);

G_END_DECLS
