/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory of a device that an owner keeps for later use and frees when the device has no more.
 *
 * Thread: any. */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/device/backend.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDevice *device;
  /* Frees all idle memory; returns whether there was some. Called with `lock` held. */
  gboolean (*free_all) (gpointer user_data);
  gpointer user_data;
  TpsMutex lock;
  guint n_frees; /* under the lock */
} TpsIdleMemory;

/* Initialises the caller's storage. Nothing is owned. */
void tps_idle_memory_init (TpsIdleMemory *idle, TpsDevice *device,
                           gboolean (*free_all) (gpointer user_data), gpointer user_data);
void tps_idle_memory_clear (TpsIdleMemory *idle);

/* Allocates memory of the device, owned by the caller. If there is none, tries once more after idle
 * memory has been freed, by this thread or by another one meanwhile. Errors: DEVICE_LOST,
 * RESOURCE_EXHAUSTED. */
TpsBuffer *tps_idle_memory_alloc (TpsIdleMemory *idle, gsize n_bytes, GError **error);

G_END_DECLS
