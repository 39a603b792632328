/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Arrays for programs that run kernels without the backend, and sequences of steps that stop at the
 * first error. */

#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "cuda/kernels/kernels.h"
#include "runtime/device/backend.h"

namespace arrays {

/* The location of inputs. Host memory is page-locked, and kernels read it over the bus. */
enum Place
{
  ON_DEVICE,
  IN_HOST_MEMORY,
  NOWHERE,
};

/* Arrays that are freed together with this object. */
class Memory
{
public:
  explicit Memory (Place place) : place_ (place)
  {
  }
  Memory (const Memory &) = delete;
  Memory &operator= (const Memory &) = delete;
  ~Memory ()
  {
    for (void *data : on_device_)
      cudaFree (data);
    for (void *data : in_host_memory_)
      cudaFreeHost (data);
  }

  template <typename T>
  T *
  output (gsize n)
  {
    return (T *) allocate (false, n * sizeof (T));
  }
  template <typename T>
  T *
  input (gsize n)
  {
    return (T *) allocate (place_ == IN_HOST_MEMORY, n * sizeof (T));
  }

  /* Returns the error of the first failed allocation. */
  cudaError_t
  code () const
  {
    return code_;
  }

private:
  void *
  allocate (bool on_host, gsize n_bytes)
  {
    void *data = nullptr;
    cudaError_t code = code_;

    if (code == cudaSuccess)
      code = on_host ? cudaHostAlloc (&data, n_bytes, cudaHostAllocDefault)
                     : cudaMalloc (&data, n_bytes);
    code_ = code;
    if (code == cudaSuccess)
      (on_host ? in_host_memory_ : on_device_).push_back (data);
    return data;
  }

  Place place_;
  cudaError_t code_ = cudaSuccess;
  std::vector<void *> on_device_, in_host_memory_;
};

/* Runs steps until one fails. */
class Steps
{
public:
  explicit Steps (const Memory &memory) : code (memory.code ())
  {
  }
  template <typename F>
  Steps &
  then (F step)
  {
    if (code == cudaSuccess)
      code = step ();
    return *this;
  }
  template <typename T>
  Steps &
  fill (TpsDType dtype, T *values, double value, gsize n)
  {
    return then ([=] { return tps_cuda_fill (nullptr, dtype, values, value, n); });
  }
  /* Waits for all steps. */
  template <typename T>
  Steps &
  read (T *to, const T *from, gsize n)
  {
    return then ([=] {
      cudaError_t copied = cudaMemcpyAsync (to, from, n * sizeof (T), cudaMemcpyDefault, nullptr);

      return copied == cudaSuccess ? cudaStreamSynchronize (nullptr) : copied;
    });
  }

  cudaError_t code;
};

} /* namespace arrays */
