// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Gradients that stay in a device's memory between processes, against those that come to the host.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "tests/integration/device_memory/device_trainer.h"
#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace thriftps_test {
namespace {

constexpr gsize kBlock = 2 << 20;

TpsDevice *
Device ()
{
  return tps_fake_device_get (0);
}

// In ascending order, divided once.
std::vector<float>
Mean (const std::vector<float> &first, const std::vector<float> &second)
{
  std::vector<float> mean (first.size ());

  for (size_t i = 0; i < mean.size (); i++)
    {
      volatile float sum = first[i] + second[i];

      mean[i] = sum / 2;
    }
  return mean;
}

bool
SameBits (const std::vector<float> &a, const std::vector<float> &b)
{
  return a.size () == b.size () && memcmp (a.data (), b.data (), a.size () * sizeof (float)) == 0;
}

// thriftps_server with two trainers, on the device that stands in, or on none.
class DeviceMemory : public testing::Test
{
protected:
  void
  Start (const std::string &device)
  {
    setenv ("LD_LIBRARY_PATH", "tests/cuda/host", 1);
    setenv ("THRIFTPS_CUDA_LIBRARY", "tests/runtime/fake_device/libfake_device.so", 1);
    server_ = std::make_unique<ServerProcess> (
        std::vector<std::string> { "--listen=" + folder_.SocketAddress (), "--listen=127.0.0.1:0",
                                   "--device=" + device, "--ntrainer=2" });
    unix_ = server_->ReadAddress ();
    tcp_ = server_->ReadAddress ();
  }

  void
  Connect (const std::string &first, TpsDevice *first_device, const std::string &second,
           TpsDevice *second_device)
  {
    trainers_[0] = std::make_unique<DeviceTrainer> (first, 0, first_device);
    trainers_[1] = std::make_unique<DeviceTrainer> (second, 1, second_device);
  }

  // One round; what it gave, and whether that was the mean of both.
  Averaged
  Round (size_t n, gint32 param_loc = 0)
  {
    std::vector<float> values[2];
    std::future<Averaged> pushed[2];
    Averaged averaged[2];

    for (gint32 i : { 0, 1 })
      {
        values[i] = SomeValues (batch_, param_loc, i, n);
        pushed[i] = trainers_[i]->Push (batch_, param_loc, values[i]);
      }
    for (gint32 i : { 0, 1 })
      {
        averaged[i] = pushed[i].get ();
        EXPECT_EQ (averaged[i].error, "");
        EXPECT_TRUE (SameBits (averaged[i].values, Mean (values[0], values[1])));
      }
    batch_++;
    return { "", averaged[0].values, averaged[0].was_there && averaged[1].was_there };
  }

  // Rounds until averages lie in the device's memory on both sides.
  void
  UntilShared (size_t n)
  {
    while (!Round (n).was_there && !HasFailure ())
      ;
  }

  SocketFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<DeviceTrainer> trainers_[2];
  std::string unix_, tcp_;
  gint64 batch_ = 0;
};

TEST_F (DeviceMemory, AveragesComeBackThereWithTheSameBits)
{
  Start ("cuda:0");
  Connect (unix_, Device (), unix_, Device ());
  for (size_t n : { 16384, 600000, 1000, 1 })
    {
      if (n >= 16384)
        UntilShared (n);
      for (int i = 0; i < 3; i++)
        EXPECT_EQ (Round (n).was_there, n >= 16384) << n << ": smaller ones travel inline";
      EXPECT_TRUE (trainers_[0]->MayShare ());
    }
}

TEST_F (DeviceMemory, ManyAtOnceShareWhatThereIs)
{
  constexpr gint32 n_params = 6;

  Start ("cuda:0");
  Connect (unix_, Device (), unix_, Device ());
  for (; batch_ < 8; batch_++)
    {
      std::vector<std::future<Averaged>> pushed;

      for (gint32 trainer : { 1, 0 })
        for (gint32 p = 0; p < n_params; p++)
          pushed.push_back (trainers_[trainer]->Push (
              batch_, p, SomeValues (batch_, p, trainer, 20000 + 1000 * static_cast<size_t> (p))));
      for (size_t i = 0; i < pushed.size (); i++)
        {
          gint32 p = static_cast<gint32> (i) % n_params;
          size_t n = 20000 + 1000 * static_cast<size_t> (p);
          Averaged averaged = pushed[i].get ();

          EXPECT_EQ (averaged.error, "");
          EXPECT_TRUE (SameBits (
              averaged.values, Mean (SomeValues (batch_, p, 0, n), SomeValues (batch_, p, 1, n))));
        }
    }
  UntilShared (20000);
}

TEST_F (DeviceMemory, TrainersOfOneServerComeByDifferentWays)
{
  Start ("cuda:0");
  Connect (unix_, Device (), tcp_, Device ());
  for (int i = 0; i < 6; i++)
    EXPECT_FALSE (Round (50000).was_there) << "one of them came by way of the host";
  EXPECT_FALSE (trainers_[1]->MayShare ()) << "not over TCP";
  Connect (unix_, Device (), unix_, nullptr);
  for (int i = 0; i < 6; i++)
    Round (50000);
  Connect (unix_, Device (), unix_, Device ());
  UntilShared (50000);
}

TEST_F (DeviceMemory, AServerInHostMemoryGetsEverythingByWayOfTheHost)
{
  Start ("cpu");
  Connect (unix_, Device (), unix_, Device ());
  EXPECT_TRUE (trainers_[0]->MayShare ()) << "not known yet";
  while (trainers_[0]->MayShare () || trainers_[1]->MayShare ())
    EXPECT_FALSE (Round (50000).was_there);
  EXPECT_FALSE (Round (50000).was_there);
}

// Memory of its own process cannot be opened: as where a machine does not let processes share.
TEST_F (DeviceMemory, WhereItCannotBeOpenedEverythingComesByWayOfTheHost)
{
  TpsServerOptions options = {};
  gsize n_bytes_before = tps_fake_device_get_n_bytes (Device ());

  options.device = Device ();
  PluginServer server (options);
  Connect (server.Unix (), Device (), server.Unix (), Device ());
  while (trainers_[0]->MayShare () || trainers_[1]->MayShare ())
    EXPECT_FALSE (Round (50000).was_there);
  EXPECT_FALSE (Round (50000).was_there);
  EXPECT_LT (tps_fake_device_get_n_bytes (Device ()), n_bytes_before + kBlock)
      << "what was opened in vain has been closed";
}

TEST_F (DeviceMemory, AServerThatIsKilledCostsTheCallsAndTheNextOneShares)
{
  Start ("cuda:0");
  Connect (unix_, Device (), unix_, Device ());
  UntilShared (50000);
  std::future<Averaged> lost = trainers_[0]->Push (batch_, 0, SomeValues (batch_, 0, 0, 50000));
  server_->Signal (SIGKILL);
  server_->Wait ();
  EXPECT_NE (lost.get ().error, "");
  unlink (folder_.SocketAddress ().c_str () + strlen ("unix:"));
  batch_ = 0;
  Start ("cuda:0");
  UntilShared (50000);
}

TEST_F (DeviceMemory, WhatAKilledTrainerHadGoesAndTheServerGoesOn)
{
  TpsServerOptions options = {};
  gsize n_bytes_before = tps_fake_device_get_n_bytes (Device ());

  options.device = Device ();
  PluginServer server (options, 1);
  for (int i = 0; i < 3; i++)
    {
      ServerProcess trainer ({ server.Unix (), std::to_string (gint64 { 1 } << (30 + i)) },
                             "tests/integration/device_memory/pushing_trainer");

      ASSERT_EQ (trainer.ReadLine (), "shares") << trainer.ReadErrors ();
      EXPECT_GE (tps_fake_device_get_n_bytes (Device ()), n_bytes_before + 2 * kBlock);
      trainer.Signal (SIGKILL);
      trainer.Wait ();
      WaitUntil ([&] { return tps_fake_device_get_n_bytes (Device ()) < n_bytes_before + kBlock; });
    }
  DeviceTrainer other (server.Tcp (), 0, nullptr);
  EXPECT_EQ (other.Push (gint64 { 1 } << 40, 0, { 1, 2 }).get ().values,
             (std::vector<float> { 1, 2 }));
}

} // namespace
} // namespace thriftps_test
