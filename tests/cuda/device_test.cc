/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the device's host code on a fake CUDA runtime, which can be told to fail. */

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/device/device.h"
#include "cuda/device/search.h"
#include "cuda/kernels/geometry.h"
#include "runtime/base/error.h"
#include "tests/cuda/host/fake_runtime.h"

using testing::HasSubstr;

namespace {

/* Devices are never freed. The list keeps them reachable for the leak checker. */
TpsDevice *
make_device (gint ordinal)
{
  static auto *all = new std::vector<TpsCudaDevice *>;
  GError *error = nullptr;

  all->push_back (tps_cuda_device_new (ordinal, &tps_cuda_ops, &error));
  g_assert_no_error (error);
  return &all->back ()->parent;
}

/* This must be the first test, because the others start devices. CUDA would create a context on the
 * current device. */
TEST (BeforeAnyDevice, AQueryOfAMemoryPlaceStartsNoDevice)
{
  float value = 0;

  fake_cuda_set_current (8);
  EXPECT_EQ (tps_cuda_place_of (&value), TPS_CUDA_PLACE_PAGEABLE);
  EXPECT_FALSE (fake_cuda_has_context (8));
}

class Device : public testing::Test
{
protected:
  void
  SetUp () override
  {
    fake_cuda_reset ();
    device = make_device (0);
    stream = device->ops->stream_new (device, &error);
    g_assert_no_error (error);
  }
  void
  TearDown () override
  {
    fake_cuda_reset ();
    device->ops->stream_free (stream);
    g_clear_error (&error);
  }

  // Returns the failure that waiting for a stream reports, or "" if there is none.
  std::string
  failure_of (TpsStream *which)
  {
    std::string text;

    g_clear_error (&error);
    if (!device->ops->stream_sync (which, &error))
      {
        EXPECT_EQ (error->code, TPS_ERROR_DEVICE_LOST);
        text = error->message;
      }
    return text;
  }
  void
  add (TpsStream *which)
  {
    float sum[2] = { 1, 2 }, gradient[2] = { 3, 4 };

    device->ops->accumulate (which, TPS_DTYPE_FLOAT32, sum, gradient, 2);
    n_added += sum[1] == 6;
  }
  // Adds the rows of two ids, in scratch memory.
  void
  sum_rows ()
  {
    gint64 ids[3] = { 5, 5, 1 }, unique[3];
    float rows[3] = { 1, 2, 3 }, sums[3];
    TpsBags bags {};

    bags.rows = 6;
    bags.dim = 1;
    bags.indices = ids;
    bags.n_indices = bags.n_bags = 3;
    bags.pooling = TPS_POOLING_SUM;
    device->ops->embedding_backward_rows (stream, &bags, rows, unique, sums, &n_found);
  }

