// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the lifetime of memory that a server has shared on a device. The server runs in this
// process and uses a fake device.

#include <signal.h>

#include "tests/integration/device_memory/two_trainers.h"
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

class DeviceEndings : public TwoTrainers
{
};

// A process cannot open memory that it exported itself. This simulates a machine on which devices
// cannot share memory.
TEST_F (DeviceEndings, WhereItCannotBeOpenedEverythingComesByWayOfTheHost)
{
  TpsServerOptions options = {};
  TpsServerParts parts = {};
  gsize n_bytes_before = tps_fake_device_get_n_bytes (Device ());

  parts.device = Device ();
  options.parts = &parts;
  PluginServer server (options);
  Connect (server.Unix (), Device (), server.Unix (), Device ());
  while (trainers_[0]->MayShare () || trainers_[1]->MayShare ())
    EXPECT_FALSE (Round (50000).was_there);
  EXPECT_FALSE (Round (50000).was_there);
  // The trainers close the segments that they cannot use, beside their rounds.
  while (tps_fake_device_get_n_bytes (Device ()) >= n_bytes_before + kBlock)
    EXPECT_FALSE (Round (50000).was_there);
}

TEST_F (DeviceEndings, MemoryOfAKilledTrainerIsReleasedAndTheServerContinues)
{
  TpsServerOptions options = {};
  TpsServerParts parts = {};
  gsize n_bytes_before = tps_fake_device_get_n_bytes (Device ());

  parts.device = Device ();
  options.parts = &parts;
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
