/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/device.h"

#include <string.h>

#include "cuda/device/failure.h"
#include "cuda/kernels/kernels.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

static void
die (TpsCudaDevice *device, const gchar *why)
{
  tps_mutex_lock (&device->lock);
  if (device->death == NULL)
    {
      device->death = g_strdup (why);
      g_warning ("%s: this device is lost: %s", device->name, why);
    }
  tps_mutex_unlock (&device->lock);
}

gboolean
tps_cuda_device_check (TpsCudaDevice *device, cudaError_t code, const gchar *what, GError **error)
{
  g_autofree gchar *why = NULL;

  if (code == cudaSuccess)
    return TRUE;
  why = g_strdup_printf ("%s: %s (%d: %s)", what, cudaGetErrorString (code), (gint) code,
                         cudaGetErrorName (code));
  cudaGetLastError (); /* what passes must not come up again at the next call */
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "%s: %s", device->name, why);
  if (!tps_cuda_failure_is_passing (code))
    die (device, why);
  return FALSE;
}

static gboolean
check_alive (TpsCudaDevice *device, GError **error)
{
  gboolean is_alive;

  tps_mutex_lock (&device->lock);
  is_alive = device->death == NULL;
  if (!is_alive)
    g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "%s: lost before: %s", device->name,
                 device->death);
  tps_mutex_unlock (&device->lock);
  return is_alive;
}

gboolean
tps_cuda_device_enter (TpsCudaDevice *device, GError **error)
{
  int current = -1;

  if (!check_alive (device, error))
    return FALSE;
  if (cudaGetDevice (&current) == cudaSuccess && current == device->ordinal)
    return TRUE;
  return tps_cuda_device_check (device, cudaSetDevice (device->ordinal), "cudaSetDevice", error);
}

/* -- start -- */

/* Memory that comes back stays with the process, for the next one who asks. */
static cudaError_t
keep_memory (gint ordinal)
{
  cudaMemPool_t pool;
  guint64 everything = G_MAXUINT64;
  cudaError_t code = cudaDeviceGetDefaultMemPool (&pool, ordinal);

  if (code != cudaSuccess)
    return code;
  return cudaMemPoolSetAttribute (pool, cudaMemPoolAttrReleaseThreshold, &everything);
}

static cudaError_t
read_uuid (TpsCudaDevice *device)
{
  struct cudaDeviceProp properties;
  cudaError_t code = cudaGetDeviceProperties (&properties, device->ordinal);

  if (code == cudaSuccess)
    memcpy (device->uuid, &properties.uuid, sizeof device->uuid);
  return code;
}

static gboolean
start (TpsCudaDevice *device, GError **error)
{
  return tps_cuda_device_enter (device, error)
         && tps_cuda_device_check (device, read_uuid (device), "properties", error)
         && tps_cuda_device_check (device, tps_cuda_probe (),
                                   "looking for code for this generation", error)
         && tps_cuda_device_check (device, keep_memory (device->ordinal), "memory pool", error)
         && tps_cuda_device_check (
             device, cudaStreamCreateWithFlags (&device->memory, cudaStreamNonBlocking),
             "stream for memory", error);
}

TpsCudaDevice *
tps_cuda_device_new (gint ordinal, const TpsDeviceOps *ops, GError **error)
{
  TpsCudaDevice *device = g_new0 (TpsCudaDevice, 1);

  g_snprintf (device->name, sizeof device->name, "cuda:%d", ordinal);
  device->parent = (TpsDevice) { .ops = ops, .name = device->name };
  device->ordinal = ordinal;
  tps_mutex_init (&device->lock);
  if (start (device, error))
    return device;
  tps_mutex_clear (&device->lock);
  g_free (device->death);
  g_free (device);
  return NULL;
}

/* -- memory -- */

typedef struct
{
  TpsCudaDevice *device;
  gpointer data;
} Allocation;

/* Work that still uses it was queued before on some stream; its owner has waited for that. */
static void
free_device_memory (gpointer user_data)
{
  Allocation *allocation = user_data;

  if (tps_cuda_device_enter (allocation->device, NULL))
    tps_cuda_device_check (allocation->device,
                           cudaFreeAsync (allocation->data, allocation->device->memory),
                           "giving memory back", NULL);
  g_free (allocation);
}

static void
free_host_memory (gpointer user_data)
{
  Allocation *allocation = user_data;

  if (tps_cuda_device_enter (allocation->device, NULL))
    tps_cuda_device_check (allocation->device, cudaFreeHost (allocation->data),
                           "giving host memory back", NULL);
  g_free (allocation);
}

static gboolean
check_memory (TpsCudaDevice *device, cudaError_t code, const gchar *kind, gsize n_bytes,
              GError **error)
{
  if (code != cudaErrorMemoryAllocation)
    return tps_cuda_device_check (device, code, kind, error);
  cudaGetLastError ();
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "%s: no %s for a buffer of %" G_GSIZE_FORMAT " bytes", device->name, kind, n_bytes);
  return FALSE;
}

static TpsBuffer *
wrap (TpsCudaDevice *device, gpointer data, gsize n_bytes, TpsDevice *where,
      GDestroyNotify free_func)
{
  Allocation *allocation = g_new (Allocation, 1);

  *allocation = (Allocation) { .device = device, .data = data };
  return tps_buffer_new_foreign (data, n_bytes, where, free_func, allocation);
}

TpsBuffer *
tps_cuda_alloc (TpsDevice *base, gsize n_bytes, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  void *data = NULL;
  cudaError_t code;

  if (!tps_cuda_device_enter (device, error))
    return NULL;
  code = cudaMallocAsync (&data, MAX (n_bytes, 1), device->memory);
  /* Other streams may use it as soon as this one has passed. */
  if (code == cudaSuccess)
    code = cudaStreamSynchronize (device->memory);
  if (!check_memory (device, code, "memory", n_bytes, error))
    return NULL;
  return wrap (device, data, n_bytes, base, free_device_memory);
}

TpsBuffer *
tps_cuda_alloc_host (TpsDevice *base, gsize n_bytes, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  void *data = NULL;

  /* Portable: of every device. */
  if (!tps_cuda_device_enter (device, error)
      || !check_memory (device, cudaHostAlloc (&data, MAX (n_bytes, 1), cudaHostAllocPortable),
                        "page-locked memory", n_bytes, error))
    return NULL;
  return wrap (device, data, n_bytes, NULL, free_host_memory);
}
