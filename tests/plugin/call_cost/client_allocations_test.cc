// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Counts the allocations of a warmed-up client for a small call. The server runs in the same
// process and allocates nothing for these calls (see allocations_test), so all threads are counted.

#include <gtest/gtest.h>
#include <semaphore.h>

#include "plugin/client/client.h"
#include "plugin/service/node_service.h"
#include "plugin/wire/wire_tensor.h"
#include "tests/plugin/call_cost/counted.h"
#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

constexpr int kWarmUp = 300; // calls
constexpr int kCounted = 1000;

class ClientAllocationsTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    options.n_io_threads = 1;
    options.n_workers = 1;
    return options;
  }

  // The client asks the Node service whether memory can be shared.
  void
  AddServices () override
  {
    TpsService service = tps_node_service (&node_);
    node_.name = "node";
    tps_server_add_service (server_, &service);
  }

  void
  SetUp () override
  {
    TpsClientOptions options = {};
    ServerTest::SetUp ();
    options.address = unix_.c_str ();
    client_ = tps_client_new (&options, nullptr);
    sem_init (&answered_, 0, 0);
  }

  void
  TearDown () override
  {
    tps_client_free (client_);
    sem_destroy (&answered_);
    ServerTest::TearDown ();
  }

  static void
  WriteArgument (TpsWriter *out, gconstpointer value)
  {
    tps_writer_field (out, 1, TPS_WIRE_I32);
    tps_writer_i32 (out, *static_cast<const gint32 *> (value));
  }

  static void
  OnAnswer (gpointer data, TpsReader *, TpsWireType, const GError *error)
  {
    EXPECT_EQ (error, nullptr);
    sem_post (&static_cast<ClientAllocationsTest *> (data)->answered_);
  }

  void
  Call (gint32 value)
  {
    tps_client_call (client_, "Test", "echo", WriteArgument, &value, G_MAXINT64 - 1, OnAnswer,
                     this);
  }

  void
  WaitFor (int n)
  {
    for (int i = 0; i < n; i++)
      while (sem_wait (&answered_) != 0)
        ;
  }

  double
  PerCall ()
  {
    Counts before = {};
    for (int i = -kWarmUp; i < kCounted; i++)
      {
        if (i == 0)
          before = CountFromHere ();
        Call (i);
        WaitFor (1);
      }
    // The caller may continue before the loop has released the call. The number of cached calls
    // grows with the largest lag between the two threads.
    return (double) (CountedSoFar () - before).allocations / kCounted;
  }

  // Sends a tensor of one MiB, which the service ignores.
  void
  CallWithTensor ()
  {
    g_auto (TpsTensor) tensor = {};
    tps_tensor_init_1d (&tensor, TPS_DTYPE_FLOAT32, 1 << 18);
    tps_client_call (
        client_, "Test", "echo",
        [] (TpsWriter *out, gconstpointer data) {
          tps_writer_field (out, 2, TPS_WIRE_STRUCT);
          tps_struct_write (&tps_tensor_struct, out, data);
        },
        &tensor, G_MAXINT64 - 1, OnAnswer, this);
    WaitFor (1);
  }

  bool
  IsSharing ()
  {
    TpsSharingStats stats;
    tps_client_get_sharing_stats (client_, &stats);
    return stats.sent_shared.n_tensors > 0;
  }

  TpsNode node_ = {};
  TpsClient *client_ = nullptr;
  sem_t answered_;
};

TEST_F (ClientAllocationsTest, ACallCostsNone)
{
  EXPECT_LT (PerCall (), 0.05);
}

// If a connection shares memory, the client checks every message for references to shared memory.
TEST_F (ClientAllocationsTest, ASmallCallCostsNoneWhereLargeOnesShareMemory)
{
  for (int i = 0; i < 1000 && !IsSharing (); i++)
    CallWithTensor ();
  ASSERT_TRUE (IsSharing ());
  EXPECT_LT (PerCall (), 0.05);
}

TEST_F (ClientAllocationsTest, PipelinedCallsCostNone)
{
  constexpr int n = 16;
  Counts before = {};
  for (int i = -kWarmUp; i < kCounted; i++)
    {
      if (i == 0)
        before = CountFromHere ();
      for (int j = 0; j < n; j++)
        Call (j);
      WaitFor (n);
    }
  EXPECT_LT ((double) (CountedSoFar () - before).allocations / (n * kCounted), 0.05);
}

} // namespace
} // namespace thriftps_test
