/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Failures of the CUDA runtime that stands in for the real one. */

#pragma once

#include <cuda_runtime_api.h>

extern "C"
{
  /* The next call of `function` (of those that can fail here) returns `code`; if `is_sticky`, so do all calls of all
 * functions from then on, as after an error of the device. */
  void fake_cuda_fail (const char *function, cudaError_t code, bool is_sticky);

  /* All well again; pending failures are forgotten. */
  void fake_cuda_reset (void);
}
