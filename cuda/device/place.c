/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/place.h"

#include <cuda_runtime_api.h>

TpsCudaPlace
tps_cuda_place_of (gconstpointer memory)
{
  struct cudaPointerAttributes attributes;

  if (cudaPointerGetAttributes (&attributes, memory) != cudaSuccess)
    {
      cudaGetLastError (); /* dropped */
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
