/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Controls of the fake CUDA runtime. */

#pragma once

#include <cuda_runtime_api.h>

/* A stream of the fake. Libraries other than the runtime must call begin() before and end() after
 * they access device memory. Calls may nest, and any thread may make them. Any other access is a
 * segmentation fault. */
struct CUstream_st
{
  void (*begin) (void);
  void (*end) (void);
};

extern "C"
{
  /* Makes the next call of `function` return `code`, if `function` can fail in the fake. If
   * `is_sticky`, all later calls of all functions fail too, as after a device error. */
  void fake_cuda_fail (const char *function, cudaError_t code, bool is_sticky);

  /* Makes the next `n_calls` calls of `function` return `code`, as if memory were exhausted. */
  void fake_cuda_fail_for (const char *function, cudaError_t code, int n_calls);

  /* Returns the number of calls of `function` since the last reset, including failed ones. "launch"
   * counts kernels. A sort or a scan of CUB counts as one. */
  int fake_cuda_count_calls (const char *function);

  /* From now on, a kernel runs only `n_blocks` blocks at each end of its grid, so tests of huge
   * arrays take little time. A reset makes all blocks run. */
  void fake_cuda_run_edges (unsigned n_blocks);

  /* Returns true if a call since the start of the process has created a context on device
   * `ordinal`. */
  bool fake_cuda_has_context (int ordinal);

  /* Makes `ordinal` the calling thread's current device without creating a context there. */
  void fake_cuda_set_current (int ordinal);

  /* Returns the last value that was set for `attribute` on the pool of any device; 0 = none. */
  unsigned long long fake_cuda_get_pool_attribute (enum cudaMemPoolAttr attribute);

  /* Returns the largest number of bytes of this type that were allocated since the last reset, as
   * requested. */
  size_t fake_cuda_get_most_bytes (enum cudaMemoryType type);

  /* While events are held, they do not complete. */
  void fake_cuda_hold_events (bool are_held);

  /* Restores the initial state and drops pending failures. */
  void fake_cuda_reset (void);
}
