/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <gtest/gtest.h>

#include "tests/integration/chunks/cutting_proxy.h"
#include "tests/integration/chunks/echo_server.h"

namespace thriftps {
namespace {

class Resume : public testing::TestWithParam<Cut>
{
};

/* Wherever the connection is cut after the start of the transfer, the call must run once and its
 * reply must arrive. */
TEST_P (Resume, afterACutAtAnyPoint)
{
  std::string bytes = pattern (8 * FRAME_BYTES);

  for (int at = 0;; at++)
    {
      EchoServer server;
      CuttingProxy proxy (server.address (), GetParam (), at);
      EchoClient client (proxy.address ());
      std::string answer = client.send (bytes);

      if (!proxy.was_cut ())
        {
          EXPECT_TRUE (answer == bytes);
          EXPECT_GT (at, 15) << "all frames of a call were cut once";
          break;
        }
      /* If Node.describe or begin_transfer is cut, the call has not started, so it fails and the
       * caller may repeat it. The client calls describe again on the next connection. */
      if (client.error != nullptr)
        {
          EXPECT_LE (at, 2) << client.error->message;
          EXPECT_TRUE (g_error_matches (client.error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST));
          EXPECT_EQ (server.n_calls (), 0);
          continue;
        }
      ASSERT_TRUE (answer == bytes) << at;
      ASSERT_EQ (server.n_calls (), 1) << at;
      ASSERT_LE (proxy.n_connections (), 2) << at;
    }
}

INSTANTIATE_TEST_SUITE_P (Cuts, Resume,
                          testing::Values (Cut::BEFORE_REQUEST, Cut::AFTER_REQUEST,
                                           Cut::BEFORE_ANSWER));

TEST (ResumeOnce, resendsOnlyTheChunksInFlight)
{
  EchoServer server;
  std::string bytes = pattern (40 * FRAME_BYTES);
  CuttingProxy whole (server.address (), Cut::BEFORE_REQUEST, -1);
  EchoClient (whole.address ()).send (bytes);
  CuttingProxy cut (server.address (), Cut::AFTER_REQUEST, 30);

  EXPECT_TRUE (EchoClient (cut.address ()).send (bytes) == bytes);
  EXPECT_EQ (cut.n_connections (), 2);
  EXPECT_LE (cut.n_requests (), whole.n_requests () + 8);
}

} // namespace
} // namespace thriftps
