/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/kernels/kernels.h"

namespace {

__global__ void
nothing ()
{
}

} /* namespace */

cudaError_t
tps_cuda_probe (void)
{
  cudaFuncAttributes attributes;

  return cudaFuncGetAttributes (&attributes, (const void *) nothing);
}
