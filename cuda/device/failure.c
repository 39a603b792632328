/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/failure.h"

static const cudaError_t passing[] = {
  cudaErrorInvalidValue,         cudaErrorMemoryAllocation,      cudaErrorInvalidConfiguration,
  cudaErrorInvalidPitchValue,    cudaErrorInvalidDevicePointer,  cudaErrorInvalidMemcpyDirection,
  cudaErrorInvalidDevice,        cudaErrorInvalidResourceHandle, cudaErrorNotReady,
  cudaErrorNotPermitted,         cudaErrorNotSupported,          cudaErrorNoKernelImageForDevice,
  cudaErrorLaunchOutOfResources,
};

gboolean
tps_cuda_failure_is_passing (cudaError_t code)
{
  for (guint i = 0; i < G_N_ELEMENTS (passing); i++)
    if (passing[i] == code)
      return TRUE;
  return code == cudaSuccess;
}