  TpsDevice *device;
  TpsStream *stream;
  GError *error = nullptr;
  int n_added = 0;
  gint64 n_found = 9; /* by sum_rows() */
};

TEST_F (Device, ARefusedCallMakesTheStreamBadAndNoOther)
{
  float values[2] = { 1, 2 };
  TpsStream *other = device->ops->stream_new (device, &error);

  fake_cuda_fail ("cudaMemsetAsync", cudaErrorInvalidValue, false);
  device->ops->zero (stream, values, sizeof values);
  add (stream);
  EXPECT_EQ (n_added, 0) << "a bad stream does nothing more";
  EXPECT_THAT (failure_of (stream), HasSubstr ("cuda:0: zero: "));
  EXPECT_THAT (failure_of (stream), HasSubstr ("cuda:0: zero: ")) << "the first, every time";
  add (other);
  EXPECT_EQ (n_added, 1);
  EXPECT_EQ (failure_of (other), "");
  device->ops->stream_free (other);
}

TEST_F (Device, APermanentErrorLosesTheDeviceForEveryStreamAndForMemory)
{
  TpsStream *other = device->ops->stream_new (device, &error);

  fake_cuda_fail ("cudaEventQuery", cudaErrorIllegalAddress, true);
  EXPECT_THAT (failure_of (stream), HasSubstr ("waiting for a stream"));
  fake_cuda_reset (); /* the device must stay lost even if CUDA works again */
  EXPECT_THAT (failure_of (other),
               HasSubstr ("cuda:0: the device was lost earlier: waiting for a stream"));
  EXPECT_EQ (device->ops->alloc (device, 8, &error), nullptr);
  EXPECT_EQ (device->ops->stream_new (device, nullptr), nullptr);
  EXPECT_EQ (device->ops->event_new (device, nullptr), nullptr);
  EXPECT_EQ (tps_error_to_wire_code (error), TPS_ERROR_UNAVAILABLE - TPS_ERROR_WIRE_BASE);
  device->ops->stream_free (other);
}

TEST_F (Device, AnotherDeviceOutlivesADeadOne)
{
  TpsDevice *second = make_device (1);

  fake_cuda_fail ("cudaEventQuery", cudaErrorECCUncorrectable, true);
  EXPECT_NE (failure_of (stream), "");
  fake_cuda_reset ();
  TpsStream *living = second->ops->stream_new (second, nullptr);
  ASSERT_NE (living, nullptr);
  add (living);
  EXPECT_EQ (n_added, 1);
  EXPECT_EQ (failure_of (living), "");
  second->ops->stream_free (living);
}

TEST_F (Device, WithoutMemoryTheRequestFailsAndTheDeviceLives)
{
  for (bool is_host : { false, true })
    {
      fake_cuda_fail_for (is_host ? "cudaHostAlloc" : "cudaMallocAsync", cudaErrorMemoryAllocation,
                          is_host ? 1 : 2);
      g_clear_error (&error);
      EXPECT_EQ ((is_host ? device->ops->alloc_host : device->ops->alloc) (device, 77, &error),
                 nullptr);
      ASSERT_NE (error, nullptr);
      EXPECT_EQ (error->code, TPS_ERROR_RESOURCE_EXHAUSTED);
      EXPECT_THAT (error->message, HasSubstr ("77 bytes"));
    }
  EXPECT_EQ (failure_of (stream), "");
}

TEST_F (Device, WithoutScratchMemoryTheStreamIsBadAndCountsAreZero)
{
  fake_cuda_fail_for ("cudaMallocAsync", cudaErrorMemoryAllocation, 2);
  sum_rows ();
  EXPECT_FALSE (device->ops->stream_check (stream, &error));
  EXPECT_THAT (error->message, HasSubstr ("embedding_backward_rows"));
  g_clear_error (&error);
  EXPECT_EQ (tps_device_read_count (stream, &n_found), 0u);
  EXPECT_THAT (failure_of (stream), HasSubstr ("embedding_backward_rows"));
}

TEST_F (Device, AnEventPassesTheFailureOfItsStreamToItsWaiters)
{
  TpsStream *other = device->ops->stream_new (device, &error);
  TpsEvent *event = device->ops->event_new (device, &error);
  float value;

  fake_cuda_fail ("cudaMemcpyAsync", cudaErrorInvalidValue, false);
  device->ops->copy (stream, &value, &value, 0);
  device->ops->copy (stream, &value, rand () >= 0 ? &n_added : nullptr, 4);
  device->ops->event_record (event, stream);
  EXPECT_FALSE (device->ops->event_sync (event, &error));
  EXPECT_THAT (error->message, HasSubstr ("copy"));
  device->ops->stream_wait_event (other, event);
  EXPECT_THAT (failure_of (other), HasSubstr ("copy"));
  device->ops->event_free (event);
  device->ops->stream_free (other);
}

TEST_F (Device, AFailedCopyOfRowsIsAFailureOfItsStream)
{
  float values[4] = {};

  device->ops->copy_rows (stream, nullptr, 0, nullptr, 0, 0, 3);
  device->ops->copy_rows (stream, nullptr, 8, nullptr, 8, 8, 0);
  EXPECT_EQ (fake_cuda_count_calls ("cudaMemcpy2DAsync"), 0);
  EXPECT_EQ (failure_of (stream), "");
  fake_cuda_fail ("cudaMemcpy2DAsync", cudaErrorInvalidValue, false);
  device->ops->copy_rows (stream, values, 8, values + 1, 8, 4, 2);
  EXPECT_THAT (failure_of (stream), HasSubstr ("copy_rows"));
}

TEST_F (Device, AnEventThatIsNotReachedIsNoFailure)
{
  TpsEvent *event = device->ops->event_new (device, &error);

  device->ops->event_record (event, stream);
  fake_cuda_fail ("cudaEventQuery", cudaErrorNotReady, false);
  EXPECT_FALSE (device->ops->event_query (event));
  EXPECT_TRUE (device->ops->event_query (event));
  EXPECT_EQ (failure_of (stream), "");
  device->ops->event_free (event);
}

TEST_F (Device, EveryEntryMakesItsDeviceTheCurrentOne)
{
  TpsDevice *second = make_device (1);
  TpsStream *streams[2] = { stream, second->ops->stream_new (second, &error) };

  for (int which : { 0, 1, 1, 0 })
    {
      int current = -1;

      cudaSetDevice (1 - which);
      add (streams[which]);
      cudaGetDevice (&current);
      EXPECT_EQ (current, which);
    }
  second->ops->stream_free (streams[1]);
}

TEST_F (Device, MemoryThatThePoolKeepsIsGivenBackBeforeAnAllocationFails)
{
  guint8 handle[TPS_EXPORT_HANDLE_BYTES];
  fake_cuda_fail ("cudaMallocAsync", cudaErrorMemoryAllocation, false);
  g_autoptr (TpsBuffer) buffer = device->ops->alloc (device, 8, &error);
  EXPECT_NE (buffer, nullptr);
  EXPECT_EQ (fake_cuda_count_calls ("cudaMemPoolTrimTo"), 1);
  fake_cuda_fail ("cudaMalloc", cudaErrorMemoryAllocation, false);
  g_autoptr (TpsBuffer) exported = device->ops->alloc_exported (device, 8, handle, &error);
  EXPECT_NE (exported, nullptr);
  EXPECT_EQ (fake_cuda_count_calls ("cudaMemPoolTrimTo"), 2);
  fake_cuda_fail ("cudaMallocAsync", cudaErrorMemoryAllocation, false);
  sum_rows ();
  EXPECT_EQ (fake_cuda_count_calls ("cudaMemPoolTrimTo"), 3);
  EXPECT_EQ (n_found, 2);
  EXPECT_TRUE (device->ops->stream_check (stream, nullptr));
  EXPECT_EQ (failure_of (stream), "");
}

TEST_F (Device, ThePoolKeepsAPartOfTheMemoryAndMakesNoStreamWait)
{
  EXPECT_EQ (fake_cuda_get_pool_attribute (cudaMemPoolAttrReleaseThreshold), 1ull << 30);
  EXPECT_EQ (fake_cuda_get_pool_attribute (cudaMemPoolReuseFollowEventDependencies), 1u);
  EXPECT_EQ (fake_cuda_get_pool_attribute (cudaMemPoolReuseAllowOpportunistic), 1u);
  EXPECT_EQ (fake_cuda_get_pool_attribute (cudaMemPoolReuseAllowInternalDependencies), 0u);
}

TEST_F (Device, AFailedFreeFailsNoLaterOperation)
{
  fake_cuda_fail ("cudaFreeAsync", cudaErrorInvalidValue, false);
  sum_rows ();
  EXPECT_EQ (cudaGetLastError (), cudaSuccess);
  EXPECT_EQ (failure_of (stream), "");
}

/* Sorts and scans count as one launch each, although CUB launches a few more kernels for them. */
TEST_F (Device, AStepOfATableIsAFewLaunchesAndNoWait)
{
  const struct
  {
    size_t n_ids;
    int n_launches; /* keys, sort, marks, scan, groups, sums of up to three levels, optimizer */
  } cases[] = { { 20, 7 }, { 500, 8 }, { 5000, 9 } };

  for (auto [n_ids, n_launches] : cases)
    for (TpsOptimizerKind kind : { TPS_OPTIMIZER_ROWWISE_ADAGRAD, TPS_OPTIMIZER_ADAM })
      {
        constexpr size_t dim = 4, rows = 30;
        std::vector<gint64> ids (n_ids), offsets (n_ids / 2), unique (rows);
        std::vector<float> gradient (offsets.size () * dim, 1), sums (rows * dim);
        std::vector<float> values (rows * dim), state (rows * 2 * dim);
        TpsOptimizerSpec spec = tps_optimizer_spec (kind, 0.1);
        gint64 n_unique = 0;
        TpsBags bags {};

        for (size_t i = 0; i < n_ids; i++)
          ids[i] = (gint64) (i * 7 % rows);
        for (size_t i = 0; i < offsets.size (); i++)
          offsets[i] = (gint64) (2 * i);
        bags.rows = rows;
        bags.dim = dim;
        bags.indices = ids.data ();
        bags.n_indices = n_ids;
        bags.offsets = offsets.data ();
        bags.n_bags = offsets.size ();
        bags.pooling = TPS_POOLING_SUM;
        TpsRowUpdate update = {
          unique.data (),    rows, dim, values.data (), state.data (), sums.data (), &n_unique,
          TPS_DTYPE_FLOAT32, {}
        };
        ASSERT_TRUE (tps_optimizer_spec_resolve (&spec, "optimizer", nullptr));
        fake_cuda_reset ();
        device->ops->embedding_backward_rows (stream, &bags, gradient.data (), unique.data (),
                                              sums.data (), &n_unique);
        device->ops->update_rows (stream, &spec, 1, &update);
        EXPECT_EQ (fake_cuda_count_calls ("launch"), n_launches) << n_ids;
        EXPECT_EQ (fake_cuda_count_calls ("cudaMallocAsync"), 1);
        for (const char *waiting : { "cudaEventQuery", "cudaEventSynchronize",
                                     "cudaStreamSynchronize", "cudaMemcpyAsync" })
          EXPECT_EQ (fake_cuda_count_calls (waiting), 0) << waiting;
        EXPECT_EQ (n_unique, (gint64) std::min (n_ids, rows));
        EXPECT_EQ (failure_of (stream), "");
      }
}

/* Work that was queued before the failure may still run, and its memory is released after the wait.
 * So the wait must be complete. */
TEST_F (Device, AWaitForABadStreamOrItsEventWaitsAllTheSame)
{
  float values[2];
  TpsStream *other = device->ops->stream_new (device, &error);
  TpsEvent *event = device->ops->event_new (device, &error);

  fake_cuda_fail ("cudaMemsetAsync", cudaErrorInvalidValue, false);
  device->ops->zero (stream, values, sizeof values);
  fake_cuda_hold_events (true);
  EXPECT_FALSE (device->ops->stream_sync (stream, nullptr));
  EXPECT_EQ (fake_cuda_count_calls ("cudaEventSynchronize"), 1);
  device->ops->event_record (event, stream);
  EXPECT_FALSE (device->ops->event_query (event));
  EXPECT_FALSE (device->ops->event_sync (event, nullptr));
  EXPECT_EQ (fake_cuda_count_calls ("cudaEventSynchronize"), 2);
  device->ops->stream_wait_event (other, event);
  EXPECT_EQ (fake_cuda_count_calls ("cudaStreamWaitEvent"), 1);
  EXPECT_THAT (failure_of (other), HasSubstr ("zero"));
  device->ops->event_free (event);
  device->ops->stream_free (other);
}

/* If an event could not be recorded, it is at an older point of the stream or at none. So the wait
 * must include the whole stream. */
TEST_F (Device, AWaitWithoutItsEventWaitsForTheWholeStream)
{
  TpsEvent *event = device->ops->event_new (device, &error);

  fake_cuda_fail ("cudaEventRecord", cudaErrorInvalidValue, false);
  EXPECT_FALSE (device->ops->stream_sync (stream, nullptr));
  EXPECT_EQ (fake_cuda_count_calls ("cudaStreamSynchronize"), 1);
  fake_cuda_fail ("cudaEventRecord", cudaErrorInvalidValue, false);
  device->ops->event_record (event, stream);
  EXPECT_EQ (fake_cuda_count_calls ("cudaStreamSynchronize"), 2);
  EXPECT_FALSE (device->ops->event_sync (event, nullptr));
  device->ops->event_free (event);
}

TEST_F (Device, AShortWaitDoesNotSleepAndALongOneDoesNotSpin)
{
  EXPECT_EQ (failure_of (stream), "");
  EXPECT_EQ (fake_cuda_count_calls ("cudaEventSynchronize"), 0);
  fake_cuda_hold_events (true);
  EXPECT_EQ (failure_of (stream), "");
  EXPECT_EQ (fake_cuda_count_calls ("cudaEventSynchronize"), 1);
}

TEST_F (Device, ADeviceOfAGenerationWithoutCodeIsNone)
{
  EXPECT_EQ (tps_cuda_device_new (9, &tps_cuda_ops, &error), nullptr);
  ASSERT_NE (error, nullptr);
  EXPECT_THAT (error->message, HasSubstr ("cuda:9: no GPU: kernels' bodies on the host is of "
                                          "generation 1.0, for which this library has no code"));
}

TEST_F (Device, OnlyDevicesInUseHaveAContext)
{
  guint8 uuid[TPS_DEVICE_UUID_BYTES];
  TpsDevice *unused = make_device (5);
  TpsDevice *used = make_device (6);

  EXPECT_FALSE (fake_cuda_has_context (5));
  EXPECT_FALSE (fake_cuda_has_context (6));
  g_autoptr (TpsBuffer) buffer = used->ops->alloc (used, 8, &error);
  EXPECT_NE (buffer, nullptr);
  EXPECT_TRUE (fake_cuda_has_context (6));
  unused->ops->get_uuid (unused, uuid);
  EXPECT_FALSE (fake_cuda_has_context (5));
}

TEST_F (Device, AQueryOfAMemoryPlaceStartsNoOtherDevice)
{
  float value = 0;

  fake_cuda_set_current (8);
  EXPECT_EQ (tps_cuda_place_of (&value), TPS_CUDA_PLACE_PAGEABLE);
  EXPECT_FALSE (fake_cuda_has_context (8));
}

TEST_F (Device, ADeviceThatDoesNotStartIsLostUntilItStarts)
{
  TpsDevice *late = make_device (3);

  fake_cuda_fail ("cudaMemPoolSetAttribute", cudaErrorNotSupported, false);
  EXPECT_EQ (late->ops->alloc (late, 8, &error), nullptr);
  ASSERT_NE (error, nullptr);
  EXPECT_EQ (error->code, TPS_ERROR_DEVICE_LOST);
  EXPECT_THAT (error->message, HasSubstr ("cuda:3: memory pool"));
  g_autoptr (TpsBuffer) buffer = late->ops->alloc (late, 8, nullptr);
  EXPECT_NE (buffer, nullptr);
}

/* Runs the function in a child process. Returns its exit status. */
int
in_another_process (const std::function<int ()> &what)
{
  pid_t child = fork ();
  int status = -1;

  if (child == 0)
    _exit (what ());
  EXPECT_EQ (waitpid (child, &status, 0), child);
  return status;
}

TEST_F (Device, AnotherProcessReadsAndWritesExportedMemory)
{
  guint8 handle[TPS_EXPORT_HANDLE_BYTES];
  g_autoptr (TpsBuffer) buffer = device->ops->alloc_exported (device, 100, handle, &error);
  const float sent[2] = { 1, 2 };
  float seen[2] = { 0, 0 };

  ASSERT_NE (buffer, nullptr);
  EXPECT_EQ (tps_buffer_get_device (buffer), device);
  EXPECT_EQ (tps_buffer_get_size (buffer), 100u);
  device->ops->copy (stream, tps_buffer_get_data (buffer), sent, sizeof sent);
  EXPECT_EQ (in_another_process ([&] {
               TpsBuffer *opened = device->ops->open_exported (device, handle, 100, nullptr);
               TpsBuffer *again = device->ops->open_exported (device, handle, 100, nullptr);
               float *data = opened != nullptr ? (float *) tps_buffer_get_data (opened) : nullptr;
               const float answer[2] = { 4, 5 };

               if (data == nullptr || again == nullptr || tps_buffer_get_device (opened) != device)
                 return 1;
               tps_buffer_unref (again); /* must not close `opened` */
               device->ops->copy (stream, seen, data, sizeof seen);
               device->ops->copy (stream, data, answer, sizeof answer);
               tps_buffer_unref (opened);
               return seen[0] == 1 && seen[1] == 2 ? 0 : 2;
             }),
             0);
  device->ops->copy (stream, seen, tps_buffer_get_data (buffer), sizeof seen);
  EXPECT_EQ (seen[0], 4);
  EXPECT_EQ (seen[1], 5);
}

TEST_F (Device, MemoryThatCannotBeSharedIsRefusedAndTheDeviceLives)
{
  guint8 handle[TPS_EXPORT_HANDLE_BYTES];
  TpsBuffer *buffer = device->ops->alloc_exported (device, 1, handle, nullptr);
  guint8 stale[TPS_EXPORT_HANDLE_BYTES];

  /* CUDA cannot open the memory of its own process. */
  EXPECT_EQ (device->ops->open_exported (device, handle, 1, &error), nullptr);
  EXPECT_EQ (error->code, TPS_ERROR_UNAVAILABLE);
  EXPECT_THAT (error->message, HasSubstr ("cuda:0: opening memory of another process"));
  g_clear_error (&error);

  memcpy (stale, handle, sizeof stale);
  tps_buffer_unref (buffer);
  EXPECT_EQ (in_another_process ([&] {
               return device->ops->open_exported (device, stale, 1, nullptr) == nullptr ? 0 : 1;
             }),
             0);

  /* This happens in some containers. No error code of CUDA is known to be temporary there. */
  fake_cuda_fail ("cudaIpcGetMemHandle", cudaErrorUnknown, false);
  EXPECT_EQ (device->ops->alloc_exported (device, 1, handle, &error), nullptr);
  EXPECT_EQ (error->code, TPS_ERROR_UNAVAILABLE);
  EXPECT_THAT (error->message, HasSubstr ("cuda:0: exporting memory"));
  g_clear_error (&error);

  fake_cuda_fail_for ("cudaMalloc", cudaErrorMemoryAllocation, 2);
  EXPECT_EQ (device->ops->alloc_exported (device, 77, handle, &error), nullptr);
  EXPECT_EQ (error->code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_THAT (error->message, HasSubstr ("77 bytes"));
  EXPECT_EQ (device->ops->alloc_exported (device, G_MAXSIZE, handle, nullptr), nullptr);
  EXPECT_EQ (failure_of (stream), "");
}

TEST_F (Device, DevicesAreToldApart)
{
  guint8 first[TPS_DEVICE_UUID_BYTES], second[TPS_DEVICE_UUID_BYTES];
  TpsDevice *other = make_device (1);

  device->ops->get_uuid (device, first);
  other->ops->get_uuid (other, second);
  EXPECT_NE (memcmp (first, second, sizeof first), 0);
}

TEST (Failure, IsTransientForRefusedCallsAndPermanentForUnknownErrors)
{
  for (cudaError_t code : { cudaSuccess, cudaErrorMemoryAllocation, cudaErrorInvalidValue,
                            cudaErrorNotReady, cudaErrorLaunchOutOfResources })
    EXPECT_TRUE (tps_cuda_failure_is_passing (code)) << code;
  for (cudaError_t code : { cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorLaunchTimeout,
                            cudaErrorECCUncorrectable, cudaErrorHardwareStackError, cudaErrorAssert,
                            cudaErrorUnknown, (cudaError_t) 1001 /* without a name */ })
    EXPECT_FALSE (tps_cuda_failure_is_passing (code)) << code;
}

TEST (Geometry, BlocksCoverEveryItemAndNoneIsEmpty)
{
  for (gsize per_block : { 1, 16, 256, 1024 })
    for (gsize n : { (gsize) 0, (gsize) 1, (gsize) 255, (gsize) 256, (gsize) 257, (gsize) 1 << 31,
                     ((gsize) 1 << 31) + 1 })
      {
        guint blocks;
        gsize wanted = (n + per_block - 1) / per_block;

        EXPECT_EQ (tps_cuda_geometry_blocks (n, per_block, &blocks), wanted <= G_MAXINT32);
        if (wanted <= G_MAXINT32)
          {
            EXPECT_EQ (blocks, wanted) << n;
          }
      }
}

TEST (Geometry, MoreThanAGridHoldsIsRefusedAndNothingOverflows)
{
  guint blocks;

  EXPECT_TRUE (tps_cuda_geometry_blocks ((gsize) G_MAXINT32 * 1024, 1024, &blocks));
  EXPECT_EQ (blocks, (guint) G_MAXINT32);
  EXPECT_FALSE (tps_cuda_geometry_blocks ((gsize) G_MAXINT32 * 1024 + 1, 1024, &blocks));
  EXPECT_FALSE (tps_cuda_geometry_blocks (G_MAXSIZE, 1024, &blocks));
}

TEST (Geometry, BitsOfIdsDistinguishAllIdsAndMinusOne)
{
  for (gint64 n : { gint64 { 1 }, gint64 { 2 }, gint64 { 3 }, gint64 { 4 }, gint64 { 255 },
                    gint64 { 256 }, gint64 { 1 } << 31, G_MAXINT64 })
    {
      gint bits = tps_cuda_geometry_id_bits (n);
      guint64 mask = (G_GUINT64_CONSTANT (1) << bits) - 1;

      EXPECT_LT ((guint64) (n - 1) & mask, (guint64) -1 & mask) << n;
      EXPECT_EQ ((guint64) (n - 1) & mask, (guint64) (n - 1)) << n;
      EXPECT_GE ((guint64) n, (mask >> 1)) << n << " needs fewer";
    }
  EXPECT_EQ (tps_cuda_geometry_id_bits (0), 1);
}

TEST (Geometry, FourColumnsNeedRowsAndArraysAtTheirBoundary)
{
  alignas (16) float values[8];

  EXPECT_EQ (tps_cuda_geometry_columns (8, values, values + 4, nullptr), 4u);
  EXPECT_EQ (tps_cuda_geometry_columns (6, values, values, nullptr), 1u);
  EXPECT_EQ (tps_cuda_geometry_columns (8, values, values + 1, nullptr), 1u);
  EXPECT_EQ (tps_cuda_geometry_columns (8, values, values, values + 2), 1u);
}

TEST (Search, EnvironmentsComeBeforeTheSystemsFolders)
{
  g_auto (GStrv) folders = tps_cuda_search_folders ("/opt/cuda-13", "/venv");
  g_auto (GStrv) fewer = tps_cuda_search_folders (nullptr, nullptr);

  EXPECT_STREQ (folders[0], "/opt/cuda-13/lib*");
  EXPECT_TRUE (g_strv_contains (folders, "/venv/lib/python3*/site-packages/nvidia/nccl/lib"));
  EXPECT_STREQ (fewer[0], "/usr/local/cuda/lib64");
}

TEST (Search, AMissingLibraryIsNamedWithTheSearchedPlaces)
{
  GError *error = nullptr;

  EXPECT_FALSE (tps_cuda_search_library ("libthat_is_nowhere.so.9", nullptr, 0, &error));
  ASSERT_NE (error, nullptr);
  EXPECT_THAT (error->message, testing::AllOf (HasSubstr ("libthat_is_nowhere.so.9"),
                                               HasSubstr ("/usr/local/cuda/lib64")));
  g_clear_error (&error);
}

} // namespace
