// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Compares gradients that stay in device memory between processes with gradients that pass through
// the host. The test uses any device called "cuda:0".

#include <signal.h>
#include <unistd.h>

#include "tests/integration/device_memory/two_trainers.h"
#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/memory/plugin_server.h"

namespace thriftps_test {
namespace {

class DeviceMemory : public TwoTrainers
{
protected:
  void
  SetUp () override
  {
    g_autoptr (GError) error = nullptr;

    device_ = tps_device_find ("cuda:0", &error);
    if (device_ == nullptr && g_getenv ("DEVICE_MAY_BE_MISSING") != nullptr)
      GTEST_SKIP () << error->message;
    ASSERT_NE (device_, nullptr) << error->message;
  }

  void
  Start (const std::string &device, const std::string &table_device = "cpu")
  {
    const gchar *program = g_getenv ("THRIFTPS_SERVER");

    server_ = std::make_unique<ServerProcess> (
        std::vector<std::string> { "--listen=" + folder_.SocketAddress (), "--listen=127.0.0.1:0",
                                   "--device=" + device, "--table-device=" + table_device,
                                   "--ntrainer=2" },
        program != nullptr ? program : "plugin/app/thriftps_server");
    unix_ = server_->ReadAddress ();
    tcp_ = server_->ReadAddress ();
  }

  TpsDevice *device_ = nullptr;
  SocketFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::string unix_, tcp_;
};

TEST_F (DeviceMemory, AveragesComeBackThereWithTheSameBits)
{
  Start ("cuda:0");
  Connect (unix_, device_, unix_, device_);
  for (size_t n : { 16384, 600000, 16385 })
    for (int i = 0; i < 3; i++)
      UntilShared (n);
  for (size_t n : { 1, 1000, 16383 })
    EXPECT_FALSE (Round (n).was_there) << n << ": such ones travel inline";
  EXPECT_TRUE (trainers_[0]->MayShare ());
}

TEST_F (DeviceMemory, ManyPushesAtOnceUseTheSameSegments)
{
  constexpr gint32 n_params = 6;

  Start ("cuda:0");
  Connect (unix_, device_, unix_, device_);
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
  Connect (unix_, device_, tcp_, device_);
  for (int i = 0; i < 6; i++)
    EXPECT_FALSE (Round (50000).was_there) << "one of them came by way of the host";
  EXPECT_FALSE (trainers_[1]->MayShare ()) << "not over TCP";
  Connect (unix_, device_, unix_, nullptr);
  for (int i = 0; i < 6; i++)
    Round (50000);
  Connect (unix_, device_, unix_, device_);
  UntilShared (50000);
}

TEST_F (DeviceMemory, AServerInHostMemoryGetsEverythingByWayOfTheHost)
{
  Start ("cpu");
  Connect (unix_, device_, unix_, device_);
  EXPECT_TRUE (trainers_[0]->MayShare ()) << "not known yet";
  while (trainers_[0]->MayShare () || trainers_[1]->MayShare ())
    EXPECT_FALSE (Round (50000).was_there);
  EXPECT_FALSE (Round (50000).was_there);
}

// The server's only device is that of its tables, so the server offers segments for lookup results
// only.
TEST_F (DeviceMemory, AServerWithOnlyItsTablesThereGetsEverythingByWayOfTheHost)
{
  Start ("cpu", "cuda:0");
  Connect (unix_, device_, unix_, device_);
  while (trainers_[0]->MayShare () || trainers_[1]->MayShare ())
    ASSERT_FALSE (Round (50000).was_there || HasFailure ());
  EXPECT_FALSE (Round (50000).was_there);
}

TEST_F (DeviceMemory, AServerThatIsKilledCostsTheCallsAndTheNextOneShares)
{
  Start ("cuda:0");
  Connect (unix_, device_, unix_, device_);
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

} // namespace
} // namespace thriftps_test
