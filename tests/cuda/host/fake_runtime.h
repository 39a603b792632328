/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Failures of the CUDA runtime that stands in for the real one. */

#pragma once

#include <cuda_runtime_api.h>

/* What a stream is here: with it those who work on the device's memory, and are not the runtime,
 * get to it. Outside of begin() and end(), which nest and may be called by any thread, touching
 * that memory is a segmentation fault. */
struct CUstream_st
{
  void (*begin) (void);
  void (*end) (void);
};

extern "C"
{
  /* The next call of `function` (of those that can fail here) returns `code`; if `is_sticky`, so do
   * all calls of all functions from then on, as after an error of the device. */
  void fake_cuda_fail (const char *function, cudaError_t code, bool is_sticky);

  /* The next `n_calls` calls of `function` return `code`, as where there is no memory. */
  void fake_cuda_fail_for (const char *function, cudaError_t code, int n_calls);

  /* How often `function` was called since the last reset, failed calls too. */
  int fake_cuda_count_calls (const char *function);

  /* Whether anything was asked of device `ordinal` that sets up a context there, since the process
   * started. */
  bool fake_cuda_has_context (int ordinal);

  /* Makes `ordinal` the calling thread's current device without setting up a context there. */
  void fake_cuda_set_current (int ordinal);

  /* What the pools of all devices were last told about `attribute`; 0 before. */
  unsigned long long fake_cuda_get_pool_attribute (enum cudaMemPoolAttr attribute);

  /* While held no event is reached. */
  void fake_cuda_hold_events (bool are_held);

  /* All well again; pending failures are forgotten. */
  void fake_cuda_reset (void);
}
