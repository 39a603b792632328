/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/idle_memory.h"

#include "runtime/base/error.h"

void
tps_idle_memory_init (TpsIdleMemory *idle, TpsDevice *device,
                      gboolean (*free_all) (gpointer user_data), gpointer user_data)
{
  *idle = (TpsIdleMemory) { .device = device, .free_all = free_all, .user_data = user_data };
  tps_mutex_init (&idle->lock);
}

void
tps_idle_memory_clear (TpsIdleMemory *idle)
{
  tps_mutex_clear (&idle->lock);
}

static guint
count_frees (TpsIdleMemory *idle)
{
  guint n_frees;

  tps_mutex_lock (&idle->lock);
  n_frees = idle->n_frees;
  tps_mutex_unlock (&idle->lock);
  return n_frees;
}

/* Frees idle memory. Returns TRUE if this call or another thread has freed some since count_frees()
 * returned `n_frees`. */
static gboolean
free_all (TpsIdleMemory *idle, guint n_frees)
{
  gboolean was_freed;

  tps_mutex_lock (&idle->lock);
  if (idle->free_all (idle->user_data))
    idle->n_frees++;
  was_freed = idle->n_frees != n_frees;
  tps_mutex_unlock (&idle->lock);
  return was_freed;
}

TpsBuffer *
tps_idle_memory_alloc (TpsIdleMemory *idle, gsize n_bytes, GError **error)
{
  TpsDevice *device = idle->device;
  /* Read before the allocation, since a later free by another thread also justifies a retry. */
  guint n_frees = count_frees (idle);
  GError *refusal = NULL;
  TpsBuffer *buffer = device->ops->alloc (device, n_bytes, &refusal);

  if (buffer != NULL)
    return buffer;
  if (g_error_matches (refusal, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED)
      && free_all (idle, n_frees))
    {
      g_clear_error (&refusal);
      return device->ops->alloc (device, n_bytes, error);
    }
  g_propagate_error (error, refusal);
  return NULL;
}
