/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Failures of the CUDA runtime that stands in for the real one. */

#pragma once

#include <cuda_runtime_api.h>

/* What a stream is here: with it those who work on the device's memory, and are not the runtime, get to it. Outside of
 * begin() and end(), which nest and may be called by any thread, touching that memory is a segmentation fault. */
struct CUstream_st
{
  void (*begin) (void);
  void (*end) (void);
};

extern "C"
{
  /* The next call of `function` (of those that can fail here) returns `code`; if `is_sticky`, so do all calls of all
   * functions from then on, as after an error of the device. */
  void fake_cuda_fail (const char *function, cudaError_t code, bool is_sticky);

  /* While held no event is reached. */
  void fake_cuda_hold_events (bool are_held);

  /* All well again; pending failures are forgotten. */
  void fake_cuda_reset (void);
}
