/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory that is allocated for kernels. cuda/device/device.c describes the policy of its pool. */

#pragma once

#include <cuda_runtime_api.h>
#include <glib.h>

namespace tps {

/* Memory of a stream, which is returned to the stream at the end of the scope. All work that is
 * enqueued until then may use it. */
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
        /* Clears the error, which the next launch would report otherwise. A lost device reports it
         * again. */
        cudaGetLastError ();
  }

  /* Allocates the memory; must be called once. If memory runs out, unused memory of the pool is
   * returned to the GPU and the allocation is tried again. */
  cudaError_t
  allocate (gsize n_bytes)
  {
    cudaError_t code = cudaMallocAsync (&memory_, n_bytes, stream_);

    if (code != cudaErrorMemoryAllocation)
      return code;
    cudaGetLastError (); /* clears the error */
    memory_ = nullptr;
    trim_pool ();
    return cudaMallocAsync (&memory_, n_bytes, stream_);
  }
  /* Returns room for the next `n` elements, aligned to 256 bytes. */
  template <typename T>
  T *
  take (gsize n)
  {
    T *taken = (T *) ((guint8 *) memory_ + used_);

    used_ += bytes_of<T> (n);
    return taken;
  }
  /* Returns the number of bytes that take() uses for `n` elements. */
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
      cudaGetLastError (); /* clears the error, since the second attempt decides */
  }

  cudaStream_t stream_;
  void *memory_ = nullptr;
  gsize used_ = 0;
};

} /* namespace tps */
