/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The fake devices must be as strict as documented. */

#include "tests/runtime/fake_device/fake_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <vector>

#include "runtime/base/error.h"

namespace {

class FakeDevice : public testing::Test
{
protected:
  void
  SetUp () override
  {
    GTEST_FLAG_SET (death_test_style, "threadsafe");
    device = tps_fake_device_get (0);
    ops = device->ops;
    stream = ops->stream_new (device, nullptr);
  }
  void
  TearDown () override
  {
    tps_fake_device_set_lost (device, FALSE);
    tps_fake_device_fail_alloc (device, 0);
    ops->stream_free (stream);
  }

  TpsBuffer *
  alloc (size_t n_bytes)
  {
    return ops->alloc (device, n_bytes, nullptr);
  }
  float *
  data (TpsBuffer *buffer)
  {
    return (float *) (gpointer) tps_buffer_get_data (buffer);
  }
  std::vector<float>
  read (const float *values, size_t n)
  {
    std::vector<float> host (n);

    ops->copy (stream, host.data (), values, n * sizeof (float));
    EXPECT_TRUE (ops->stream_sync (stream, nullptr));
    return host;
  }

  TpsDevice *device;
  const TpsDeviceOps *ops;
  TpsStream *stream;
};

TEST_F (FakeDevice, MemoryIsOutOfReachOfTheHost)
{
  g_autoptr (TpsBuffer) buffer = alloc (16);
  g_autoptr (TpsBuffer) host = ops->alloc_host (device, 16, nullptr);

  EXPECT_EQ (tps_buffer_get_device (buffer), device);
  EXPECT_EQ (tps_buffer_get_device (host), nullptr);
  data (host)[0] = 1;
  EXPECT_DEATH (data (buffer)[0] = 1, "");
  EXPECT_DEATH (g_print ("%g", (double) data (buffer)[0]), "");
}

TEST_F (FakeDevice, NothingIsDoneBeforeAWait)
{
  g_autoptr (TpsBuffer) host = ops->alloc_host (device, 4 * sizeof (float), nullptr);

  ops->fill (stream, TPS_DTYPE_FLOAT32, data (host), 3, 4);
  EXPECT_TRUE (ops->stream_check (stream, nullptr));
  EXPECT_TRUE (std::isnan (data (host)[3])) << "new memory is poisoned";
  EXPECT_TRUE (ops->stream_sync (stream, nullptr));
  EXPECT_EQ (data (host)[3], 3);
}

TEST_F (FakeDevice, EventsAreReachedWhenTheirStreamIsWaitedForAndNoSooner)
{
  TpsEvent *event = ops->event_new (device, nullptr), *later = ops->event_new (device, nullptr);
  TpsStream *other = ops->stream_new (device, nullptr);
  g_autoptr (TpsBuffer) host = ops->alloc_host (device, sizeof (float), nullptr);
  double ms = -1;

  EXPECT_TRUE (ops->event_query (event)); /* never recorded, so it counts as reached */
  ops->fill (stream, TPS_DTYPE_FLOAT32, data (host), 1, 1);
  ops->event_record (event, stream);
  ops->fill (stream, TPS_DTYPE_FLOAT32, data (host), 2, 1);
  ops->event_record (later, stream);
  EXPECT_FALSE (ops->events_elapsed (event, later, &ms, nullptr));
  ops->stream_wait_event (other, event);
  EXPECT_TRUE (ops->stream_sync (other, nullptr));
  EXPECT_EQ (data (host)[0], 1);
  EXPECT_TRUE (ops->event_query (event));
  EXPECT_FALSE (ops->event_query (later));
  EXPECT_TRUE (ops->event_query (later));
  EXPECT_EQ (data (host)[0], 2);
  EXPECT_TRUE (ops->events_elapsed (event, later, &ms, nullptr));
  EXPECT_GE (ms, 0);
  ops->event_free (event);
  ops->event_free (later);
  ops->stream_free (other);
}

TEST_F (FakeDevice, ANumberIsKnownWhenItHasBeenWaitedFor)
{
  const gint64 ids[] = { 5, 2, 5 };
  g_autoptr (TpsBuffer) indices = alloc (sizeof ids), unique = alloc (sizeof ids);
  g_autoptr (TpsBuffer) values = alloc (12), sums = alloc (12), n_unique = alloc (sizeof (gint64));
  gint64 *count = (gint64 *) (gpointer) tps_buffer_get_data (n_unique);

  ops->copy (stream, tps_buffer_get_data (indices), ids, sizeof ids);
  ops->fill (stream, TPS_DTYPE_FLOAT32, data (values), 1, 3);
  ops->coalesce_rows (stream, TPS_DTYPE_FLOAT32,
                      (gint64 *) (gpointer) tps_buffer_get_data (indices), 0, data (values), 3, 1,
                      (gint64 *) (gpointer) tps_buffer_get_data (unique), data (sums), count);
  EXPECT_EQ (tps_device_read_count (stream, count), 2u);
  EXPECT_EQ (read (data (sums), 2), (std::vector<float> { 1, 2 }));
}

TEST_F (FakeDevice, BreachesOfTheContractEndTheProcess)
{
  g_autoptr (TpsBuffer) buffer = alloc (16);
  g_autoptr (TpsBuffer)
      foreign = tps_fake_device_get (1)->ops->alloc (tps_fake_device_get (1), 16, nullptr);
  std::vector<float> host (4);

  EXPECT_DEATH (ops->zero (stream, host.data (), 16), "zero on cuda:0: host memory that is not");
  EXPECT_DEATH (ops->zero (stream, data (foreign), 16), "zero on cuda:0: memory of cuda:1");
  EXPECT_DEATH (ops->zero (stream, data (buffer) + 1, 16), "bytes 4 to 20 of a buffer of 16");
  EXPECT_DEATH (ops->copy_rows (stream, host.data (), 4, data (buffer), 8, 4, 3),
                "copy_rows on cuda:0: bytes 0 to 20 of a buffer of 16");
  EXPECT_DEATH (ops->copy_rows (stream, host.data (), 2, data (buffer), 8, 4, 2),
                "copy_rows: a stride of 2 bytes for rows of 4");
  EXPECT_DEATH (
      {
        ops->zero (stream, data (buffer), 16);
        tps_buffer_unref (buffer);
      },
      "released while an operation on it is queued");
}

TEST_F (FakeDevice, AllocationsFailWhereTheyAreToldToAndAreCounted)
{
  GError *error = nullptr;
  guint n_allocs = tps_fake_device_get_n_allocs (device);
  gsize n_bytes = tps_fake_device_get_n_bytes (device);

  tps_fake_device_fail_alloc (device, 2);
  TpsBuffer *first = alloc (100);
  EXPECT_NE (first, nullptr);
  EXPECT_EQ (ops->alloc (device, 50, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  g_clear_error (&error);
  TpsBuffer *third = ops->alloc_host (device, 10, nullptr);
  EXPECT_EQ (tps_fake_device_get_n_allocs (device), n_allocs + 3);
  EXPECT_EQ (tps_fake_device_get_n_bytes (device), n_bytes + 110);
  tps_buffer_unref (first);
  tps_buffer_unref (third);
  EXPECT_EQ (tps_fake_device_get_n_bytes (device), n_bytes);
}

TEST_F (FakeDevice, ALostDeviceShowsWhereverSomethingMayFail)
{
  GError *error = nullptr;
  g_autoptr (TpsBuffer) host = ops->alloc_host (device, sizeof (float), nullptr);

  data (host)[0] = 7;
  ops->zero (stream, data (host), sizeof (float));
  tps_fake_device_set_lost (device, TRUE);
  EXPECT_FALSE (ops->stream_sync (stream, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST));
  g_clear_error (&error);
  EXPECT_EQ (data (host)[0], 7);
  EXPECT_EQ (ops->alloc (device, 1, nullptr), nullptr);
  EXPECT_EQ (ops->stream_new (device, nullptr), nullptr);
  EXPECT_FALSE (ops->stream_check (stream, nullptr));
  tps_fake_device_set_lost (device, FALSE);
  EXPECT_FALSE (ops->stream_sync (stream, nullptr)); /* a stream that has failed stays failed */
  EXPECT_FALSE (ops->stream_check (stream, nullptr));
}

TEST_F (FakeDevice, ExportedMemoryIsTheSameInAnotherProcess)
{
  guint8 handle[TPS_EXPORT_HANDLE_BYTES];
  g_autoptr (TpsBuffer) buffer = ops->alloc_exported (device, 8, handle, nullptr);
  GError *error = nullptr;
  int status;

  ops->fill (stream, TPS_DTYPE_FLOAT32, data (buffer), 5, 2);
  EXPECT_TRUE (ops->stream_sync (stream, nullptr));
  EXPECT_EQ (ops->open_exported (device, handle, 8, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE));
  g_clear_error (&error);
  pid_t child = fork ();
  if (child == 0)
    {
      TpsBuffer *opened = ops->open_exported (device, handle, 8, nullptr);
      float sum;

      if (opened == nullptr || ops->open_exported (device, handle, 1 << 20, nullptr) != nullptr)
        _exit (1);
      ops->accumulate (stream, TPS_DTYPE_FLOAT32, data (opened), data (opened), 2);
      ops->copy (stream, &sum, data (opened) + 1, sizeof sum);
      ops->stream_sync (stream, nullptr);
      tps_buffer_unref (opened);
      _exit (sum == 10 ? 0 : 2);
    }
  ASSERT_EQ (waitpid (child, &status, 0), child);
  EXPECT_EQ (status, 0);
  EXPECT_EQ (read (data (buffer), 2), (std::vector<float> { 10, 10 }));
}

} // namespace
