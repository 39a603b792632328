/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/shared_sum.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <vector>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "tests/float16/float16.h"
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

/* Returns the arenas of ranks that are threads of this process. Each arena has mapped the parts of
 * all ranks. */
std::vector<TpsRankArena *>
make_arenas (guint size)
{
  std::vector<TpsRankArena *> arenas;
  std::vector<TpsRankFileAddress> addresses (size);

  for (guint r = 0; r < size; r++)
    arenas.push_back (tps_rank_arena_new (r, size, &addresses[r]));
  for (guint r = 0; r < size; r++)
    for (guint other = 0; other < size; other++)
      EXPECT_TRUE (other == r || tps_rank_arena_open (arenas[r], other, &addresses[other]));
  for (TpsRankArena *arena : arenas)
    tps_rank_arena_close_door (arena);
  return arenas;
}

/* Returns ranks that are threads of this process. Each rank has its own mapping. */
std::vector<std::unique_ptr<TpsSharedSum, SumFree>>
make_ranks (guint size, bool have_arena = true)
{
  std::vector<TpsRankArena *> arenas = have_arena ? make_arenas (size)
                                                  : std::vector<TpsRankArena *> (size);
  std::vector<TpsRankMemory *> memories;
  std::vector<std::unique_ptr<TpsSharedSum, SumFree>> ranks;
  gsize n_bytes = tps_shared_sum_get_n_bytes (size);
  TpsRankFileAddress address;

  memories.push_back (tps_rank_memory_create (size, n_bytes, &address));
  for (guint r = 1; r < size; r++)
    memories.push_back (tps_rank_memory_open (&address, r, size, n_bytes));
  for (guint r = 0; r < size; r++)
    {
      EXPECT_NE (memories[r], nullptr);
      tps_rank_memory_close_door (memories[r]);
      ranks.emplace_back (tps_shared_sum_new (memories[r], arenas[r]));
    }
  return ranks;
}

float
element (guint rank, size_t i)
{
  return std::sin (static_cast<float> (i) * 0.37f + static_cast<float> (rank) * 1.7f) * 1000.0f;
}

/* Returns memory for `n` floats. The memory is in the arena if `placed` and if `n` is large enough,
 * otherwise in the heap. */
TpsBuffer *
get_floats (TpsSharedSum *shared, size_t n, bool placed)
{
  TpsBuffer *memory = placed ? tps_shared_sum_get_memory (shared, n * sizeof (float), nullptr)
                             : nullptr;

  return memory != nullptr ? memory : tps_buffer_new (n * sizeof (float));
}

/* Checks a sum. The result must be the same in all kinds of memory. */
void
check_sum (TpsSharedSum *shared, guint rank, guint size, size_t n, bool placed = false)
{
  g_autoptr (TpsBuffer) buffer = get_floats (shared, n, placed);
  float *data = reinterpret_cast<float *> (tps_buffer_get_data (buffer));
  std::vector<float> expected (n);
  GError *error = nullptr;

  for (size_t i = 0; i < n; i++)
    {
      data[i] = element (rank, i);
      expected[i] = element (0, i);
      for (guint r = 1; r < size; r++)
        expected[i] += element (r, i);
    }
  ASSERT_TRUE (tps_shared_sum_run (shared, data, n, in_seconds (60), &error)) << error->message;
  EXPECT_EQ (std::vector<float> (data, data + n), expected)
      << n << " elements, rank " << rank << " of " << size;
}

/* Checks a weighted mean of floats. Rank 1 has weight 0. If there are more than two ranks, the last
 * one has weight 3. */
void
check_average_of_floats (TpsSharedSum *shared, guint rank, guint size, size_t n, bool placed)
{
  g_autoptr (TpsBuffer) buffer = get_floats (shared, n, placed);
  float *data = reinterpret_cast<float *> (tps_buffer_get_data (buffer));
  auto weight_of = [size] (guint r) { return r == 1 ? 0 : r + 1 == size ? 3 : 1; };
  TpsAverage average = { TPS_DTYPE_FLOAT32, data, n, static_cast<double> (weight_of (rank)),
                         FALSE };
  float weights = static_cast<float> (size > 2 ? size + 1 : 1);
  GError *error = nullptr;

  for (size_t i = 0; i < n; i++)
    data[i] = rank == 1 ? NAN : element (rank, i);
  ASSERT_TRUE (tps_shared_sum_average (shared, &average, in_seconds (60), &error))
      << error->message;
  EXPECT_EQ (average.weight, weights);
  for (size_t i = 0; i < n; i++)
    {
      float sum = element (0, i);

      for (guint r = 2; r < size; r++)
        sum += static_cast<float> (weight_of (r)) * element (r, i);
      ASSERT_EQ (data[i], sum / weights) << i << " of " << n << ", rank " << rank << " of " << size;
    }
}

