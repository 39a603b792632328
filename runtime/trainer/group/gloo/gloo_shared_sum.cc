/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/gloo/gloo_shared_sum.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace tps {

namespace {

struct MemoryFree
{
  void
  operator() (TpsRankMemory *memory) const
  {
    tps_rank_memory_free (memory);
  }
};

/* Converts to the clock of tps_clock_now_ns(). */
gint64
to_ns (Clock::time_point deadline)
{
  return std::chrono::nanoseconds (deadline.time_since_epoch ()).count ();
}

void
throw_if (GError *error)
{
  if (error == nullptr)
    return;
  std::string text = error->message;
  g_error_free (error);
  throw Failure (TPS_ERROR_GROUP_BROKEN, text);
}

std::vector<uint64_t>
gather (Mesh *mesh, uint64_t mine, Clock::time_point deadline)
{
  std::vector<uint64_t> counts;

  mesh->begin (deadline);
  mesh->gather_counts (mine, &counts);
  return counts;
}

} /* namespace */

std::unique_ptr<SharedSum>
SharedSum::agree (Mesh *mesh, bool wanted)
{
  SigpipeBlock block;
  Clock::time_point deadline = Clock::now () + mesh->timeout ();
  unsigned rank = mesh->rank (), size = mesh->size ();
  gsize n_bytes = tps_shared_sum_get_n_bytes (size);
  std::unique_ptr<TpsRankMemory, MemoryFree> memory;
  TpsRankMemoryAddress address = {};

  if (rank == 0 && wanted)
    memory.reset (tps_rank_memory_create (size, n_bytes, &address));
  address.handle = gather (mesh, address.handle, deadline)[0];
  address.token = gather (mesh, address.token, deadline)[0];
  if (rank != 0 && wanted)
    memory.reset (tps_rank_memory_open (&address, rank, size, n_bytes));
  std::vector<uint64_t> ready = gather (mesh, memory != nullptr, deadline);
  if (std::count (ready.begin (), ready.end (), 1u) != static_cast<long> (size))
    return nullptr;
  tps_rank_memory_close_door (memory.get ());
  return std::unique_ptr<SharedSum> (new SharedSum (memory.release ()));
}

void
SharedSum::sum (float *data, size_t n_elems, Clock::time_point deadline)
{
  GError *error = nullptr;

  tps_shared_sum_run (shared_.get (), data, n_elems, to_ns (deadline), &error);
  throw_if (error);
}

void
SharedSum::average (TpsAverage *average, Clock::time_point deadline)
{
  GError *error = nullptr;

  tps_shared_sum_average (shared_.get (), average, to_ns (deadline), &error);
  throw_if (error);
}

void
SharedSum::abort () noexcept
{
  tps_shared_sum_break (shared_.get ());
}

} /* namespace tps */
