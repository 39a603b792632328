// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Counts how often client and server, in one process, touch unmapped memory. In the steady state
// they must reuse memory, because a page fault costs more than the copy of a page.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <tuple>

#include "plugin/service/node_service.h"
#include "tests/plugin/call_cost/tensor_service.h"
#include "tests/plugin/server/test_service.h"

namespace thriftps_test {
namespace {

constexpr int kWarmUp = 30; // calls
constexpr int kMaxWarmUps = 20;
constexpr int kCounted = 50;
constexpr int kMaxRounds = 10;

long
CountFaults ()
{
  struct rusage usage;
  EXPECT_EQ (getrusage (RUSAGE_SELF, &usage), 0);
  return usage.ru_minflt + usage.ru_majflt;
}

// The transport, and the size in MiB.
class PageFaultsTest : public ServerTest,
                       public testing::WithParamInterface<std::tuple<const char *, int>>
{
protected:
  void
  AddServices () override
  {
    TpsService tensors = tensors_.Get (), node = tps_node_service (&node_);
    node_.name = "node";
    tps_server_add_service (server_, &tensors);
    tps_server_add_service (server_, &node); // tells the client whether memory can be shared
  }

  void
  SetUp () override
  {
    auto [path, n_mib] = GetParam ();
    ServerTest::SetUp ();
    is_shared_ = strcmp (path, "shared") == 0;
    client_ = std::make_unique<TensorClient> (strcmp (path, "tcp") == 0 ? tcp_ : unix_, is_shared_);
    tps_tensor_init_1d (&tensor_, TPS_DTYPE_FLOAT32, (gint64) n_mib << 18);
    memset (tps_tensor_data (&tensor_), 1, (gsize) n_mib << 20);
  }

  void
  TearDown () override
  {
    tps_tensor_clear (&tensor_);
    client_.reset ();
    ServerTest::TearDown ();
  }

  void
  Push ()
  {
    client_->Push (tensor_);
  }

  // Compares every page of the reply, so all its pages are touched.
  void
  Echo ()
  {
    g_auto (TpsTensor) answer = {};
    client_->Echo (tensor_, &answer);
    ASSERT_EQ (tps_shape_n_bytes (&answer.shape), tps_shape_n_bytes (&tensor_.shape));
    EXPECT_EQ (memcmp (tps_tensor_data (&answer), tps_tensor_data (&tensor_),
                       tps_shape_n_bytes (&answer.shape)),
               0);
  }

  // Shared memory is set up in the background after the first inline tensors, so the warm-up lasts
  // until no tensor travels inline.
  template <typename Call>
  void
  WarmUp (Call call)
  {
    bool is_settled = false;
    for (int n = 0; !is_settled && n < kMaxWarmUps && !HasFailure (); n++)
      {
        guint64 n_inline = client_->CountInline ();
        for (int i = 0; i < kWarmUp; i++)
          call ();
        is_settled = !is_shared_ || client_->CountInline () == n_inline;
      }
    ASSERT_TRUE (is_settled) << "tensors do not go through shared memory";
  }

  // A single round may touch new memory: the number of buffers in use depends on the timing of the
  // threads, and cached buffers are released after a while. Faults of the steady state would occur
  // in every round, so one round without faults is enough.
  template <typename Call>
  void
  ExpectNoFaults (Call call)
  {
    double n = 1;

    WarmUp (call);
    for (int round = 0; n >= 1 && round < kMaxRounds; round++)
      {
        long before = CountFaults ();

        for (int i = 0; i < kCounted; i++)
          call ();
        n = (double) (CountFaults () - before) / kCounted;
        std::printf ("%.2f page faults per call, of %d pages\n", n,
                     std::get<1> (GetParam ()) * 256);
      }
    EXPECT_LT (n, 1);
  }

  TensorService tensors_;
  TpsNode node_ = {};
  std::unique_ptr<TensorClient> client_;
  TpsTensor tensor_ = {};
  bool is_shared_ = false;
};

TEST_P (PageFaultsTest, APushCostsNone)
{
  ExpectNoFaults ([this] { Push (); });
}

TEST_P (PageFaultsTest, AnEchoCostsNone)
{
  ExpectNoFaults ([this] { Echo (); });
}

INSTANTIATE_TEST_SUITE_P (Paths, PageFaultsTest,
                          testing::Combine (testing::Values ("tcp", "unix", "shared"),
                                            testing::Values (1, 16)),
                          [] (const auto &of) {
                            return std::string (std::get<0> (of.param))
                                   + std::to_string (std::get<1> (of.param)) + "MiB";
                          });

} // namespace
} // namespace thriftps_test