/* Checks the mean of the numbers rank + 1, in which the last rank counts twice. The numbers are
 * small integers, so the sum is exact. */
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

/* Runs sums in place, through slots, and in both kinds of memory, in one sequence. */
TEST (SharedSum, DataInMemoryOfTheRanksAreReducedInPlaceWithTheSameBits)
{
  for (guint size : { 2u, 3u, 5u })
    {
      auto ranks = make_ranks (size);

      run_ranks (size, [&] (guint rank) {
        TpsSharedSum *shared = ranks[rank].get ();

        for (size_t n : { size_t (7), CHUNK_ELEMS + 1, 3 * CHUNK_ELEMS, 9 * CHUNK_ELEMS + 31 })
          {
            check_sum (shared, rank, size, n, true);
            check_average_of_floats (shared, rank, size, n, true);
            check_sum (shared, rank, size, n, rank % 2 == 0);
            check_average_of_floats (shared, rank, size, n, rank + 1 != size);
            check_average (shared, rank, size, n);
            check_average_of_floats (shared, rank, size, n, false);
          }
      });
    }
}

TEST (SharedSum, WorksWithoutAnArena)
{
  auto ranks = make_ranks (2, false);

  run_ranks (2, [&] (guint rank) {
    EXPECT_EQ (tps_shared_sum_get_memory (ranks[rank].get (), 1 << 20, nullptr), nullptr);
    check_sum (ranks[rank].get (), rank, 2, 3 * CHUNK_ELEMS);
  });
}

TEST (SharedSum, MemoryOfTheRanksStaysTheMemoryOfItsData)
{
  auto ranks = make_ranks (2);
  g_autoptr (TpsBuffer) mine = tps_shared_sum_get_memory (ranks[0].get (), 1 << 20, nullptr);
  g_autoptr (TpsBuffer) again = tps_shared_sum_get_memory (ranks[0].get (), 1 << 20, mine);
  g_autoptr (TpsBuffer) foreign = tps_buffer_new (1 << 20);
  g_autoptr (TpsBuffer) instead = tps_shared_sum_get_memory (ranks[0].get (), 1 << 20, foreign);

  ASSERT_NE (mine, nullptr);
  EXPECT_EQ (again, mine);
  ASSERT_NE (instead, nullptr);
  EXPECT_NE (instead, foreign);
  EXPECT_EQ (tps_shared_sum_get_memory (ranks[0].get (), 64, nullptr), nullptr) << "not faster";
}

/* A rank must check the places that other ranks send before it uses them. */
TEST (SharedSum, AnImpossiblePlaceIsRefused)
{
  constexpr size_t N = 2 * CHUNK_ELEMS;
  auto ranks = make_ranks (2);

  run_ranks (2, [&] (guint rank) {
    g_autoptr (TpsBuffer) data = get_floats (ranks[rank].get (), N, true);
    /* On rank 1, the place is one byte inside a float, so it is misaligned. */
    gfloat *floats = reinterpret_cast<gfloat *> (tps_buffer_get_data (data) + (rank == 1 ? 1 : 0));
    GError *error = nullptr;

    EXPECT_FALSE (tps_shared_sum_run (ranks[rank].get (), floats, N - 1, in_seconds (60), &error));
    ASSERT_NE (error, nullptr);
    EXPECT_STREQ (error->message, "rank 1 sent an invalid place");
    g_error_free (error);
  });
}

/* -- the arena -- */

class Arena : public testing::Test
{
protected:
  std::vector<TpsRankArena *> arenas = make_arenas (2);

  ~Arena () override
  {
    for (TpsRankArena *arena : arenas)
      tps_rank_arena_unref (arena);
  }
};

/* Some systems have pages of 64 KiB. */
TEST_F (Arena, BuffersBeginAtPagesOfEverySystem)
{
  g_autoptr (TpsBuffer) first = tps_rank_arena_take (arenas[0], 1);
  g_autoptr (TpsBuffer) second = tps_rank_arena_take (arenas[0], 70000);

  EXPECT_EQ (tps_rank_arena_find (arenas[0], tps_buffer_get_data (first)) % 65536, 0u);
  EXPECT_EQ (tps_rank_arena_find (arenas[0], tps_buffer_get_data (second)) % 65536, 0u);
}

