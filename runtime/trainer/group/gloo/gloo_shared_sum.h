/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Shared memory for the ranks of a group, if all of them are processes of one machine that can
 * share memory. C++; internal to this folder. */

#pragma once

#include <memory>

#include "runtime/trainer/group/gloo/gloo_mesh.h"
#include "runtime/trainer/group/shared_sum.h"

namespace tps {

class SharedSum
{
public:
  /* Agrees with the other ranks: either all ranks share memory or none does. Returns null if memory
   * is not shared, in particular if `wanted` is false on any rank. Throws Failure. */
  static std::unique_ptr<SharedSum> agree (Mesh *mesh, bool wanted);

  /* As the functions of runtime/trainer/group/shared_sum.h. The last two throw Failure. */
  TpsBuffer *get_memory (size_t n_bytes, TpsBuffer *current) noexcept; /* thread: any */
  void sum (float *data, size_t n_elems, Clock::time_point deadline);
  void average (TpsAverage *average, Clock::time_point deadline);

  /* Makes current and later sums and averages of all ranks fail. Thread: any. */
  void abort () noexcept;

private:
  struct SumFree
  {
    void
    operator() (TpsSharedSum *shared) const
    {
      tps_shared_sum_free (shared);
    }
  };

  SharedSum (TpsRankMemory *memory, TpsRankArena *arena)
      : shared_ (tps_shared_sum_new (memory, arena))
  {
  }

  std::unique_ptr<TpsSharedSum, SumFree> shared_;
};

} /* namespace tps */
