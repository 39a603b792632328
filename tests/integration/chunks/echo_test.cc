/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <gtest/gtest.h>

#include <thread>

#include "tests/integration/chunks/echo_server.h"

namespace thriftps {
namespace {

class Echo : public testing::Test
{
protected:
  EchoServer server;
  EchoClient client { server.address () };
};

TEST_F (Echo, theReplyHasTheBytesOfTheRequest)
{
  std::vector<gsize> sizes = { 0, 1, 100, 70000, 1000000 };

  for (gsize around : { FRAME_BYTES / 2, FRAME_BYTES, 2 * FRAME_BYTES, ANSWER_CHUNK_BYTES })
    for (gsize n_bytes = around - 70; n_bytes < around + 10; n_bytes += 3)
      sizes.push_back (n_bytes);
  for (gsize n_bytes : sizes)
    {
      std::string bytes = pattern (n_bytes, static_cast<guint32> (n_bytes));

      EXPECT_TRUE (client.send (bytes) == bytes) << n_bytes;
      ASSERT_EQ (client.error, nullptr) << n_bytes << ": " << client.error->message;
    }
  EXPECT_EQ (server.n_calls (), static_cast<int> (sizes.size ()));
}

TEST_F (Echo, alsoFromAWorker)
{
  std::string bytes = pattern (100000);

  EXPECT_TRUE (client.send (bytes, "work") == bytes);
}

TEST_F (Echo, alsoFromACompactClient)
{
  EchoClient compact (server.address (), TPS_PROTOCOL_COMPACT);
  std::string bytes = pattern (100000);

  EXPECT_TRUE (compact.send (bytes) == bytes);
  EXPECT_EQ (compact.send ("small"), "small");
}

TEST_F (Echo, theReplyLiesInThePoolOfTheClient)
{
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (nullptr, nullptr, 0);
  std::string bytes = pattern (100000);

  tps_client_set_bodies (client.get (), pool);
  client.on_read = [&] { EXPECT_GE (tps_buffer_pool_get_n_bytes_out (pool), bytes.size ()); };
  EXPECT_TRUE (client.send (bytes) == bytes);
}

TEST_F (Echo, manyClientsAtOnceGetTheirOwnReplies)
{
  std::vector<std::thread> threads;

  for (guint32 i = 0; i < 6; i++)
    threads.emplace_back ([&, i] {
      EchoClient mine (server.address ());

      for (guint32 round = 0; round < 5; round++)
        {
          std::string bytes = pattern (20000 + 1000 * i + round, 10 * i + round);

          EXPECT_TRUE (mine.send (bytes) == bytes);
        }
    });
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (server.n_calls (), 30);
}

TEST_F (Echo, anUnknownMethodGivesTheSameErrorAsInAFrame)
{
  EXPECT_EQ (client.send (pattern (20000), "nothing"), "");
  ASSERT_NE (client.error, nullptr);
  EXPECT_TRUE (g_error_matches (client.error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
      << client.error->message;
}

TEST_F (Echo, aPendingCallDelaysNoOtherClient)
{
  std::string bytes = pattern (20000), answer;
  std::thread thread ([&] { answer = client.send (bytes, "hold"); });

  server.wait_for_held (1);
  EXPECT_EQ (EchoClient (server.address ()).send ("others go on"), "others go on");
  server.release ();
  thread.join ();
  EXPECT_TRUE (answer == bytes);
}

TEST_F (Echo, aDeadlineEndsTheCallInTime)
{
  EXPECT_EQ (client.send (pattern (20000), "hold", later (0.3)), "");
  EXPECT_TRUE (g_error_matches (client.error, TPS_ERROR, TPS_ERROR_DEADLINE_EXCEEDED));
  EXPECT_NE (std::string (client.error->message).find ("Echo:hold"), std::string::npos);
}

TEST_F (Echo, aServerThatStopsEndsRunningCalls)
{
  std::string bytes = pattern (20000), answer;
  std::thread thread ([&] { answer = client.send (bytes, "hold", later (4)); });

  server.wait_for_held (1);
  EXPECT_TRUE (tps_server_stop (server.server ()));
  thread.join ();
  EXPECT_EQ (answer == bytes, client.error == nullptr);
}

TEST_F (Echo, aClientThatIsFreedEndsItsCalls)
{
  EchoClient *gone = new EchoClient (server.address ());
  std::string bytes = pattern (20000);
  std::thread thread ([&] {
    gone->send (bytes, "hold");
    EXPECT_TRUE (g_error_matches (gone->error, TPS_ERROR, TPS_ERROR_ABORTED));
  });

  server.wait_for_held (1);
  tps_client_cancel (gone->get ());
  thread.join ();
  delete gone;
}

TEST_F (Echo, anAnswerThatWaitsIsFetched)
{
  for (gsize n_bytes : { gsize { 1 }, ANSWER_CHUNK_BYTES, gsize { 100000 } })
    {
      std::string bytes = pattern (n_bytes);

      EXPECT_TRUE (client.send (bytes, "kept") == bytes) << n_bytes;
      EXPECT_EQ (client.error, nullptr);
    }
}

} // namespace
} // namespace thriftps