TEST_F (Arena, PlacesOutsideOfAPartAreNone)
{
  EXPECT_EQ (tps_rank_arena_at (arenas[0], 1, 0, 1), nullptr);
  EXPECT_EQ (tps_rank_arena_at (arenas[0], 1, TPS_RANK_ARENA_PART_BYTES, 1), nullptr);
  EXPECT_EQ (tps_rank_arena_at (arenas[0], 1, 4096, TPS_RANK_ARENA_PART_BYTES), nullptr);
  EXPECT_EQ (tps_rank_arena_at (arenas[0], 1, G_MAXUINT64, 2), nullptr);
  EXPECT_EQ (tps_rank_arena_take (arenas[0], 0), nullptr);
  EXPECT_EQ (tps_rank_arena_take (arenas[0], TPS_RANK_ARENA_PART_BYTES), nullptr);
}

/* Compares the arena with a model. No two buffers may overlap. Freed memory returns to the system,
 * so a new buffer must be zero. */
TEST_F (Arena, BuffersDoNotOverlap)
{
  struct Held
  {
    TpsBuffer *buffer;
    guint8 mark;
  };
  std::mt19937 dice (5);
  std::vector<Held> held;

  for (int step = 0; step < 3000; step++)
    {
      if (held.size () < 40 && dice () % 2 == 0)
        {
          gsize n_bytes = 1 + dice () % 30000;
          TpsBuffer *buffer = tps_rank_arena_take (arenas[0], n_bytes);
          guint8 mark = static_cast<guint8> (1 + dice () % 255);

          ASSERT_NE (buffer, nullptr);
          ASSERT_TRUE (std::all_of (tps_buffer_get_data (buffer),
                                    tps_buffer_get_data (buffer) + n_bytes,
                                    [] (guint8 byte) { return byte == 0; }));
          memset (tps_buffer_get_data (buffer), mark, n_bytes);
          held.push_back ({ buffer, mark });
        }
      else if (!held.empty ())
        {
          size_t i = dice () % held.size ();
          const guint8 *data = tps_buffer_get_data (held[i].buffer);
          gsize n_bytes = tps_buffer_get_size (held[i].buffer);

          ASSERT_EQ (std::count (data, data + n_bytes, held[i].mark), (long) n_bytes);
          tps_buffer_unref (held[i].buffer);
          held.erase (held.begin () + (long) i);
        }
    }
  for (Held &last : held)
    tps_buffer_unref (last.buffer);
}

/* -- a rank that dies -- */

constexpr size_t DYING_ELEMS = 4 * CHUNK_ELEMS;

/* Runs and checks sums until the first error, and returns this error. */
GError *
sum_in_place_until_an_error (TpsSharedSum *shared, guint rank)
{
  g_autoptr (TpsBuffer) buffer = get_floats (shared, DYING_ELEMS, true);
  float *data = reinterpret_cast<float *> (tps_buffer_get_data (buffer));
  GError *error = nullptr;

  for (float number = 0;; number++)
    {
      std::fill_n (data, DYING_ELEMS, number + static_cast<float> (rank));
      if (!tps_shared_sum_run (shared, data, DYING_ELEMS, in_seconds (60), &error))
        return error;
      EXPECT_EQ (std::count (data, data + DYING_ELEMS, 2 * number + 1), (long) DYING_ELEMS);
    }
}

/* Runs sums as rank 1 until an alarm terminates the process. Writes a byte to `joined` after it has
 * joined. */
[[noreturn]] void
sum_until_an_alarm (const TpsRankFileAddress *address, TpsRankArena *arena, gint64 alarm_us,
                    int joined)
{
  const itimerval alarm = { { 0, 0 }, { alarm_us / 1000000, alarm_us % 1000000 } };
  TpsRankMemory *memory = tps_rank_memory_open (address, 1, 2, tps_shared_sum_get_n_bytes (2));

  if (memory == nullptr || write (joined, "j", 1) != 1 || setitimer (ITIMER_REAL, &alarm, nullptr))
    _exit (1);
  tps_rank_memory_close_door (memory);
  sum_in_place_until_an_error (tps_shared_sum_new (memory, arena), 1);
  _exit (1);
}

