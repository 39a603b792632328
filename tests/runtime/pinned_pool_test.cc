/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/device_memory.h"

#include <gtest/gtest.h>

#include "tests/runtime/fake_device/fake_device.h"

namespace {

constexpr gsize KEEP_BYTES = 1 << 20;

class PinnedPool : public testing::Test
{
protected:
  void
  TearDown () override
  {
    g_clear_pointer (&pool_, tps_buffer_pool_unref);
    tps_fake_device_set_lost (device_, FALSE);
    tps_fake_device_fail_alloc (device_, 0);
  }

  TpsBuffer *
  Get (TpsDevice *device, gsize n_bytes)
  {
    if (pool_ == nullptr)
      pool_ = tps_pinned_pool_new (device, nullptr, nullptr, KEEP_BYTES);
    return tps_buffer_pool_try_get (pool_, n_bytes);
  }

  TpsDevice *device_ = tps_fake_device_get (0);
  TpsBufferPool *pool_ = nullptr;
};

/* The fake device terminates the process if an operation uses host memory that is not
 * page-locked. */
TEST_F (PinnedPool, LargeBuffersArePageLocked)
{
  g_autoptr (TpsBuffer) buffer = Get (device_, TPS_PINNED_MIN_BYTES);
  gfloat *values = (gfloat *) (gpointer) tps_buffer_get_data (buffer);
  TpsStream *stream = device_->ops->stream_new (device_, nullptr);

  device_->ops->fill (stream, TPS_DTYPE_FLOAT32, values, 1.5, 1000);
  EXPECT_TRUE (device_->ops->stream_sync (stream, nullptr));
  EXPECT_EQ (values[0], 1.5f);
  EXPECT_EQ (values[999], 1.5f);
  EXPECT_EQ (tps_buffer_get_device (buffer), nullptr) << "it is the host's memory";
  device_->ops->stream_free (stream);
}

TEST_F (PinnedPool, IsOrdinaryWhereThereIsNothingToStage)
{
  for (TpsDevice *device : { (TpsDevice *) nullptr, tps_device_find ("cpu", nullptr) })
    {
      tps_buffer_unref (Get (device, KEEP_BYTES));
      EXPECT_EQ (tps_buffer_pool_get_n_bytes_of_source (pool_), 0u);
      g_clear_pointer (&pool_, tps_buffer_pool_unref);
    }
}

TEST_F (PinnedPool, GoesOnWithOrdinaryMemoryWhenTheDeviceHasNone)
{
  tps_fake_device_fail_alloc (device_, 1);
  tps_buffer_unref (Get (device_, KEEP_BYTES / 2));
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_of_source (pool_), 0u);
  tps_buffer_unref (Get (device_, TPS_PINNED_MIN_BYTES));
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_of_source (pool_), TPS_PINNED_MIN_BYTES);
}

TEST_F (PinnedPool, GoesOnWithOrdinaryMemoryWhenTheDeviceIsLost)
{
  TpsBuffer *before = Get (device_, TPS_PINNED_MIN_BYTES);
  guint n_allocs;

  tps_fake_device_set_lost (device_, TRUE);
  tps_buffer_unref (Get (device_, KEEP_BYTES / 2));
  n_allocs = tps_fake_device_get_n_allocs (device_);
  tps_buffer_unref (Get (device_, TPS_PINNED_MIN_BYTES * 2));
  EXPECT_EQ (tps_fake_device_get_n_allocs (device_), n_allocs) << "the device is not called again";
  tps_buffer_unref (before);
}

} /* namespace */
