/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ports/process_group.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/float16/float16.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fakes.h"

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string
all_reduce (TpsProcessGroup *group, std::vector<float> *data)
{
  return all_reduce (group, data->data (), data->size ());
}

std::string
average (TpsProcessGroup *group, TpsAverage *average)
{
  Waiter waiter;

  group->ops->average (group, average, Waiter::done, &waiter);
  return waiter.wait ();
}

std::string
all_gather (TpsProcessGroup *group, const std::string &mine, std::vector<gsize> *counts,
            std::string *all)
{
  Waiter waiter;
  TpsBuffer *gathered = nullptr;

  counts->resize (group->size);
  group->ops->all_gather_bytes (group, mine.data (), mine.size (), counts->data (), &gathered,
                                Waiter::done, &waiter);
  std::string error = waiter.wait ();
  if (gathered != nullptr)
    {
      gsize n = std::accumulate (counts->begin (), counts->end (), gsize (0));

      *all = std::string (reinterpret_cast<char *> (tps_buffer_get_data (gathered)), n);
      tps_buffer_unref (gathered);
    }
  return error;
}

float
element (guint rank, size_t i)
{
  return std::sin (static_cast<float> (i) * 0.37f + static_cast<float> (rank) * 1.7f) * 1000.0f;
}

class GlooRanks : public testing::TestWithParam<guint>
{
};

/* Repeats the averaging server's arithmetic: product and sum are rounded to float, followed by one
 * division and one rounding. */
std::vector<guint16>
expected_average (TpsDType dtype, const std::vector<std::vector<guint16>> &data,
                  const std::vector<double> &weights, double divisor)
{
  bool is_fp16 = dtype == TPS_DTYPE_FLOAT16;
  std::vector<guint16> expected (data[0].size ());

  for (size_t i = 0; i < expected.size (); i++)
    {
      float sum = 0;
      bool has_sum = false;

      for (size_t r = 0; r < data.size (); r++)
        {
          float wide = is_fp16 ? tps_float16_to_float (data[r][i])
                               : tps_bfloat16_to_float (data[r][i]);
          float product = static_cast<float> (weights[r] * static_cast<double> (wide));

          if (weights[r] == 0)
            continue;
          sum = has_sum ? sum + product : product;
          has_sum = true;
        }
      sum = sum / static_cast<float> (divisor);
      expected[i] = is_fp16 ? tps_float16_from_float (sum) : tps_bfloat16_from_float (sum);
    }
  return expected;
}

