/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/shared_sum.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/fakes.h"

namespace {

constexpr gsize CHUNK_ELEMS = 64 * 1024; /* floats */

gint64
in_seconds (gint64 n)
{
  auto deadline = std::chrono::steady_clock::now () + std::chrono::seconds (n);

  return std::chrono::nanoseconds (deadline.time_since_epoch ()).count ();
}

struct SumFree
{
  void
  operator() (TpsSharedSum *shared) const
  {
    tps_shared_sum_free (shared);
  }
};

/* Ranks that are threads of this process, each with a mapping of its own. */
std::vector<std::unique_ptr<TpsSharedSum, SumFree>>
make_ranks (guint size)
{
  std::vector<TpsRankMemory *> memories;
  std::vector<std::unique_ptr<TpsSharedSum, SumFree>> ranks;
  gsize n_bytes = tps_shared_sum_get_n_bytes (size);
  TpsRankMemoryAddress address;

  memories.push_back (tps_rank_memory_create (size, n_bytes, &address));
  for (guint r = 1; r < size; r++)
    memories.push_back (tps_rank_memory_open (&address, r, size, n_bytes));
  for (TpsRankMemory *memory : memories)
    {
      EXPECT_NE (memory, nullptr);
      tps_rank_memory_close_door (memory);
      ranks.emplace_back (tps_shared_sum_new (memory));
    }
  return ranks;
}

float
element (guint rank, size_t i)
{
  return std::sin (static_cast<float> (i) * 0.37f + static_cast<float> (rank) * 1.7f) * 1000.0f;
}

void
check_sum (TpsSharedSum *shared, guint rank, guint size, size_t n)
{
  std::vector<float> data (n), expected (n);
  GError *error = nullptr;

  for (size_t i = 0; i < n; i++)
    {
      data[i] = element (rank, i);
      expected[i] = element (0, i);
      for (guint r = 1; r < size; r++)
        expected[i] += element (r, i);
    }
  ASSERT_TRUE (tps_shared_sum_run (shared, data.data (), n, in_seconds (60), &error))
      << error->message;
  EXPECT_EQ (data, expected) << n << " elements, rank " << rank << " of " << size;
}

/* The mean of the ranks' numbers + 1, where the last rank counts twice: small integers, so
 * exact. */
void
check_average (TpsSharedSum *shared, guint rank, guint size, size_t n)
{
  std::vector<guint16> data (n, tps_float16_from_float (static_cast<float> (rank + 1)));
  double weight = rank + 1 == size ? 2 : 1;
  float sum = static_cast<float> (size * (size + 1) / 2 + size);
  guint16 expected = tps_float16_from_float (sum / static_cast<float> (size + 1));
  TpsAverage average = { TPS_DTYPE_FLOAT16, data.data (), n, weight, FALSE };
  GError *error = nullptr;

  ASSERT_TRUE (tps_shared_sum_average (shared, &average, in_seconds (60), &error))
      << error->message;
  EXPECT_EQ (average.weight, size + 1);
  EXPECT_EQ (data, std::vector<guint16> (n, expected)) << n << " elements, rank " << rank;
}

TEST (SharedSum, SumsAndAveragesOfAllSizesFollowEachOther)
{
  for (guint size : { 2u, 3u, 5u })
    {
      auto ranks = make_ranks (size);

      run_ranks (size, [&] (guint rank) {
        for (size_t n :
             { size_t (1), size_t (0), size_t (15), size_t (17), CHUNK_ELEMS - 1, CHUNK_ELEMS,
               CHUNK_ELEMS + 1, 2 * CHUNK_ELEMS, 3 * CHUNK_ELEMS + 5, 7 * CHUNK_ELEMS + 31 })
          {
            check_sum (ranks[rank].get (), rank, size, n);
            check_average (ranks[rank].get (), rank, size, n);
            check_average (ranks[rank].get (), rank, size, 0);
          }
      });
    }
}

TEST (SharedSum, AWeightThatIsNoneIsRefusedByAllAndChangesNothing)
{
  auto ranks = make_ranks (2);

  run_ranks (2, [&] (guint rank) {
    guint16 element = 7;
    TpsAverage average = { TPS_DTYPE_BFLOAT16, &element, 1, rank == 0 ? 1.0 : -1.0, FALSE };
    GError *error = nullptr;

    EXPECT_FALSE (tps_shared_sum_average (ranks[rank].get (), &average, in_seconds (60), &error));
    EXPECT_STREQ (error->message, "rank 1 sent an invalid weight");
    EXPECT_EQ (element, 7);
    EXPECT_EQ (average.weight, rank == 0 ? 1.0 : -1.0);
    g_error_free (error);
  });
}

TEST (RankMemory, IsOpenedByThoseOnlyWhoKnowItsNumbersAndSize)
{
  TpsRankMemoryAddress address, other;
  g_autoptr (TpsRankMemory) memory = tps_rank_memory_create (2, 100, &address);

  ASSERT_NE (memory, nullptr);
  other = address;
  other.token++;
  EXPECT_EQ (tps_rank_memory_open (&other, 1, 2, 100), nullptr);
  EXPECT_EQ (tps_rank_memory_open (&address, 1, 2, 101), nullptr);
  tps_rank_memory_close_door (memory);
  EXPECT_EQ (tps_rank_memory_open (&address, 1, 2, 100), nullptr);
}

/* Opens it as rank 1 in a child process, which ends at once and is not reaped. */
pid_t
make_zombie (const TpsRankMemoryAddress *address)
{
  pid_t pid = fork ();
  siginfo_t info;

  if (pid == 0)
    _exit (tps_rank_memory_open (address, 1, 2, 100) == nullptr);
  EXPECT_EQ (waitid (P_PID, static_cast<id_t> (pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ (info.si_status, 0);
  return pid;
}

TEST (RankMemory, AProcessThatHasEndedIsSeenBeforeItsParentWaitsForIt)
{
  TpsRankMemoryAddress address;
  g_autoptr (TpsRankMemory) memory = tps_rank_memory_create (2, 100, &address);
  GError *error = nullptr;
  pid_t zombie;

  ASSERT_NE (memory, nullptr);
  zombie = make_zombie (&address);
  tps_rank_memory_close_door (memory);
  EXPECT_FALSE (tps_rank_memory_meet (memory, in_seconds (3600), &error));
  ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_GROUP_BROKEN));
  EXPECT_STREQ (error->message, "rank 1: its process has ended");
  g_error_free (error);
  waitpid (zombie, nullptr, 0);
}

} /* namespace */
