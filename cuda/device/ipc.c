/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory that other processes of this machine map. Sharing may fail in containers, with some
 * drivers, or because the other process has released its memory. Then only the caller fails, for
 * any error code, and the device stays usable. A permanent error shows up again in the next
 * operation, which marks the device as lost. */

#include <string.h>

#include "cuda/device/device.h"
#include "runtime/base/error.h"

G_STATIC_ASSERT (sizeof (cudaIpcMemHandle_t) == TPS_EXPORT_HANDLE_BYTES);
G_STATIC_ASSERT (sizeof (cudaUUID_t) == TPS_DEVICE_UUID_BYTES);

/* CUDA places smaller allocations in a block with others, and an export would share the whole
 * block. */
#define GRANULE_BYTES ((gsize) 2 << 20)

typedef struct
{
  TpsCudaDevice *device;
  gpointer data;
} Mapping;

/* Returns TRUE for cudaSuccess. Otherwise sets UNAVAILABLE; never marks the device as lost. */
static gboolean
check_shared (TpsCudaDevice *device, cudaError_t code, const gchar *what, GError **error)
{
  if (code == cudaSuccess)
    return TRUE;
  cudaGetLastError (); /* clears the error */
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s: %s: %s (%d: %s)", device->name, what,
               cudaGetErrorString (code), (gint) code, cudaGetErrorName (code));
  return FALSE;
}

static TpsBuffer *
wrap (TpsCudaDevice *device, gpointer data, gsize n_bytes, GDestroyNotify free_func)
{
  Mapping *mapping = g_new (Mapping, 1);

  *mapping = (Mapping) { .device = device, .data = data };
  return tps_buffer_new_foreign (data, n_bytes, &device->parent, free_func, mapping);
}

/* Frees memory of this process. cudaFree() waits for all work of the device. */
static void
free_exported (gpointer user_data)
{
  Mapping *mapping = user_data;

  if (tps_cuda_device_enter (mapping->device, NULL))
    tps_cuda_device_check (mapping->device, cudaFree (mapping->data), "giving memory back", NULL);
  g_free (mapping);
}

/* Closes a mapping. An error is ignored, because the exporting process may have ended, and the
 * mapping with it. */
static void
close_exported (gpointer user_data)
{
  Mapping *mapping = user_data;

  if (tps_cuda_device_enter (mapping->device, NULL))
    check_shared (mapping->device, cudaIpcCloseMemHandle (mapping->data), "closing memory", NULL);
  g_free (mapping);
}

static gboolean
allocate (TpsCudaDevice *device, gsize n_bytes, void **data, GError **error)
{
  gsize n_rounded = (MAX (n_bytes, 1) + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES;
  cudaError_t code;

  if (n_bytes > G_MAXSIZE - GRANULE_BYTES)
    code = cudaErrorMemoryAllocation;
  else
    code = cudaMalloc (data, n_rounded);
  if (code == cudaErrorMemoryAllocation && n_bytes <= G_MAXSIZE - GRANULE_BYTES)
    {
      cudaGetLastError ();
      tps_cuda_memory_trim (device);
      code = cudaMalloc (data, n_rounded);
    }
  if (code != cudaErrorMemoryAllocation)
    return tps_cuda_device_check (device, code, "shareable memory", error);
  cudaGetLastError ();
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "%s: no shareable memory for a buffer of %" G_GSIZE_FORMAT " bytes", device->name,
               n_bytes);
  return FALSE;
}

TpsBuffer *
tps_cuda_alloc_exported (TpsDevice *base, gsize n_bytes, guint8 *handle, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  g_autoptr (TpsBuffer) buffer = NULL;
  cudaIpcMemHandle_t exported;
  void *data = NULL;

  if (!tps_cuda_device_enter (device, error) || !allocate (device, n_bytes, &data, error))
    return NULL;
  buffer = wrap (device, data, n_bytes, free_exported);
  if (!check_shared (device, cudaIpcGetMemHandle (&exported, data), "exporting memory", error))
    return NULL;
  memcpy (handle, &exported, sizeof exported);
  return g_steal_pointer (&buffer);
}

/* A handle may be opened more than once: CUDA counts how often it is open. */
TpsBuffer *
tps_cuda_open_exported (TpsDevice *base, const guint8 *handle, gsize n_bytes, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  cudaIpcMemHandle_t exported;
  void *data = NULL;

  memcpy (&exported, handle, sizeof exported);
  if (!tps_cuda_device_enter (device, error)
      || !check_shared (device,
                        cudaIpcOpenMemHandle (&data, exported, cudaIpcMemLazyEnablePeerAccess),
                        "opening memory of another process", error))
    return NULL;
  return wrap (device, data, n_bytes, close_exported);
}

void
tps_cuda_get_uuid (TpsDevice *base, guint8 *uuid)
{
  memcpy (uuid, ((TpsCudaDevice *) base)->uuid, TPS_DEVICE_UUID_BYTES);
}
