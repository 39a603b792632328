// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests averages on a fake device that computes like the CPU (tests/runtime/fake_device). The host
// cannot access its memory. If memory is released before its copy has completed, the test aborts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "plugin/plugin.h"
#include "tests/plugin/server/gradient_call.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace thriftps_test {
namespace {

constexpr gint64 kElems = 100000; // well above the threshold for page-locking
constexpr int kUnavailable = 8;

class DeviceTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    TpsPluginOptions options = {};
    TpsPluginParts parts = {};
    options.n_workers = 2;
    options.n_trainers = 2;
    parts.device = device_;
    options.parts = &parts;
    plugin_ = tps_plugin_new (&options, nullptr);
    ASSERT_NE (plugin_, nullptr);
    server_ = tps_plugin_new_server (plugin_, nullptr);
    ASSERT_TRUE (tps_server_listen (server_, "127.0.0.1:0", nullptr));
    ASSERT_TRUE (tps_server_start (server_, nullptr));
    address_ = tps_server_get_addresses (server_)[0];
  }
  void
  TearDown () override
  {
    End ();
  }

  void
  End ()
  {
    if (server_ != nullptr)
      tps_server_stop (server_);
    g_clear_object (&server_);
    g_clear_pointer (&plugin_, tps_plugin_free);
  }

  // Sends the gradients of both trainers of a round, filled with 1 and 4.
  void
  SendRound (RawClient *client, gint64 batch, gint64 n_elems)
  {
    client->Send ("ParameterServer:average_gradient", 0, Push (0, batch, n_elems, 1));
    client->Send ("ParameterServer:average_gradient", 1, Push (1, batch, n_elems, 4));
  }

  void
  ExpectAverages (RawClient *client, gint64 n_elems)
  {
    for (int trainer = 0; trainer < 2; trainer++)
      {
        Message answer = client->Receive ();
        EXPECT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
        EXPECT_EQ (Average (answer), std::vector<float> ((size_t) n_elems, 2.5f));
      }
  }

  TpsDevice *device_ = tps_fake_device_get (0);
  TpsPlugin *plugin_ = nullptr;
  TpsServer *server_ = nullptr;
  std::string address_;
};

TEST_F (DeviceTest, SumsOfEverySizeAreRight)
{
  RawClient client (address_);
  gint64 batch = 0;
  for (gint64 n_elems : { (gint64) 1, (gint64) 1000, (gint64) 20000, kElems, (gint64) 3000001 })
    {
      SendRound (&client, ++batch, n_elems);
      ExpectAverages (&client, n_elems);
    }
}

TEST_F (DeviceTest, NothingNewIsPageLockedInTheSteadyState)
{
  constexpr gint64 kBatches = 40;
  RawClient client (address_);
  guint before = tps_fake_device_get_n_allocs (device_);
  for (gint64 batch = 1; batch <= kBatches; batch++)
    {
      SendRound (&client, batch, kElems);
      ExpectAverages (&client, kElems);
    }
  // Two gradients and an average at a time, some more during replies, and the device's own.
  EXPECT_LE (tps_fake_device_get_n_allocs (device_) - before, 20u);
  EXPECT_GE (tps_buffer_pool_get_n_bytes_of_source (tps_server_get_bodies (server_)),
             2 * kElems * sizeof (float));
}

TEST_F (DeviceTest, SmallFramesAreNotPageLocked)
{
  RawClient client (address_);
  SendRound (&client, 1, 5000);
  ExpectAverages (&client, 5000);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_of_source (tps_server_get_bodies (server_)), 0u);
}

TEST_F (DeviceTest, OrdinaryMemoryReplacesRefusedPageLockedMemory)
{
  RawClient client (address_);
  tps_fake_device_fail_alloc (device_, 1);
  SendRound (&client, 1, kElems);
  ExpectAverages (&client, kElems);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_of_source (tps_server_get_bodies (server_)), 0u);
}

TEST_F (DeviceTest, ALostDeviceCostsTheRequestsThatNeedItAndNothingElse)
{
  RawClient client (address_), other (address_);
  SendRound (&client, 1, kElems);
  ExpectAverages (&client, kElems);
  tps_fake_device_set_lost (device_, TRUE);
  gint64 batch = 1;
  for (gint64 n_elems : { kElems, (gint64) 1, kElems * 2 })
    {
      SendRound (&client, ++batch, n_elems);
      for (int trainer = 0; trainer < 2; trainer++)
        {
          Message answer = client.Receive ();
          EXPECT_EQ (ErrorCode (answer), kUnavailable);
          EXPECT_THAT (ErrorText (answer), testing::HasSubstr ("cuda:0: lost"));
        }
      EXPECT_EQ (ErrorCode (other.Call ("Node:describe")), 0);
      EXPECT_EQ (ErrorCode (other.Call ("EmbeddingTable:list_tables")), 0);
      EXPECT_EQ (ErrorCode (other.Call ("ParameterServer:reset_state")), 0);
    }
  tps_fake_device_set_lost (device_, FALSE);
}

TEST_F (DeviceTest, MemoryOfTheDeviceIsReleased)
{
  gsize before = tps_fake_device_get_n_bytes (device_);
  {
    RawClient client (address_), waiting (address_);
    SendRound (&client, 1, kElems);
    ExpectAverages (&client, kElems);
    waiting.Send ("ParameterServer:average_gradient", 0, Push (0, 2, kElems, 1));
    EXPECT_GT (tps_fake_device_get_n_bytes (device_), before);
  }
  End ();
  EXPECT_EQ (tps_fake_device_get_n_bytes (device_), before);
}

} // namespace
} // namespace thriftps_test
