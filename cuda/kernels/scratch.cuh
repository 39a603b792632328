/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory that kernels take for themselves; cuda/device/memory.c states the policy of its pool. */

#pragma once

#include <cuda_runtime_api.h>
#include <glib.h>

namespace tps {

/* Memory of a stream, given back to it at the end of the scope: what is enqueued until then may use
 * it. */
class Scratch
{
public:
  explicit Scratch (cudaStream_t stream) : stream_ (stream)
  {
  }
  Scratch (const Scratch &) = delete;
  Scratch &operator= (const Scratch &) = delete;
  ~Scratch ()
  {
    if (memory_ != nullptr)
      if (cudaFreeAsync (memory_, stream_) != cudaSuccess)
        /* dropped, or the next launch would be blamed; a lost device shows there by itself */
        cudaGetLastError ();
  }

  /* Once. Where there is no memory, what the pool keeps unused is given back, and it is tried
   * again. */
  cudaError_t
  allocate (gsize n_bytes)
  {
    cudaError_t code = cudaMallocAsync (&memory_, n_bytes, stream_);

    if (code != cudaErrorMemoryAllocation)
      return code;
    cudaGetLastError (); /* seen */
    memory_ = nullptr;
    trim_pool ();
    return cudaMallocAsync (&memory_, n_bytes, stream_);
  }
  /* The next `n` of what was allocated, at 256 bytes. */
  template <typename T>
  T *
  take (gsize n)
  {
    T *taken = (T *) ((guint8 *) memory_ + used_);

    used_ += bytes_of<T> (n);
    return taken;
  }
  template <typename T>
  static gsize
  bytes_of (gsize n)
  {
    return (n * sizeof (T) + 255) / 256 * 256;
  }

private:
  static void
  trim_pool ()
  {
    cudaMemPool_t pool;
    int device;

    if (cudaGetDevice (&device) != cudaSuccess
        || cudaDeviceGetDefaultMemPool (&pool, device) != cudaSuccess
        || cudaMemPoolTrimTo (pool, 0) != cudaSuccess)
      cudaGetLastError (); /* dropped: the second attempt tells */
  }

  cudaStream_t stream_;
  void *memory_ = nullptr;
  gsize used_ = 0;
};

} /* namespace tps */