TEST_P (GlooRanks, AverageOfHalfFloatsHasTheBitsOfTheServer)
{
  guint n_ranks = GetParam ();
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (n_ranks);

  for (TpsDType dtype : { TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
    for (bool delivers_sum : { false, true })
      for (size_t n : { size_t (0), size_t (1), size_t (7), size_t (1000), size_t (1000003) })
        {
          std::vector<std::vector<guint16>> data (n_ranks, std::vector<guint16> (n));
          std::vector<double> weights (n_ranks, 1.0);
          double sum;

          weights[1] = n == 7 ? 0 : n == 1000 ? 2 : 1; /* a weight of 0, 2 or 1 */
          sum = std::accumulate (weights.begin (), weights.end (), 0.0);
          for (guint r = 0; r < n_ranks; r++)
            for (size_t i = 0; i < n; i++)
              data[r][i] = dtype == TPS_DTYPE_FLOAT16 ? tps_float16_from_float (element (r, i))
                                                      : tps_bfloat16_from_float (element (r, i));
          std::vector<guint16> expected = expected_average (dtype, data, weights,
                                                            delivers_sum ? 1 : sum);
          run_ranks (n_ranks, [&] (guint r) {
            TpsAverage mine = { dtype, data[r].data (), n, weights[r], delivers_sum };

            EXPECT_EQ (average (groups[r], &mine), "");
            EXPECT_EQ (mine.weight, sum);
          });
          for (guint r = 0; r < n_ranks; r++)
            EXPECT_EQ (data[r], expected) << n << " elements, rank " << r;
        }
  free_groups (groups);
}

TEST_P (GlooRanks, AnAverageWithoutDataHasWeightZero)
{
  guint n_ranks = GetParam ();
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (n_ranks);

  run_ranks (n_ranks, [&] (guint r) {
    std::vector<guint16> data (100);
    TpsAverage mine = { TPS_DTYPE_FLOAT16, data.data (), data.size (), 0, FALSE };

    EXPECT_EQ (average (groups[r], &mine), "");
    EXPECT_EQ (mine.weight, 0);
  });
  free_groups (groups);
}

TEST (Gloo, AWeightThatIsNoneBreaksTheGroup)
{
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (2);

  run_ranks (2, [&] (guint r) {
    std::vector<guint16> data (100);
    TpsAverage mine = { TPS_DTYPE_FLOAT16, data.data (), data.size (), r == 1 ? NAN : 1, FALSE };

    EXPECT_NE (average (groups[r], &mine).find ("rank 1 sent an invalid weight"),
               std::string::npos);
  });
  free_groups (groups);
}

TEST_P (GlooRanks, AllGatherTakesOtherSizesFromEachRankNoneIncluded)
{
  guint n_ranks = GetParam ();
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (n_ranks);

  run_ranks (n_ranks, [&] (guint r) {
    for (guint round = 0; round < 3; round++)
      {
        std::vector<gsize> counts;
        std::string all, expected;

        for (guint i = 0; i < n_ranks; i++)
          expected += std::string (round * i * 1000, static_cast<char> ('a' + i));
        EXPECT_EQ (all_gather (groups[r],
                               std::string (round * r * 1000, static_cast<char> ('a' + r)), &counts,
                               &all),
                   "");
        EXPECT_EQ (all, expected);
        for (guint i = 0; i < n_ranks; i++)
          EXPECT_EQ (counts[i], round * i * 1000);
      }
  });
  free_groups (groups);
}

TEST_P (GlooRanks, ManyCollectivesMayBeInTheQueue)
{
  guint n_ranks = GetParam ();
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (n_ranks);

  run_ranks (n_ranks, [&] (guint r) {
    constexpr size_t N = 40;
    std::vector<std::vector<float>> data (N, std::vector<float> (5000, 1.0f));
    std::vector<Waiter> waiters (N);

    for (size_t i = 0; i < N; i++)
      groups[r]->ops->all_reduce_f32 (groups[r], data[i].data (), data[i].size (), Waiter::done,
                                      &waiters[i]);
    for (size_t i = 0; i < N; i++)
      {
        EXPECT_EQ (waiters[i].wait (), "");
        EXPECT_EQ (data[i][4999], static_cast<float> (n_ranks));
      }
  });
  free_groups (groups);
}

INSTANTIATE_TEST_SUITE_P (Sizes, GlooRanks, testing::Values (2u, 3u, 4u));

constexpr gint64 TIMEOUT_NS = G_GINT64_CONSTANT (20000000000);
/* The timeout of tests in which a rank stays silent. It also limits the creation of the group. */
constexpr gint64 SILENCE_NS = G_GINT64_CONSTANT (4000000000);

/* The parameter is TRUE if sums use memory that the ranks share, and FALSE if they use sockets. */
class Sums : public testing::TestWithParam<bool>
{
};

INSTANTIATE_TEST_SUITE_P (Ways, Sums, testing::Bool ());

TEST_P (Sums, AreAddedInRankOrderOverManyChunksAndRounds)
{
  for (guint n_ranks : { 2u, 3u, 4u, 5u })
    {
      std::vector<TpsProcessGroup *> groups = join_gloo_groups (n_ranks, TIMEOUT_NS, GetParam ());

      run_ranks (n_ranks, [&] (guint r) {
        for (size_t round = 0; round < 20; round++)
          {
            size_t n = round < 4     ? round
                       : round == 10 ? 262144
                       : round == 11 ? 1000003
                                     : round * 331;
            std::vector<float> data (n), expected (n);

            for (size_t i = 0; i < n; i++)
              {
                data[i] = element (r, i + round);
                for (guint part = 0; part < n_ranks; part++)
                  expected[i] = part == 0 ? element (0, i + round)
                                          : expected[i] + element (part, i + round);
              }
            EXPECT_EQ (all_reduce (groups[r], &data), "");
            EXPECT_EQ (data, expected) << "rank " << r << ", round " << round;
          }
      });
      free_groups (groups);
    }
}

/* Memory of the group exists only if its ranks share memory. The results must be the same in any
 * memory. */
TEST_P (Sums, AveragesOfFloatsAreTheSameInMemoryOfTheGroup)
{
  constexpr size_t N = 200003;
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (3, TIMEOUT_NS, GetParam ());

  run_ranks (3, [&] (guint r) {
    TpsProcessGroup *group = groups[r];
    g_autoptr (TpsBuffer) memory = group->ops->get_memory (group, N * sizeof (float), nullptr);
    std::vector<float> foreign (N);

    ASSERT_TRUE (group->ops->averages_f32);
    ASSERT_EQ (memory != nullptr, GetParam ());
    for (bool placed : { false, true })
      for (bool delivers_sum : { false, true })
        {
          float *data = placed && memory != nullptr
                            ? reinterpret_cast<float *> (tps_buffer_get_data (memory))
                            : foreign.data ();
          TpsAverage mine = { TPS_DTYPE_FLOAT32, data, N, r == 2 ? 0.5 : static_cast<double> (r),
                              delivers_sum };

          for (size_t i = 0; i < N; i++)
            data[i] = element (r, i);
          ASSERT_EQ (average (group, &mine), "");
          ASSERT_EQ (mine.weight, 1.5);
          for (size_t i = 0; i < N; i++)
            ASSERT_EQ (data[i],
                       (element (1, i) + 0.5f * element (2, i)) / (delivers_sum ? 1.0f : 1.5f))
                << i;
        }
  });
  free_groups (groups);
}

TEST_P (Sums, FailAtOnceAndNameTheRankThatHasLeft)
{
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (3, TIMEOUT_NS, GetParam ());
  std::vector<float> data (100000, 1.0f), more (100000, 1.0f);
  Waiter first, second;

  groups[0]->ops->all_reduce_f32 (groups[0], data.data (), data.size (), Waiter::done, &first);
  groups[2]->ops->all_reduce_f32 (groups[2], more.data (), more.size (), Waiter::done, &second);
  groups[1]->ops->abort (groups[1]);
  groups[1]->ops->free (groups[1]);
  std::string error = first.wait () + second.wait ();
  EXPECT_NE (error.find ("GROUP_BROKEN: all-reduce on rank 0 of 3: rank "), std::string::npos)
      << error;
  EXPECT_NE (error.find (": rank 1: "), std::string::npos) << error;
  EXPECT_EQ (all_reduce (groups[0], &data).find ("GROUP_BROKEN"), 0u) << "it stays broken";
  groups[0]->ops->free (groups[0]);
  groups[2]->ops->free (groups[2]);
}

TEST_P (Sums, NameTheRankThatIsSilent)
{
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (3, SILENCE_NS, GetParam ());
  std::vector<float> data (10, 1.0f), more (10, 1.0f);
  Waiter first, second;

  groups[0]->ops->all_reduce_f32 (groups[0], data.data (), data.size (), Waiter::done, &first);
  groups[2]->ops->all_reduce_f32 (groups[2], more.data (), more.size (), Waiter::done, &second);
  std::string error = first.wait () + second.wait ();
  EXPECT_NE (error.find (": rank 1: "), std::string::npos) << error;
  EXPECT_NE (error.find ("Timed out"), std::string::npos) << error;
  for (TpsProcessGroup *group : groups)
    {
      group->ops->abort (group);
      group->ops->free (group);
    }
}

TEST_P (Sums, EndWhenTheGroupIsAborted)
{
  std::vector<TpsProcessGroup *> groups = join_gloo_groups (2, TIMEOUT_NS, GetParam ());
  std::vector<float> data (3000000, 1.0f);
  Waiter waiters[2];

  for (Waiter &waiter : waiters)
    groups[0]->ops->all_reduce_f32 (groups[0], data.data (), data.size (), Waiter::done, &waiter);
  groups[0]->ops->abort (groups[0]);
  for (Waiter &waiter : waiters)
    EXPECT_EQ (waiter.wait (), "GROUP_BROKEN: the process group was closed by this rank");
  for (TpsProcessGroup *group : groups)
    {
      group->ops->abort (group);
      group->ops->free (group);
    }
}

TEST (Gloo, FreeingWaitsUntilTheOthersHaveTheirResults)
{
  for (int round = 0; round < 10; round++)
    {
      std::vector<TpsProcessGroup *> groups = join_gloo_groups (3);

      run_ranks (3, [&] (guint r) {
        std::vector<float> data (1500000, 1.0f);

        EXPECT_EQ (all_reduce (groups[r], &data), "");
        EXPECT_EQ (data.back (), 3.0f);
        groups[r]->ops->free (groups[r]);
      });
    }
}

/* A rank that joins a group alone. */
class Joining : public testing::Test
{
protected:
  Joining ()
  {
    options.size = 2;
    options.store = store_;
    options.prefix = "pass/";
    options.timeout_ns = G_GINT64_CONSTANT (600000000000);
  }

  ~Joining () override
  {
    store_->ops->free (store_);
  }

  /* Returns the code and text of the error. */
  std::string
  refusal (const char *backend)
  {
    GError *error = nullptr;

    EXPECT_EQ (tps_process_group_new (backend, &options, &error), nullptr);
    return text_of (error);
  }

  MemoryStore shared;
  TpsProcessGroupOptions options = {};

private:
  TpsStore *store_ = shared.open ();
};

TEST_F (Joining, NamesTheRankThatDoesNotCome)
{
  options.timeout_ns = 100000000;
  EXPECT_THAT (refusal ("gloo"), AllOf (StartsWith ("DEADLINE_EXCEEDED: "),
                                        HasSubstr ("rank 1 has not joined within 100 ms")));
}

TEST_F (Joining, CanBeCancelled)
{
  std::atomic<int> n_asked = 0;

  options.is_cancelled = [] (gpointer data) -> gboolean {
    return ++*static_cast<std::atomic<int> *> (data) > 2;
  };
  options.user_data = &n_asked;
  EXPECT_THAT (refusal ("multi"), StartsWith ("ABORTED: "));
}

TEST_F (Joining, RefusesAddressesOfAWrongSizeFromTheStore)
{
  shared.put ("pass/rank_1", "host");
  shared.put ("pass/rank_2", "host");
  shared.put ("pass/1", "abc");
  options.size = 3;
  EXPECT_THAT (refusal ("gloo"), HasSubstr ("rank 1 stored 3 bytes"));
}

TEST_F (Joining, NamesBackendsThatCannotBeHad)
{
  EXPECT_EQ (refusal ("nccl"),
             "NOT_FOUND: backend 'nccl' needs a CUDA device, and this process has "
             "none; use gloo (cuda: none: turned off)");
  EXPECT_EQ (refusal ("mpi"), "NOT_FOUND: unknown backend \"mpi\"; known: gloo, multi, nccl");
}

TEST (ProcessGroup, OneRankNeedsNoBackendAndNoStore)
{
  TpsProcessGroupOptions options = {};
  GError *error = nullptr;

  options.size = 1;
  options.timeout_ns = 1000;
  TpsProcessGroup *group = tps_process_group_new ("nccl", &options, &error);
  ASSERT_NE (group, nullptr);
  EXPECT_STREQ (group->ops->name, "single");

  std::vector<float> data = { 1, 2, 3 };
  std::vector<gsize> counts;
  std::string all;
  EXPECT_EQ (all_reduce (group, &data), "");
  EXPECT_EQ (data, (std::vector<float> { 1, 2, 3 }));
  EXPECT_EQ (all_gather (group, "abc", &counts, &all), "");
  EXPECT_EQ (counts[0], 3u);
  EXPECT_EQ (all, "abc");

  group->ops->abort (group);
  EXPECT_EQ (all_reduce (group, &data).find ("GROUP_BROKEN"), 0u);
  EXPECT_EQ (all_gather (group, "abc", &counts, &all).find ("GROUP_BROKEN"), 0u);
  group->ops->free (group);
}

/* The data are in read-only memory, so a write would crash. */
TEST (ProcessGroup, OneRankDoesNotWriteAnAverageOfWeight1)
{
  static const float DATA[] = { 1, 2, 3 };
  TpsProcessGroupOptions options = {};

  options.size = 1;
  options.timeout_ns = 1000;
  TpsProcessGroup *group = tps_process_group_new ("gloo", &options, nullptr);
  ASSERT_NE (group, nullptr);
  TpsAverage mine = { TPS_DTYPE_FLOAT32, const_cast<float *> (DATA), 3, 1, FALSE };
  EXPECT_EQ (average (group, &mine), "");

  std::vector<float> data = { 1, 2, 3 };
  mine = { TPS_DTYPE_FLOAT32, data.data (), 3, 2, TRUE };
  EXPECT_EQ (average (group, &mine), "");
  EXPECT_EQ (data, (std::vector<float> { 2, 4, 6 }));
  group->ops->free (group);
}

} /* namespace */
