/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/place.h"

#include <cuda_runtime_api.h>

#include "cuda/device/device.h"

TpsCudaPlace
tps_cuda_place_of (gconstpointer memory)
{
  struct cudaPointerAttributes attributes;

  /* If no device is started, CUDA has not allocated any memory in this process. The query would
   * create a context on the current device. */
  if (!tps_cuda_device_enter_any ())
    return TPS_CUDA_PLACE_PAGEABLE;
  if (cudaPointerGetAttributes (&attributes, memory) != cudaSuccess)
    {
      cudaGetLastError (); /* clears the error */
      return TPS_CUDA_PLACE_PAGEABLE;
    }
  switch (attributes.type)
    {
    case cudaMemoryTypeHost:
      return TPS_CUDA_PLACE_PINNED;
    case cudaMemoryTypeDevice:
    case cudaMemoryTypeManaged:
      return TPS_CUDA_PLACE_DEVICE;
    case cudaMemoryTypeUnregistered:
    default:
      return TPS_CUDA_PLACE_PAGEABLE;
    }
}
