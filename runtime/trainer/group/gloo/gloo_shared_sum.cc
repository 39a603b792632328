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

struct ArenaUnref
{
  void
  operator() (TpsRankArena *arena) const
  {
    tps_rank_arena_unref (arena);
  }
};

using Arena = std::unique_ptr<TpsRankArena, ArenaUnref>;

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

bool
all_agree (Mesh *mesh, bool mine, Clock::time_point deadline)
{
  std::vector<uint64_t> answers = gather (mesh, mine, deadline);

  return std::count (answers.begin (), answers.end (), 1u) == static_cast<long> (answers.size ());
}

/* Returns an arena that all ranks map, or null on all ranks. */
Arena
agree_on_arena (Mesh *mesh, Clock::time_point deadline)
{
  TpsRankFileAddress mine = {};
  Arena arena (tps_rank_arena_new (mesh->rank (), mesh->size (), &mine));
  std::vector<uint64_t> handles = gather (mesh, mine.handle, deadline);
  std::vector<uint64_t> tokens = gather (mesh, mine.token, deadline);
  bool is_open = arena != nullptr;

  for (unsigned r = 0; r < mesh->size () && is_open; r++)
    {
      TpsRankFileAddress address = { handles[r], tokens[r] };

      is_open = r == mesh->rank () || tps_rank_arena_open (arena.get (), r, &address);
    }
  if (!all_agree (mesh, is_open, deadline))
    return nullptr;
  tps_rank_arena_close_door (arena.get ());
  return arena;
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
  TpsRankFileAddress address = {};

  if (rank == 0 && wanted)
    memory.reset (tps_rank_memory_create (size, n_bytes, &address));
  address.handle = gather (mesh, address.handle, deadline)[0];
  address.token = gather (mesh, address.token, deadline)[0];
  if (rank != 0 && wanted)
    memory.reset (tps_rank_memory_open (&address, rank, size, n_bytes));
  if (!all_agree (mesh, memory != nullptr, deadline))
    return nullptr;
  tps_rank_memory_close_door (memory.get ());
  Arena arena = agree_on_arena (mesh, deadline);
  return std::unique_ptr<SharedSum> (new SharedSum (memory.release (), arena.release ()));
}

TpsBuffer *
SharedSum::get_memory (size_t n_bytes, TpsBuffer *current) noexcept
{
  return tps_shared_sum_get_memory (shared_.get (), n_bytes, current);
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
