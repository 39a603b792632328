/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Stands in for the CUDA runtime, so that what is host code in the backend can be looked at without a GPU: memory is the
 * host's, everything is done when the call returns, and failures can be asked for. */

#include "tests/cuda/host/fake_runtime.h"

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

/* Memory that is written by nobody shows up as NaN. */
constexpr int kPoison = 0xff;

std::string failing;
cudaError_t failure = cudaSuccess;
bool is_sticky = false;
cudaError_t broken = cudaSuccess;
int current = 0;

cudaError_t
outcome (const char *function)
{
  if (broken != cudaSuccess)
    return broken;
  if (failing != function)
    return cudaSuccess;
  failing.clear ();
  if (is_sticky)
    broken = failure;
  return failure;
}

cudaError_t
allocate (const char *function, void **memory, size_t n_bytes)
{
  cudaError_t code = outcome (function);

  if (code != cudaSuccess)
    return code;
  if (posix_memalign (memory, 256, n_bytes + 1) != 0)
    return cudaErrorMemoryAllocation;
  memset (*memory, kPoison, n_bytes);
  return cudaSuccess;
}

cudaError_t
release (const char *function, void *memory)
{
  free (memory);
  return outcome (function);
}

} /* namespace */

extern "C"
{
  void
  fake_cuda_fail (const char *function, cudaError_t code, bool sticky)
  {
    failing = function;
    failure = code;
    is_sticky = sticky;
  }

  void
  fake_cuda_reset (void)
  {
    failing.clear ();
    broken = cudaSuccess;
  }

  cudaError_t
  cudaGetDeviceCount (int *count)
  {
    *count = 2;
    return outcome ("cudaGetDeviceCount");
  }

  cudaError_t
  cudaGetDeviceProperties (struct cudaDeviceProp *properties, int device)
  {
    *properties = {};
    strcpy (properties->name, "no GPU: kernels' bodies on the host");
    return outcome ("cudaGetDeviceProperties");
  }

  cudaError_t
  cudaGetDevice (int *device)
  {
    *device = current;
    return outcome ("cudaGetDevice");
  }

  cudaError_t
  cudaSetDevice (int device)
  {
    current = device;
    return outcome ("cudaSetDevice");
  }

  const char *
  cudaGetErrorString (cudaError_t code)
  {
    return "an error of the fake";
  }

  const char *
  cudaGetErrorName (cudaError_t code)
  {
    return "cudaErrorFake";
  }

  cudaError_t
  cudaGetLastError (void)
  {
    return broken;
  }

  cudaError_t
  cudaDeviceGetDefaultMemPool (cudaMemPool_t *pool, int device)
  {
    *pool = nullptr;
    return outcome ("cudaDeviceGetDefaultMemPool");
  }

  cudaError_t
  cudaMemPoolSetAttribute (cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
  {
    return outcome ("cudaMemPoolSetAttribute");
  }

  cudaError_t
  cudaStreamCreateWithFlags (cudaStream_t *stream, unsigned int flags)
  {
    *stream = (cudaStream_t) malloc (1);
    return outcome ("cudaStreamCreateWithFlags");
  }

  cudaError_t
  cudaStreamDestroy (cudaStream_t stream)
  {
    return release ("cudaStreamDestroy", stream);
  }

  cudaError_t
  cudaStreamSynchronize (cudaStream_t stream)
  {
    return outcome ("cudaStreamSynchronize");
  }

  cudaError_t
  cudaStreamWaitEvent (cudaStream_t stream, cudaEvent_t event, unsigned int flags)
  {
    return outcome ("cudaStreamWaitEvent");
  }

  cudaError_t
  cudaEventCreate (cudaEvent_t *event)
  {
    *event = (cudaEvent_t) malloc (1);
    return outcome ("cudaEventCreate");
  }

  cudaError_t
  cudaEventDestroy (cudaEvent_t event)
  {
    return release ("cudaEventDestroy", event);
  }

  cudaError_t
  cudaEventRecord (cudaEvent_t event, cudaStream_t stream)
  {
    return outcome ("cudaEventRecord");
  }

  cudaError_t
  cudaEventQuery (cudaEvent_t event)
  {
    return outcome ("cudaEventQuery");
  }

  cudaError_t
  cudaEventSynchronize (cudaEvent_t event)
  {
    return outcome ("cudaEventSynchronize");
  }

  cudaError_t
  cudaEventElapsedTime (float *ms, cudaEvent_t start, cudaEvent_t end)
  {
    *ms = 1.5;
    return outcome ("cudaEventElapsedTime");
  }

  cudaError_t
  cudaMallocAsync (void **memory, size_t n_bytes, cudaStream_t stream)
  {
    return allocate ("cudaMallocAsync", memory, n_bytes);
  }

  cudaError_t
  cudaFreeAsync (void *memory, cudaStream_t stream)
  {
    return release ("cudaFreeAsync", memory);
  }

  cudaError_t
  cudaMalloc (void **memory, size_t n_bytes)
  {
    return allocate ("cudaMalloc", memory, n_bytes);
  }

  cudaError_t
  cudaFree (void *memory)
  {
    return release ("cudaFree", memory);
  }

  cudaError_t
  cudaHostAlloc (void **memory, size_t n_bytes, unsigned int flags)
  {
    return allocate ("cudaHostAlloc", memory, n_bytes);
  }

  cudaError_t
  cudaFreeHost (void *memory)
  {
    return release ("cudaFreeHost", memory);
  }

  cudaError_t
  cudaMemcpyAsync (void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                   cudaStream_t stream)
  {
    cudaError_t code = outcome ("cudaMemcpyAsync");

    if (code == cudaSuccess)
      memcpy (to, from, n_bytes);
    return code;
  }

  cudaError_t
  cudaMemsetAsync (void *memory, int value, size_t n_bytes, cudaStream_t stream)
  {
    cudaError_t code = outcome ("cudaMemsetAsync");

    if (code == cudaSuccess)
      memset (memory, value, n_bytes);
    return code;
  }
}
