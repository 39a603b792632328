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

TEST_F (Echo, whatComesBackIsWhatWasSent)
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

TEST_F (Echo, manyClientsAtOnceDoNotMeet)
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

TEST_F (Echo, anUnknownMethodIsWhatItIsInAFrame)
{
  EXPECT_EQ (client.send (pattern (20000), "nothing"), "");
  ASSERT_NE (client.error, nullptr);
  EXPECT_TRUE (g_error_matches (client.error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
      << client.error->message;
}

TEST_F (Echo, aCallThatWaitsIsAnsweredWhenItIs)
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

TEST_F (Echo, aServerThatStopsAnswersWhatRuns)
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

/* An answer that is kept is fetched under the name that the error says. */
TEST_F (Echo, anAnswerThatWaitsIsFetched)
{
  TpsService chunks = server.chunk_service ();
  g_autofree gchar *name = nullptr;
  TpsWriter *answer = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  std::string bytes = pattern (50000), joined;

  tps_writer_message_begin (answer, "m", TPS_MESSAGE_REPLY, 1);
  tps_writer_struct_begin (answer);
  tps_writer_field (answer, 0, TPS_WIRE_BINARY);
  tps_writer_binary (answer, bytes.data (), bytes.size ());
  tps_writer_struct_end (answer);
  ASSERT_TRUE (tps_writer_message_end_transferred (answer, nullptr));
  ASSERT_TRUE (chunks.keep_answer (chunks.object, answer, &name, nullptr));
  for (gint32 index = 0, count = 1; index < count; index++)
    {
      TpsTransferArguments arguments = { name, 0, 0, index };
      g_auto (TpsChunk) chunk = {};

      ASSERT_TRUE (tps_client_call_sync (client.get (), "Chunks", "get_chunk",
                                         tps_get_chunk_arguments_encode, &arguments, later (),
                                         tps_get_chunk_result_decode, &chunk, nullptr));
      count = chunk.count;
      gsize n_bytes;
      auto data = static_cast<const char *> (g_bytes_get_data (chunk.data, &n_bytes));
      joined.append (data, n_bytes);
    }
  EXPECT_NE (joined.find (bytes), std::string::npos);
}

} // namespace
} // namespace thriftps