/* The process may end anywhere: before a call, between the meetings of a call, or in a range. */
TEST (SharedSum, ARankThatDiesWhileDataAreReducedInPlaceIsNamed)
{
  for (gint64 alarm_us = 500; alarm_us < 20000; alarm_us += 1700)
    {
      std::vector<TpsRankArena *> arenas = make_arenas (2);
      TpsRankFileAddress address;
      TpsRankMemory *memory = tps_rank_memory_create (2, tps_shared_sum_get_n_bytes (2), &address);
      std::unique_ptr<TpsSharedSum, SumFree> mine;
      GError *error;
      char letter;
      int joined[2], status;
      pid_t pid;

      ASSERT_EQ (pipe (joined), 0);
      pid = fork ();
      if (pid == 0)
        sum_until_an_alarm (&address, arenas[1], alarm_us, joined[1]);
      close (joined[1]);
      ASSERT_EQ (read (joined[0], &letter, 1), 1);
      tps_rank_memory_close_door (memory);
      mine.reset (tps_shared_sum_new (memory, arenas[0]));
      error = sum_in_place_until_an_error (mine.get (), 0);
      EXPECT_STREQ (error->message, "rank 1: its process has ended");
      g_error_free (error);
      tps_rank_arena_unref (arenas[1]);
      close (joined[0]);
      ASSERT_EQ (waitpid (pid, &status, 0), pid);
      EXPECT_TRUE (WIFSIGNALED (status) && WTERMSIG (status) == SIGALRM) << status;
    }
}

/* -- limits -- */

/* Creates an arena in a child process with this limit. Returns the exit status of the process,
 * which is 0 if the creation is refused. */
int
make_arena_under_limit (decltype (RLIMIT_AS) resource, rlim_t limit)
{
  pid_t pid = fork ();
  int status = -1;

  if (pid == 0)
    {
      const rlimit limits = { limit, limit };
      TpsRankFileAddress address;

      if (setrlimit (resource, &limits) != 0)
        _exit (2);
      _exit (tps_rank_arena_new (0, 2, &address) == nullptr ? 0 : 1);
    }
  EXPECT_EQ (waitpid (pid, &status, 0), pid);
  return status;
}

/* The system would terminate a process whose file exceeds the limit of file sizes. With a limit of
 * addresses, the parts of the arena could use all of them. */
TEST (ArenaLimits, ThereIsNoArenaUnderALimitOfFileSizesOrOfAddresses)
{
  EXPECT_EQ (make_arena_under_limit (RLIMIT_FSIZE, rlim_t (1) << 30), 0);
  EXPECT_EQ (make_arena_under_limit (RLIMIT_AS, rlim_t (1) << 46), 0);
  EXPECT_NE (make_arena_under_limit (RLIMIT_NOFILE, 100), 0) << "this is no such limit";
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

TEST (RankMemory, IsOpenedOnlyWithTheRightTokenAndSize)
{
  TpsRankFileAddress address, other;
  g_autoptr (TpsRankMemory) memory = tps_rank_memory_create (2, 100, &address);

  ASSERT_NE (memory, nullptr);
  other = address;
  other.token++;
  EXPECT_EQ (tps_rank_memory_open (&other, 1, 2, 100), nullptr);
  EXPECT_EQ (tps_rank_memory_open (&address, 1, 2, 101), nullptr);
  tps_rank_memory_close_door (memory);
  EXPECT_EQ (tps_rank_memory_open (&address, 1, 2, 100), nullptr);
}

/* With vm.memfd_noexec, the system itself seals every new file against execution. */
TEST (RankFile, IsOpenedWithASealOfTheSystem)
{
  constexpr unsigned NOEXEC_SEAL = 8; /* MFD_NOEXEC_SEAL, since Linux 6.3 */
  constexpr guint64 TOKEN = 77;
  int fd = memfd_create ("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING | NOEXEC_SEAL);
  TpsRankFileAddress address = { (guint64) getpid () << 32 | (guint32) fd, TOKEN };
  int opened;

  if (fd < 0)
    GTEST_SKIP () << "needs Linux 6.3";
  ASSERT_EQ (ftruncate (fd, 4096), 0);
  ASSERT_EQ (pwrite (fd, &TOKEN, sizeof TOKEN, 0), (ssize_t) sizeof TOKEN);
  EXPECT_EQ (tps_rank_file_open (&address, 4096), -1) << "it could shrink";
  ASSERT_EQ (fcntl (fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  opened = tps_rank_file_open (&address, 4096);
  EXPECT_GE (opened, 0);
  close (opened);
  close (fd);
}

/* Opens the memory as rank 1 in a child process. The child exits at once and is not reaped. */
pid_t
make_zombie (const TpsRankFileAddress *address)
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
  TpsRankFileAddress address;
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
