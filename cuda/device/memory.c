/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Device memory from CUDA's stream-ordered pool of the device, and page-locked host memory.
 *
 * The pool's policy, which also applies to memory that kernels allocate (cuda/kernels/scratch.cuh):
 *   - Freed memory stays with the process up to a sixteenth of the GPU's memory. The excess
 *     returns to the GPU whenever the process synchronises, so that processes that share the GPU
 *     do not starve each other.
 *   - An allocation on one stream may reuse memory that another stream has freed, if the free is
 *     known to be complete. This is so if the first stream has waited for an event after the free,
 *     or if the free has already run. An allocation never makes one stream wait for another
 *     implicitly.
 *   - If memory runs out, all unused memory is returned to the GPU, and the allocation is tried
 *     once more. */

#include "cuda/device/device.h"

#include "runtime/base/error.h"

#define KEPT_FRACTION 16

cudaError_t
tps_cuda_memory_start (TpsCudaDevice *device)
{
  guint64 kept = device->n_bytes / KEPT_FRACTION;
  int yes = 1, no = 0;
  const struct
  {
    enum cudaMemPoolAttr attribute;
    void *value;
  } policy[] = {
    { cudaMemPoolAttrReleaseThreshold, &kept },
    { cudaMemPoolReuseFollowEventDependencies, &yes },
    { cudaMemPoolReuseAllowOpportunistic, &yes },
    { cudaMemPoolReuseAllowInternalDependencies, &no },
  };
  cudaError_t code = cudaDeviceGetDefaultMemPool (&device->pool, device->ordinal);

  for (guint i = 0; i < G_N_ELEMENTS (policy) && code == cudaSuccess; i++)
    code = cudaMemPoolSetAttribute (device->pool, policy[i].attribute, policy[i].value);
  return code;
}

void
tps_cuda_memory_trim (TpsCudaDevice *device)
{
  /* Memory that was freed on this stream becomes unused when the stream has passed the free. This
   * function does not wait for other streams, because a collective on one of them may wait for
   * another process. */
  if (cudaStreamSynchronize (device->memory_stream) == cudaSuccess)
    cudaMemPoolTrimTo (device->pool, 0);
  cudaGetLastError (); /* clears the error, since the second attempt decides */
}

typedef struct
{
  TpsCudaDevice *device;
  gpointer data;
} Allocation;

/* Frees device memory on the memory stream. Other streams may have used this memory, but its owner
 * has waited for their work. */
static void
free_device_memory (gpointer user_data)
{
  Allocation *allocation = user_data;

  if (tps_cuda_device_enter (allocation->device, NULL))
    tps_cuda_device_check (allocation->device,
                           cudaFreeAsync (allocation->data, allocation->device->memory_stream),
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

/* Returns a buffer with the memory `data` of device `where`; NULL = host memory. */
static TpsBuffer *
wrap (TpsCudaDevice *device, gpointer data, gsize n_bytes, TpsDevice *where,
      GDestroyNotify free_func)
{
  Allocation *allocation = g_new (Allocation, 1);

  *allocation = (Allocation) { .device = device, .data = data };
  return tps_buffer_new_foreign (data, n_bytes, where, free_func, allocation);
}

/* Allocates memory, and waits until the memory stream has passed the allocation. Other streams may
 * use the memory from then on. */
static cudaError_t
allocate (TpsCudaDevice *device, void **data, gsize n_bytes)
{
  cudaError_t code = cudaMallocAsync (data, n_bytes, device->memory_stream);

  return code == cudaSuccess ? cudaStreamSynchronize (device->memory_stream) : code;
}

TpsBuffer *
tps_cuda_alloc (TpsDevice *base, gsize n_bytes, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  void *data = NULL;
  cudaError_t code;

  if (!tps_cuda_device_enter (device, error))
    return NULL;
  code = allocate (device, &data, MAX (n_bytes, 1));
  if (code == cudaErrorMemoryAllocation)
    {
      cudaGetLastError ();
      tps_cuda_memory_trim (device);
      code = allocate (device, &data, MAX (n_bytes, 1));
    }
  if (!check_memory (device, code, "memory", n_bytes, error))
    return NULL;
  return wrap (device, data, n_bytes, base, free_device_memory);
}

TpsBuffer *
tps_cuda_alloc_host (TpsDevice *base, gsize n_bytes, GError **error)
{
  TpsCudaDevice *device = (TpsCudaDevice *) base;
  void *data = NULL;

  /* "Portable" memory is page-locked for every device. */
  if (!tps_cuda_device_enter (device, error)
      || !check_memory (device, cudaHostAlloc (&data, MAX (n_bytes, 1), cudaHostAllocPortable),
                        "page-locked memory", n_bytes, error))
    return NULL;
  return wrap (device, data, n_bytes, NULL, free_host_memory);
}
