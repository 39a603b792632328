/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests groups on a fake NCCL and a fake CUDA runtime. Each rank is a thread with its own
 * device. */

#include "cuda/group/nccl_process_group.h"

#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/device/device.h"
#include "runtime/tensor/tensor.h"
#include "runtime/base/error.h"
#include "tests/cuda/group/fake_nccl.h"
#include "tests/cuda/host/fake_runtime.h"
#include "tests/float16/float16.h"
#include "tests/runtime/trainer/ddp/collectives.h"
#include "tests/runtime/trainer/ddp/fakes.h"

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

constexpr gint64 LONG_NS = G_GINT64_CONSTANT (30000000000);
constexpr gint64 SHORT_NS = 500000000;

const FakeNcclControls &
fake_nccl ()
{
  void *library = dlopen ("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);

  return *static_cast<const FakeNcclControls *> (dlsym (library, "fake_nccl_controls"));
}

/* Devices live until the process exits. */
TpsDevice *
device_of (guint rank)
{
  static TpsCudaDevice *const devices[] = { tps_cuda_device_new (0, &tps_cuda_ops, nullptr),
                                            tps_cuda_device_new (1, &tps_cuda_ops, nullptr) };

  return &devices[rank % 2]->parent;
}

/* Floats or raw bytes in the kind of memory that a collective uses. */
class Memory
{
public:
  enum Kind
  {
    PAGEABLE,
    PINNED,
    DEVICE,
  };

  Memory (Kind kind, TpsDevice *device, const void *values, gsize n_bytes)
      : n_bytes_ (n_bytes), stream_ (device->ops->stream_new (device, nullptr))
  {
    buffer_ = kind == PAGEABLE ? tps_buffer_new (n_bytes)
              : kind == PINNED ? device->ops->alloc_host (device, n_bytes, nullptr)
                               : device->ops->alloc (device, n_bytes, nullptr);
    device->ops->copy (stream_, get (), values, n_bytes);
  }

  ~Memory ()
  {
    stream_->device->ops->stream_free (stream_);
    tps_buffer_unref (buffer_);
  }

  Memory (const Memory &) = delete;
  Memory &operator= (const Memory &) = delete;

  gpointer
  get ()
  {
    return tps_buffer_get_data (buffer_);
  }

  void
  read (void *values)
  {
    stream_->device->ops->copy (stream_, values, get (), n_bytes_);
  }

private:
  gsize n_bytes_;
  TpsStream *stream_;
  TpsBuffer *buffer_;
};

float
element (guint rank, size_t i)
{
  return std::sin (static_cast<float> (i) * 0.37f + static_cast<float> (rank) * 1.7f) * 1000.0f;
}

class Nccl : public testing::Test
{
protected:
  void
  SetUp () override
  {
    fake_nccl ().reset ();
    fake_cuda_reset ();
  }

  void
  TearDown () override
  {
    fake_cuda_reset ();
    EXPECT_EQ (fake_nccl ().n_living (), 0) << "communicators that were not released";
  }

  TpsProcessGroupOptions
  options_of (guint rank, guint n_ranks, TpsStore *store, gint64 timeout_ns)
  {
    TpsProcessGroupOptions options = {};

    options.rank = rank;
    options.size = n_ranks;
    options.store = store;
    options.prefix = "pass/";
    options.timeout_ns = timeout_ns;
    options.device = device_of (rank);
    return options;
  }

  std::vector<TpsProcessGroup *>
  join (guint n_ranks, gint64 timeout_ns = LONG_NS)
  {
    std::vector<TpsProcessGroup *> groups (n_ranks);
    MemoryStore shared;

    device_of (0);
    run_ranks (n_ranks, [&] (guint rank) {
      TpsStore *store = shared.open ();
      TpsProcessGroupOptions options = options_of (rank, n_ranks, store, timeout_ns);
      GError *error = nullptr;

      groups[rank] = tps_nccl_groups.group_new (&options, &error);
      if (groups[rank] == nullptr)
        g_error ("rank %u: %s", rank, error->message);
      store->ops->free (store);
    });
    return groups;
  }

  /* Joins with one rank, which must fail. Returns the error as "code: text". */
  std::string
  join_alone (TpsProcessGroupOptions options, MemoryStore *shared)
  {
    TpsStore *store = shared->open ();
    GError *error = nullptr;

    options.store = store;
    EXPECT_EQ (tps_nccl_groups.group_new (&options, &error), nullptr);
    store->ops->free (store);
    std::string text = std::string (tps_error_code_name (error->code)) + ": " + error->message;
    g_error_free (error);
    return text;
  }
};

/* -- joining -- */

TEST_F (Nccl, CommunicatorsNeverBlock)
{
  free_groups (join (3));
  EXPECT_FALSE (fake_nccl ().was_blocking ());
  EXPECT_EQ (fake_nccl ().n_aborted (), 0);
}

TEST_F (Nccl, JoiningNamesTheRankThatDoesNotCome)
{
  MemoryStore shared;

  shared.put ("pass/nccl_rank_1", "");
  EXPECT_EQ (join_alone (options_of (0, 3, nullptr, SHORT_NS), &shared),
             "DEADLINE_EXCEEDED: process group: rank 2 has not joined within 500 ms");
}

TEST_F (Nccl, JoiningEndsAtTheDeadlineWhenNcclDoesNotConnect)
{
  MemoryStore shared;

  fake_nccl ().stall_joining ();
  shared.put ("pass/nccl_rank_1", "");
  EXPECT_EQ (join_alone (options_of (0, 2, nullptr, SHORT_NS), &shared),
             "DEADLINE_EXCEEDED: process group: rank 0 of 2 on cuda:0: joining: not done "
             "within 500 ms");
  EXPECT_EQ (fake_nccl ().n_aborted (), 1);
}

TEST_F (Nccl, JoiningCanBeCancelledWhileNcclConnects)
{
  MemoryStore shared;
  TpsProcessGroupOptions options = options_of (0, 2, nullptr, LONG_NS * 1000);
  std::atomic<int> n_asked = 0;

  fake_nccl ().stall_joining ();
  shared.put ("pass/nccl_rank_1", "");
  options.is_cancelled = [] (gpointer data) -> gboolean {
    return ++*static_cast<std::atomic<int> *> (data) > 9;
  };
  options.user_data = &n_asked;
  EXPECT_THAT (join_alone (options, &shared), StartsWith ("ABORTED: "));
}

TEST_F (Nccl, ErrorsIncludeTheMessageOfNccl)
{
  MemoryStore shared;

  shared.put ("pass/nccl_rank_1", "");
  fake_nccl ().fail ("ncclCommInitRankConfig", ncclSystemError);
  fake_nccl ().break_all (ncclSuccess, "Call to connect failed");
  EXPECT_EQ (join_alone (options_of (0, 2, nullptr, LONG_NS), &shared),
             "GROUP_BROKEN: process group: rank 0 of 2 on cuda:0: joining: NCCL: an error "
             "of the fake (Call to connect failed)");
}

/* NCCL does not use the pool, and reports a lack of memory as a CUDA error. So the pool must be
 * trimmed before a second attempt. */
TEST_F (Nccl, ACommunicatorWithoutMemoryIsCreatedOnceMoreAfterThePoolWasTrimmed)
{
  TpsProcessGroupOptions options = options_of (0, 1, nullptr, LONG_NS);

  for (int n_trims : { 2, 3 }) /* one trim before each attempt */
    {
      if (n_trims == 2)
        fake_nccl ().fail ("ncclCommInitRankConfig", ncclUnhandledCudaError);
      TpsProcessGroup *group = tps_nccl_groups.group_new (&options, nullptr);
      ASSERT_NE (group, nullptr);
      EXPECT_EQ (fake_cuda_count_calls ("cudaMemPoolTrimTo"), n_trims);
      group->ops->free (group);
    }
}

TEST_F (Nccl, AnIdOfAnotherSizeIsRefused)
{
  MemoryStore shared;

  shared.put ("pass/nccl_rank_0", "short");
  EXPECT_THAT (join_alone (options_of (1, 2, nullptr, LONG_NS), &shared),
               AllOf (StartsWith ("INVALID_ARGUMENT: "), HasSubstr ("5 bytes")));
}

TEST_F (Nccl, OneRankNeedsNoStore)
{
  TpsProcessGroupOptions options = options_of (0, 1, nullptr, LONG_NS);
  TpsProcessGroup *group = tps_nccl_groups.group_new (&options, nullptr);
  float values[3] = { 1, 2, 3 };
  Memory data (Memory::DEVICE, device_of (0), values, sizeof values);

  ASSERT_NE (group, nullptr);
  EXPECT_EQ (all_reduce (group, data.get (), 3), "");
  data.read (values);
  EXPECT_EQ (values[2], 3);
  group->ops->free (group);
}

/* -- collectives -- */

class NcclMemory : public Nccl, public testing::WithParamInterface<Memory::Kind>
{
};

INSTANTIATE_TEST_SUITE_P (Kinds, NcclMemory,
                          testing::Values (Memory::PAGEABLE, Memory::PINNED, Memory::DEVICE));

TEST_P (NcclMemory, AllReduceAddsArraysOfAnySize)
{
  constexpr guint n_ranks = 3;
  std::vector<TpsProcessGroup *> groups = join (n_ranks);

  /* The largest sizes need several segments. For one of them, the last segment has a single
   * element. */
  for (size_t n :
       { size_t (0), size_t (1), size_t (7), size_t (1000), size_t (1 << 20), size_t (2200001) })
    {
      std::vector<std::vector<float>> values (n_ranks, std::vector<float> (n));
      std::vector<float> expected (n);

      for (guint r = 0; r < n_ranks; r++)
        for (size_t i = 0; i < n; i++)
          {
            values[r][i] = static_cast<float> ((i * 7 + r * 3) % 1013) * 0.37f;
            expected[i] += values[r][i];
          }
      run_ranks (n_ranks, [&] (guint r) {
        Memory data (GetParam (), device_of (r), values[r].data (), n * sizeof (float));

        EXPECT_EQ (all_reduce (groups[r], data.get (), n), "");
        data.read (values[r].data ());
        EXPECT_EQ (values[r], expected) << n << " elements, rank " << r;
      });
    }
  free_groups (groups);
}

/* Computes as the averaging server does: product and sum rounded to float, one division, one
 * rounding. */
guint16
expected_average (TpsDType dtype, size_t i, const std::vector<double> &weights, double divisor)
{
  bool is_fp16 = dtype == TPS_DTYPE_FLOAT16;
  bool has_sum = false;
  float sum = 0;

  for (guint r = 0; r < weights.size (); r++)
    {
      float wide = is_fp16 ? tps_float16_to_float (tps_float16_from_float (element (r, i)))
                           : tps_bfloat16_to_float (tps_bfloat16_from_float (element (r, i)));
      float product = static_cast<float> (weights[r] * static_cast<double> (wide));

      if (weights[r] == 0)
        continue;
      sum = has_sum ? sum + product : product;
      has_sum = true;
    }
  sum = sum / static_cast<float> (divisor);
  return is_fp16 ? tps_float16_from_float (sum) : tps_bfloat16_from_float (sum);
}

TEST_P (NcclMemory, AverageOfHalfFloatsHasTheBitsOfTheServer)
{
  constexpr guint n_ranks = 3;
  std::vector<TpsProcessGroup *> groups = join (n_ranks);

  for (TpsDType dtype : { TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
    for (bool delivers_sum : { false, true })
      for (size_t n :
           { size_t (0), size_t (1), size_t (7), size_t (1000),
             size_t (delivers_sum || dtype == TPS_DTYPE_BFLOAT16 ? 10
                                                                 : 700001) /* two segments */ })
        {
          std::vector<double> weights (n_ranks, 1.0);
          double sum;

          weights[1] = n == 7 ? 0 : n == 1000 ? 2 : 1; /* no weight or a double weight */
          sum = std::accumulate (weights.begin (), weights.end (), 0.0);
          std::vector<guint16> expected (n);
          for (size_t i = 0; i < n; i++)
            expected[i] = expected_average (dtype, i, weights, delivers_sum ? 1 : sum);
          run_ranks (n_ranks, [&] (guint r) {
            std::vector<guint16> values (n);
            Waiter waiter;

            for (size_t i = 0; i < n; i++)
              values[i] = dtype == TPS_DTYPE_FLOAT16 ? tps_float16_from_float (element (r, i))
                                                     : tps_bfloat16_from_float (element (r, i));
            Memory data (GetParam (), device_of (r), values.data (), n * 2);
            TpsAverage mine = { dtype, data.get (), n, weights[r], delivers_sum };

            groups[r]->ops->average (groups[r], &mine, Waiter::done, &waiter);
            EXPECT_EQ (waiter.wait (), "");
            EXPECT_EQ (mine.weight, sum);
            data.read (values.data ());
            EXPECT_EQ (values, expected) << n << " elements, rank " << r;
          });
        }
  free_groups (groups);
}

TEST_P (NcclMemory, GathersBytesOfAnySizesInRankOrder)
{
  constexpr guint n_ranks = 4;
  const gsize sizes[n_ranks] = { 5, 0, (9 << 20) + 1, 1 };
  std::vector<TpsProcessGroup *> groups = join (n_ranks);
  std::string expected;

  for (guint p = 0; p < n_ranks; p++)
    expected += std::string (sizes[p], static_cast<char> ('a' + p));
  run_ranks (n_ranks, [&] (guint r) {
    std::string mine (sizes[r], static_cast<char> ('a' + r));
    Memory data (GetParam (), device_of (r), mine.data (), mine.size ());
    std::vector<gsize> counts (n_ranks);
    TpsBuffer *all = nullptr;
    Waiter waiter;

    groups[r]->ops->all_gather_bytes (groups[r], data.get (), mine.size (), counts.data (), &all,
                                      Waiter::done, &waiter);
    ASSERT_EQ (waiter.wait (), "");
    EXPECT_THAT (counts, testing::ElementsAreArray (sizes));
    ASSERT_EQ (tps_buffer_get_size (all), expected.size ());
    EXPECT_EQ (memcmp (tps_buffer_get_data (all), expected.data (), expected.size ()), 0);
    tps_buffer_unref (all);
  });
  free_groups (groups);
}

TEST_F (Nccl, NothingGathersToNothing)
{
  std::vector<TpsProcessGroup *> groups = join (2);

  run_ranks (2, [&] (guint r) {
    gsize counts[2] = { 9, 9 };
    TpsBuffer *all = nullptr;
    Waiter waiter;

    groups[r]->ops->all_gather_bytes (groups[r], nullptr, 0, counts, &all, Waiter::done, &waiter);
    ASSERT_EQ (waiter.wait (), "");
    EXPECT_EQ (counts[0] + counts[1], 0u);
    EXPECT_EQ (tps_buffer_get_size (all), 0u);
    tps_buffer_unref (all);
  });
  free_groups (groups);
}

TEST_F (Nccl, AnAverageOfNothingLeavesTheDataAlone)
{
  std::vector<TpsProcessGroup *> groups = join (2);

  run_ranks (2, [&] (guint r) {
    std::vector<guint16> data (100, 42);
    TpsAverage mine = { TPS_DTYPE_FLOAT16, data.data (), data.size (), 0, FALSE };
    Waiter waiter;

    groups[r]->ops->average (groups[r], &mine, Waiter::done, &waiter);
    EXPECT_EQ (waiter.wait (), "");
    EXPECT_EQ (mine.weight, 0);
    EXPECT_EQ (data[99], 42);
  });
  free_groups (groups);
}

TEST_F (Nccl, ManyJobsRunInTheOrderTheyWereQueued)
{
  constexpr guint n_jobs = 50;
  std::vector<TpsProcessGroup *> groups = join (2);

  run_ranks (2, [&] (guint r) {
    std::vector<std::vector<float>> data (n_jobs);
    std::vector<Waiter> waiters (n_jobs);

    /* The sizes of the jobs differ, because the fake refuses different sizes within one collective.
     * So it would detect jobs in a different order. */
    for (guint i = 0; i < n_jobs; i++)
      {
        data[i].assign (i + 1, static_cast<float> (i));
        groups[r]->ops->all_reduce_f32 (groups[r], data[i].data (), i + 1, Waiter::done,
                                        &waiters[i]);
      }
    for (guint i = 0; i < n_jobs; i++)
      {
        EXPECT_EQ (waiters[i].wait (), "");
        EXPECT_EQ (data[i][i], 2 * static_cast<float> (i));
      }
  });
  free_groups (groups);
}

TEST_F (Nccl, ASumWaitsForTheEventOfItsData)
{
  std::vector<TpsProcessGroup *> groups = join (2);

  run_ranks (2, [&] (guint r) {
    TpsDevice *device = device_of (r);
    TpsStream *stream = device->ops->stream_new (device, nullptr);
    TpsEvent *event = device->ops->event_new (device, nullptr);
    float values[2] = { 1, 2 };
    Memory data (Memory::DEVICE, device, values, sizeof values);
    Waiter waiter;

    device->ops->fill (stream, TPS_DTYPE_FLOAT32, data.get (), 5, 2);
    device->ops->event_record (event, stream);
    groups[r]->ops->all_reduce_f32_after (groups[r], event, static_cast<gfloat *> (data.get ()), 2,
                                          Waiter::done, &waiter);
    EXPECT_EQ (waiter.wait (), "");
    data.read (values);
    EXPECT_EQ (values[1], 10);
    device->ops->event_free (event);
    device->ops->stream_free (stream);
  });
  free_groups (groups);
}

TEST_F (Nccl, DataThatCouldNotBeMadeBreaksTheGroup)
{
  TpsProcessGroupOptions options = options_of (0, 1, nullptr, LONG_NS);
  TpsProcessGroup *group = tps_nccl_groups.group_new (&options, nullptr);
  TpsDevice *device = device_of (0);
  TpsStream *stream = device->ops->stream_new (device, nullptr);
  TpsEvent *event = device->ops->event_new (device, nullptr);
  float values[2] = { 1, 2 };
  Memory data (Memory::DEVICE, device, values, sizeof values);
  Waiter waiter;

  fake_cuda_fail ("cudaMemsetAsync", cudaErrorInvalidValue, false);
  device->ops->zero (stream, data.get (), sizeof values);
  device->ops->event_record (event, stream);
  group->ops->all_reduce_f32_after (group, event, static_cast<gfloat *> (data.get ()), 2,
                                    Waiter::done, &waiter);
  EXPECT_THAT (waiter.wait (),
               AllOf (StartsWith ("GROUP_BROKEN: all-reduce on rank 0"), HasSubstr ("zero")));
  group->ops->free (group);
  device->ops->event_free (event);
  device->ops->stream_free (stream);
}

/* -- failures -- */

TEST_F (Nccl, APeerThatDoesNotComeEndsItAtTheDeadlineForBoth)
{
  std::vector<TpsProcessGroup *> groups = join (2, SHORT_NS);
  std::vector<float> data (10);

  EXPECT_EQ (all_reduce (groups[0], data.data (), 10),
             "GROUP_BROKEN: all-reduce on rank 0 of 2: all-reduce: not done within 500 ms");
  EXPECT_THAT (all_reduce (groups[1], data.data (), 10),
               AllOf (StartsWith ("GROUP_BROKEN: all-reduce on rank 1 of 2: "),
                      HasSubstr ("rank 0 is gone")));
  EXPECT_THAT (all_reduce (groups[0], data.data (), 10), HasSubstr ("not done within 500 ms"))
      << "the first failure, every time";
  free_groups (groups);
  EXPECT_EQ (fake_nccl ().n_aborted (), 2);
}

TEST_F (Nccl, APeerThatIsLostWhileTheDeviceWorksIsNoticed)
{
  TpsProcessGroupOptions options = options_of (0, 1, nullptr, LONG_NS);
  TpsProcessGroup *group = tps_nccl_groups.group_new (&options, nullptr);
  std::vector<float> data (10);
  Waiter waiter;

  EXPECT_EQ (all_reduce (group, data.data (), 10), "");
  fake_cuda_hold_events (true);
  group->ops->all_reduce_f32 (group, data.data (), 10, Waiter::done, &waiter);
  fake_nccl ().break_all (ncclRemoteError, "socket closed by 10.0.0.7");
  EXPECT_THAT (waiter.wait (),
               HasSubstr ("NCCL: remote process exited (socket closed by 10.0.0.7)"));
  group->ops->free (group);
  EXPECT_EQ (fake_nccl ().n_aborted (), 1);
}

TEST_F (Nccl, TheDeadlineAlsoCountsWhileTheDeviceWorks)
{
  TpsProcessGroupOptions options = options_of (0, 1, nullptr, SHORT_NS);
  TpsProcessGroup *group = tps_nccl_groups.group_new (&options, nullptr);
  std::vector<float> data (10);
  Waiter waiter;

  fake_cuda_hold_events (true);
  group->ops->all_reduce_f32 (group, data.data (), 10, Waiter::done, &waiter);
  EXPECT_THAT (waiter.wait (), HasSubstr ("not done within 500 ms"));
  group->ops->free (group);
}

TEST_F (Nccl, AbortEndsPendingCollectives)
{
  std::vector<TpsProcessGroup *> groups = join (2);
  std::vector<float> data (10);
  Waiter first, second;

  groups[0]->ops->all_reduce_f32 (groups[0], data.data (), 10, Waiter::done, &first);
  groups[0]->ops->all_reduce_f32 (groups[0], data.data (), 10, Waiter::done, &second);
  groups[0]->ops->abort (groups[0]);
  EXPECT_EQ (first.wait (), "GROUP_BROKEN: the process group was closed by this rank");
  EXPECT_EQ (second.wait (), "GROUP_BROKEN: the process group was closed by this rank");
  groups[0]->ops->free (groups[0]);
  EXPECT_THAT (all_reduce (groups[1], data.data (), 10), HasSubstr ("rank 0 is gone"));
  groups[1]->ops->free (groups[1]);
}

TEST_F (Nccl, CollectivesInAnotherOrderAreAnErrorAndNoHang)
{
  std::vector<TpsProcessGroup *> groups = join (2);

  run_ranks (2, [&] (guint r) {
    std::vector<float> data (10 + r);

    EXPECT_THAT (all_reduce (groups[r], data.data (), data.size ()),
                 StartsWith ("GROUP_BROKEN: all-reduce on rank"));
  });
  free_groups (groups);
}

TEST_F (Nccl, AFailedGatherLeavesNoBuffer)
{
  TpsProcessGroupOptions options = options_of (0, 1, nullptr, LONG_NS);
  TpsProcessGroup *group = tps_nccl_groups.group_new (&options, nullptr);
  TpsBuffer *all = nullptr;
  gsize count;
  Waiter waiter;

  fake_nccl ().fail ("ncclBroadcast", ncclInternalError);
  group->ops->all_gather_bytes (group, "abc", 3, &count, &all, Waiter::done, &waiter);
  EXPECT_THAT (waiter.wait (), HasSubstr ("all-gather on rank 0 of 1: broadcast: NCCL: "));
  EXPECT_EQ (all, nullptr);
  group->ops->free (group);
}

TEST_F (Nccl, WithoutMemoryForStagingTheGroupIsBrokenAndTheDeviceLives)
{
  TpsProcessGroupOptions options = options_of (0, 1, nullptr, LONG_NS);
  TpsProcessGroup *group = tps_nccl_groups.group_new (&options, nullptr);
  std::vector<float> data (10);

  fake_cuda_fail ("cudaHostAlloc", cudaErrorMemoryAllocation, false);
  EXPECT_THAT (all_reduce (group, data.data (), 10), HasSubstr ("no page-locked memory"));
  group->ops->free (group);
  group = tps_nccl_groups.group_new (&options, nullptr);
  EXPECT_EQ (all_reduce (group, data.data (), 10), "");
  group->ops->free (group);
}

/* The deadline is far away, so only an abort can end the wait of the other rank. */
TEST_F (Nccl, ALostDeviceAbortsTheOtherRanksAtOnce)
{
  static TpsCudaDevice *const lost = tps_cuda_device_new (3, &tps_cuda_ops, nullptr);
  std::vector<TpsProcessGroup *> groups (2);
  std::vector<float> data (10);
  MemoryStore shared;

  run_ranks (2, [&] (guint rank) {
    TpsStore *store = shared.open ();
    TpsProcessGroupOptions options = options_of (rank, 2, store, LONG_NS);

    if (rank == 0)
      options.device = &lost->parent;
    groups[rank] = tps_nccl_groups.group_new (&options, nullptr);
    store->ops->free (store);
  });
  tps_cuda_device_check (lost, cudaErrorIllegalAddress, "a kernel", nullptr);
  EXPECT_THAT (all_reduce (groups[0], data.data (), 10),
               HasSubstr ("cuda:3: the device was lost earlier"));
  EXPECT_THAT (all_reduce (groups[1], data.data (), 10), HasSubstr ("rank 0 is gone"));
  free_groups (groups);
  EXPECT_EQ (fake_nccl ().n_aborted (), 2);
}

TEST_F (Nccl, AFailedFinalizationAborts)
{
  TpsProcessGroupOptions options = options_of (0, 1, nullptr, LONG_NS);
  TpsProcessGroup *group = tps_nccl_groups.group_new (&options, nullptr);

  fake_nccl ().break_all (ncclSystemError, "gone");
  group->ops->free (group);
  EXPECT_EQ (fake_nccl ().n_aborted (), 1);
}

} /* namespace */
