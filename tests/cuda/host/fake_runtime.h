/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Controls of the fake CUDA runtime. */

#pragma once

#include <cuda_runtime_api.h>

/* A stream of the fake. Libraries other than the runtime use it to access device memory. Outside of
 * begin() and end(), which nest and may be called by any thread, touching that memory is a
 * segmentation fault. */
struct CUstream_st
{
  void (*begin) (void);
  void (*end) (void);
};

extern "C"
{
  /* The next call of `function` returns `code`, if `function` can fail here. If `is_sticky`, all
   * later calls of all functions also fail, as after a device error. */
  void fake_cuda_fail (const char *function, cudaError_t code, bool is_sticky);

  /* The next `n_calls` calls of `function` return `code`, as if memory were exhausted. */
  void fake_cuda_fail_for (const char *function, cudaError_t code, int n_calls);

  /* How often `function` was called since the last reset, failed calls too. "launch": kernels,
   * where a sort or a scan of CUB counts as one. */
  int fake_cuda_count_calls (const char *function);

  /* From now on kernels run only that many blocks at each end of their grid, so that tests of huge
   * arrays end. A reset makes all blocks run. */
  void fake_cuda_run_edges (unsigned n_blocks);

  /* Whether a call since the start of the process has created a context on device `ordinal`. */
  bool fake_cuda_has_context (int ordinal);

  /* Makes `ordinal` the calling thread's current device without creating a context there. */
  void fake_cuda_set_current (int ordinal);

  /* The last value that was set for `attribute` on the pools of all devices; 0 if there is none. */
  unsigned long long fake_cuda_get_pool_attribute (enum cudaMemPoolAttr attribute);

  /* The bytes of the kind that are allocated now, as requested, and the most since the last
   * reset. */
  size_t fake_cuda_get_bytes (enum cudaMemoryType type);
  size_t fake_cuda_get_most_bytes (enum cudaMemoryType type);

  /* While they are held, events do not complete. */
  void fake_cuda_hold_events (bool are_held);

  /* Restores the initial state and drops pending failures. */
  void fake_cuda_reset (void);
}
