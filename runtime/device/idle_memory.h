/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory of a device that an owner keeps for later use, and frees when an allocation on the device
 * fails for lack of memory.
 *
 * Thread: any. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/device/backend.h"

G_BEGIN_DECLS

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

/* Allocates memory of the device, owned by the caller. If the device has too little, frees all idle
 * memory and tries once more, provided that this thread or, meanwhile, another thread has freed
 * some. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED (NULL). */
TpsBuffer *tps_idle_memory_alloc (TpsIdleMemory *idle, gsize n_bytes, GError **error);

G_END_DECLS
