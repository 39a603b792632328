/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "plugin/chunks/chunk_layout.h"
#include "tests/integration/chunks/echo_server.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps {
namespace {

/* Returns the serialised call of Echo. */
std::string
echo_call (const std::string &argument, const char *name = "Echo:echo",
           TpsMessageKind kind = TPS_MESSAGE_CALL)
{
  g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, FALSE);
  std::string bytes;
  guint n_pieces;

  tps_writer_message_begin (out, name, kind, 5);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_binary (out, argument.data (), argument.size ());
  tps_writer_struct_end (out);
  EXPECT_TRUE (tps_writer_message_end_transferred (out, nullptr));
  const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, nullptr);
  for (guint i = 0; i < n_pieces; i++)
    bytes.append (static_cast<const char *> (pieces[i].iov_base), pieces[i].iov_len);
  return bytes;
}

class Hostile : public testing::Test
{
protected:
  /* Returns the code of the error; 0 = no error. */
  int
  ask (const char *method, TpsWriteArguments write, gconstpointer arguments,
       TpsReadResult read = nullptr, gpointer result = nullptr)
  {
    g_autoptr (GError) error = nullptr;

    tps_client_call_sync (client.get (), "Chunks", method, write, arguments, later (), read, result,
                          &error);
    message = error != nullptr ? error->message : "";
    return error != nullptr ? error->code : 0;
  }

  int
  begin (const std::string &name, gint64 n_bytes, gint32 count)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name.c_str ()), n_bytes, count, 0 };

    return ask ("begin_transfer", WriteArgumentsOf<tps_begin_transfer_rpc>, &arguments,
                ReadResultOf<tps_begin_transfer_rpc>, &n_received);
  }

  int
  put (const std::string &name, gint32 index, gint32 count, const std::string &data,
       guint32 flip = 0)
  {
    struct iovec piece = { const_cast<char *> (data.data ()), data.size () };
    guint32 crc = tps_crc32c (0, data.data (), data.size ()) ^ flip;
    TpsChunk chunk = { const_cast<gchar *> (name.c_str ()),
                       index,
                       count,
                       static_cast<gint32> (crc),
                       { nullptr, &piece, 1 } };

    return ask ("put_chunk", WriteArgumentsOf<tps_put_chunk_rpc>, &chunk);
  }

  int
  run (const std::string &name)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name.c_str ()), 0, 0, 0 };

    tps_large_answer_clear (&large);
    return ask ("run_transfer", WriteArgumentsOf<tps_run_transfer_rpc>, &arguments,
                ReadResultOf<tps_run_transfer_rpc>, &large);
  }

  int
  get (const std::string &name, gint32 index)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name.c_str ()), 0, 0, index };
    g_auto (TpsChunk) chunk = {};

    return ask ("get_chunk", WriteArgumentsOf<tps_get_chunk_rpc>, &arguments,
                ReadResultOf<tps_get_chunk_rpc>, &chunk);
  }

  int
  end (const std::string &name)
  {
    TpsTransferArguments arguments = { const_cast<gchar *> (name.c_str ()), 0, 0, 0 };

    return ask ("end_transfer", WriteArgumentsOf<tps_end_transfer_rpc>, &arguments);
  }

  ~Hostile () override
  {
    tps_large_answer_clear (&large);
  }

  EchoServer server;
  EchoClient client { server.address () };
  gint32 n_received = -1;
  TpsLargeAnswer large = {};
  std::string message;
};

TEST_F (Hostile, numbersOutOfRange)
{
  EXPECT_EQ (begin ("t", 0, 1), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin ("t", -1, 1), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin ("t", 10, 0), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin ("t", 10, -5), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin ("t", 10, 11), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin ("t", G_MININT64, G_MININT32), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin ("t", G_MAXINT64, G_MAXINT32), TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (begin ("", 10, 1), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin ("a name", 10, 1), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin (std::string (256, 'x'), 10, 1), TPS_ERROR_INVALID_ARGUMENT);
  for (int i = 0; i < 2; i++)
    EXPECT_EQ (begin ("again", 100, 10), 0);
  EXPECT_EQ (begin ("again", 101, 10), TPS_ERROR_ALREADY_EXISTS);
  EXPECT_EQ (begin ("again", 100, 9), TPS_ERROR_ALREADY_EXISTS);
}

TEST_F (Hostile, chunksOfNoTransfer)
{
  EXPECT_EQ (put ("t", 0, 1, "x"), TPS_ERROR_NOT_FOUND);
  EXPECT_EQ (run ("t"), TPS_ERROR_NOT_FOUND);
  EXPECT_EQ (get ("t", 0), TPS_ERROR_NOT_FOUND);
  EXPECT_EQ (end ("t"), 0);
}

TEST_F (Hostile, aWrongCrcIsSentAgain)
{
  std::string call = echo_call ("abc");

  ASSERT_EQ (begin ("t", static_cast<gint64> (call.size ()), 1), 0);
  EXPECT_EQ (put ("t", 0, 1, call, 1), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_NE (message.find ("CRC32C"), std::string::npos) << message;
  EXPECT_EQ (run ("t"), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (put ("t", 0, 1, call), 0);
  EXPECT_EQ (put ("t", 0, 1, call), 0) << "a repeat";
  EXPECT_EQ (run ("t"), 0);
  EXPECT_EQ (large.count, 0);
  ASSERT_EQ (run ("t"), 0) << "answered again, not run again";
  EXPECT_EQ (server.n_calls (), 1);
  EXPECT_EQ (put ("t", 0, 1, call), 0) << "a repeat that comes late";
}

TEST_F (Hostile, gapsAndOtherNumbers)
{
  std::string call = echo_call (pattern (100));

  ASSERT_EQ (begin ("t", static_cast<gint64> (call.size ()), 2), 0);
  EXPECT_EQ (put ("t", 1, 2, call.substr (70)), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (put ("t", -1, 2, "x"), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (put ("t", 2, 2, "x"), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (put ("t", G_MAXINT32, 2, "x"), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (put ("t", 0, 3, call.substr (0, 70)), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (put ("t", 0, 2, call), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (put ("t", 0, 2, ""), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (begin ("t", static_cast<gint64> (call.size ()) + 1, 2), TPS_ERROR_ALREADY_EXISTS);
  EXPECT_EQ (put ("t", 0, 2, call.substr (0, 70)), 0);
  EXPECT_EQ (begin ("t", static_cast<gint64> (call.size ()), 2), 0);
  EXPECT_EQ (n_received, 1);
  EXPECT_EQ (put ("t", 1, 2, call.substr (70)), 0);
  EXPECT_EQ (run ("t"), 0);
}

TEST_F (Hostile, bytesThatAreNoCall)
{
  const std::string wrong[] = { "garbage garbage", echo_call ("abc").substr (1),
                                echo_call ("abc") + "more", std::string (1000, '\xff') };

  for (const std::string &bytes : wrong)
    {
      ASSERT_EQ (begin ("t", static_cast<gint64> (bytes.size ()), 1), 0);
      EXPECT_EQ (put ("t", 0, 1, bytes), TPS_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ (run ("t"), TPS_ERROR_NOT_FOUND) << "it has been forgotten";
    }
  for (TpsMessageKind kind : { TPS_MESSAGE_REPLY, TPS_MESSAGE_EXCEPTION, TPS_MESSAGE_ONEWAY })
    {
      std::string bytes = echo_call ("abc", "Echo:echo", kind);

      ASSERT_EQ (begin ("k", static_cast<gint64> (bytes.size ()), 1), 0);
      EXPECT_EQ (put ("k", 0, 1, bytes), 0);
      EXPECT_EQ (run ("k"), TPS_ERROR_INVALID_ARGUMENT);
      end ("k");
    }
  EXPECT_EQ (server.n_calls (), 0);
}

/* A transfer must not run itself or another transfer. */
TEST_F (Hostile, chunksWithinChunks)
{
  std::string bytes = echo_call ("t", "Chunks:run_transfer");

  ASSERT_EQ (begin ("t", static_cast<gint64> (bytes.size ()), 1), 0);
  ASSERT_EQ (put ("t", 0, 1, bytes), 0);
  ASSERT_EQ (run ("t"), 0);
  gsize n_bytes;
  auto data = static_cast<const char *> (g_bytes_get_data (large.message.received, &n_bytes));
  EXPECT_NE (std::string (data, n_bytes).find ("unknown service"), std::string::npos);
}

TEST_F (Hostile, noMoreThanTheLimit)
{
  EXPECT_EQ (begin ("a", 65 << 20, 100), TPS_ERROR_RESOURCE_EXHAUSTED);
  for (int i = 0; i < 256; i++)
    ASSERT_EQ (begin ("n" + std::to_string (i), 1, 1), 0) << i;
  EXPECT_EQ (begin ("one-too-many", 1, 1), TPS_ERROR_RESOURCE_EXHAUSTED);
}

TEST_F (Hostile, answersThatAreNotThere)
{
  std::string call = echo_call (pattern (10000));
  gint32 count = static_cast<gint32> (call.size () / 1000 + 1);

  ASSERT_EQ (begin ("t", static_cast<gint64> (call.size ()), count), 0);
  EXPECT_EQ (get ("t", 0), TPS_ERROR_INVALID_ARGUMENT);
  for (gint32 i = 0; i < count; i++)
    ASSERT_EQ (put ("t", i, count, call.substr (static_cast<gsize> (i) * 1000, 1000)), 0);
  ASSERT_EQ (run ("t"), 0);
  ASSERT_GT (large.count, 1);
  EXPECT_EQ (get ("t", -1), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (get ("t", large.count), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (get ("t", G_MAXINT32), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (get ("t", large.count - 1), 0);
  EXPECT_EQ (end ("t"), 0);
  EXPECT_EQ (get ("t", 0), TPS_ERROR_NOT_FOUND);
}

TEST_F (Hostile, oneClientRunsATransferAndAnotherEndsIt)
{
  std::string call = echo_call ("abc", "Echo:hold");

  ASSERT_EQ (begin ("t", static_cast<gint64> (call.size ()), 1), 0);
  ASSERT_EQ (put ("t", 0, 1, call), 0);
  auto answer = [&] {
    EchoClient other (server.address ());
    g_auto (TpsLargeAnswer) own = {};
    TpsTransferArguments arguments = { const_cast<gchar *> ("t"), 0, 0, 0 };

    return tps_client_call_sync (other.get (), "Chunks", "run_transfer",
                                 WriteArgumentsOf<tps_run_transfer_rpc>, &arguments, later (),
                                 ReadResultOf<tps_run_transfer_rpc>, &own, nullptr)
           && own.message.received != nullptr;
  };
  auto first = std::async (std::launch::async, answer);
  server.wait_for_held (1);
  EXPECT_EQ (get ("t", 0), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (end ("t"), 0);
  EXPECT_EQ (run ("t"), TPS_ERROR_NOT_FOUND);
  server.release ();
  EXPECT_TRUE (first.get ());
  EXPECT_EQ (server.n_calls (), 1);
}

/* Two peers use one transfer at the same time. The server must survive any interleaving. */
TEST_F (Hostile, manyClientsUseOneTransferAtOnce)
{
  std::string call = echo_call (pattern (5000));
  std::vector<std::thread> threads;

  for (int t = 0; t < 4; t++)
    threads.emplace_back ([&, t] {
      EchoClient other (server.address ());
      std::string part = call.substr (0, 2600), rest = call.substr (2600);

      for (int i = 0; i < 100; i++)
        {
          const std::string &data = i % 2 == 0 ? part : rest;
          struct iovec piece = { const_cast<char *> (data.data ()), data.size () };
          guint32 crc = tps_crc32c (0, data.data (), data.size ());
          TpsChunk chunk = {
            const_cast<gchar *> ("t"), i % 2, 2, static_cast<gint32> (crc), { nullptr, &piece, 1 }
          };
          TpsTransferArguments arguments = { const_cast<gchar *> ("t"),
                                             static_cast<gint64> (call.size ()), 2, 0 };
          const TpsWriteArguments writes[] = {
            WriteArgumentsOf<tps_begin_transfer_rpc>, WriteArgumentsOf<tps_put_chunk_rpc>,
            WriteArgumentsOf<tps_put_chunk_rpc>,      WriteArgumentsOf<tps_run_transfer_rpc>,
            WriteArgumentsOf<tps_get_chunk_rpc>,      WriteArgumentsOf<tps_end_transfer_rpc>
          };
          const char *const methods[] = { "begin_transfer", "put_chunk", "put_chunk",
                                          "run_transfer",   "get_chunk", "end_transfer" };
          int what = (i * 7 + t * 5) % 6;
          gconstpointer data_of = what == 1 || what == 2 ? static_cast<gconstpointer> (&chunk)
                                                         : &arguments;

          tps_client_call_sync (other.get (), "Chunks", methods[what], writes[what], data_of,
                                later (), nullptr, nullptr, nullptr);
        }
    });
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (client.send ("still here"), "still here");
}

} // namespace
} // namespace thriftps
