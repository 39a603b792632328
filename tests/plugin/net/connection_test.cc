// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/net/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "plugin/frame/message.h"
#include "runtime/base/error.h"
#include "tests/plugin/net/connection_fixture.h"

namespace {

using tps_test::ConnectionTest;
using tps_test::NewMessage;
using tps_test::ToBytes;

constexpr gint64 kSecond = 1000000000;
constexpr TpsConnectionPatience kPatience = { 60 * kSecond, 60 * kSecond };

TEST_F (ConnectionTest, SendsWholeMessagesOfManyThreads)
{
  constexpr int kThreads = 4;
  constexpr int kMessages = 500;
  std::vector<std::thread> threads;
  TpsScannerOptions options = {};
  options.max_message_bytes = 1 << 20;
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&options);
  std::vector<int> next (kThreads, 0);
  Start ();
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back ([this, t] {
      for (int i = 0; i < kMessages; i++)
        tps_connection_send (connection_, NewMessage (t * kMessages + i, (size_t) (i % 7) * 900));
    });
  for (int n_messages = 0; n_messages < kThreads * kMessages;)
    {
      guint8 chunk[3000];
      ssize_t n = recv (peer_, chunk, sizeof chunk, 0);
      ASSERT_GT (n, 0);
      for (gsize at = 0; at < (gsize) n;)
        {
          gsize n_consumed;
          ASSERT_TRUE (
              tps_scanner_feed (scanner, chunk + at, (gsize) n - at, &n_consumed, nullptr));
          at += n_consumed;
          while (TpsMessage *message = tps_scanner_take (scanner))
            {
              EXPECT_EQ (message->seqid % kMessages, next[(size_t) (message->seqid / kMessages)]++);
              tps_message_free (message);
              n_messages++;
            }
        }
    }
  for (auto &thread : threads)
    thread.join ();
}

TEST_F (ConnectionTest, HandsOutNothingWhilePaused)
{
  std::string bytes;
  for (int i = 0; i < 10; i++)
    bytes += ToBytes (i, 5);
  on_message_ = [this] (TpsMessage *message) {
    if (message->seqid % 3 == 2)
      tps_connection_pause (connection_);
  };
  Start ();
  PeerSends (bytes);
  for (size_t expected : { 3u, 6u, 9u, 10u })
    {
      WaitForMessages (expected);
      Settle ();
      EXPECT_EQ (NMessages (), expected);
      tps_connection_resume (connection_);
    }
}

TEST_F (ConnectionTest, DoesNotReadWhileTooMuchIsQueued)
{
  on_message_ = [this] (TpsMessage *message) {
    tps_connection_send (connection_, NewMessage (message->seqid, 1 << 20));
  };
  tps_connection_set_max_queued (connection_, 1000, nullptr);
  Start ();
  for (int i = 0; i < 5; i++)
    PeerSends (ToBytes (i, 5000));
  WaitForMessages (1);
  Settle ();
  EXPECT_EQ (NMessages (), 1u);
  for (int i = 0; i < 5; i++)
    EXPECT_TRUE (PeerReceives (ToBytes (i, 1 << 20).size ()) == ToBytes (i, 1 << 20));
  WaitForMessages (5);
  EXPECT_EQ (NMessages (), 5u);
}

// Memory that a message needs in addition to its bytes also counts.
TEST_F (ConnectionTest, DoesNotReadWhileTooManyMessagesAreQueued)
{
  constexpr int kMessages = 5000;
  size_t n_bytes = 0;
  tps_connection_set_max_queued (connection_, 1 << 20, nullptr);
  Start ();
  for (int i = 0; i < kMessages; i++)
    {
      n_bytes += ToBytes (i, 10).size ();
      tps_connection_send (connection_, NewMessage (i, 10));
    }
  PeerSends (ToBytes (1, 10));
  Settle ();
  EXPECT_EQ (NMessages (), 0u);
  EXPECT_LT (tps_connection_get_n_bytes_queued (connection_), (gsize) 1 << 20);
  PeerReceives (n_bytes);
  WaitForMessages (1);
  EXPECT_EQ (NMessages (), 1u);
}

TEST_F (ConnectionTest, SendsAMessageOfManyPieces)
{
  constexpr int kPieces = 1000;
  constexpr size_t kBytes = 5000;
  std::string piece (kBytes, 'x');
  TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  tps_writer_message_begin (out, "call", TPS_MESSAGE_CALL, 1);
  tps_writer_struct_begin (out);
  for (int i = 0; i < kPieces; i++)
    {
      tps_writer_field (out, (gint16) (i + 1), TPS_WIRE_BINARY);
      tps_writer_binary_borrowed (out, piece.data (), piece.size ());
    }
  tps_writer_struct_end (out);
  ASSERT_TRUE (tps_writer_message_end (out, nullptr));
  std::string expected;
  guint n_pieces;
  const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, nullptr);
  ASSERT_GT (n_pieces, (guint) kPieces);
  for (guint i = 0; i < n_pieces; i++)
    expected.append (static_cast<const char *> (pieces[i].iov_base), pieces[i].iov_len);
  expected += ToBytes (2, 10);

  Start ();
  tps_connection_send (connection_, out);
  tps_connection_send (connection_, NewMessage (2, 10));
  std::string received;
  for (size_t step = 1; received.size () < expected.size (); step = step * 7 % 20011)
    received += PeerReceives (std::min (step, expected.size () - received.size ()));
  EXPECT_TRUE (received == expected);
  Settle (); /* `piece` is lent until the loop has noticed that all of it was sent */
}

// The connection must leave the loop its turns: a function that is posted during the first message
// must run after some of the messages, and not after all of them.
TEST_F (ConnectionTest, LeavesOthersTheirTurnAmongManySmallMessages)
{
  constexpr size_t kMessages = 3000;
  std::string bytes;
  size_t n_before = 0;
  std::function<void ()> other = [this, &n_before] { n_before = NMessages (); };
  for (size_t i = 0; i < kMessages; i++)
    bytes += ToBytes (1, 1);
  on_message_ = [this, &other, &n_before] (TpsMessage *) {
    if (NMessages () == 0)
      tps_loop_post (loop_, RunFunction, &other);
  };
  PeerSends (bytes);
  Start ();
  WaitForMessages (kMessages);
  Settle ();
  EXPECT_GT (n_before, 0u);
  EXPECT_LT (n_before, 600u);
}

TEST_F (ConnectionTest, EndsOnceHoweverOftenItIsClosed)
{
  Start ();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back ([this] {
      tps_connection_send (connection_, NewMessage (1, 1 << 20));
      tps_connection_close (connection_);
    });
  for (auto &thread : threads)
    thread.join ();
  WaitUntil ([this] { return closed_; });
}

// The memory of a message is allocated as soon as its length is known.
TEST_F (ConnectionTest, ClosesOnALargeMessageThatTrickles)
{
  std::string bytes = ToBytes (1, 32 << 20);
  Start ();
  PeerSends (bytes.substr (0, 5000));
  Settle ();
  for (int i = 0; i < 4; i++)
    {
      PeerSends (bytes.substr (5000 + (size_t) i * 5000, 5000));
      Settle ();
      OnLoop ([this, i] {
        tps_connection_check_progress (connection_, (1 + i * 25) * kSecond, &kPatience);
      });
    }
  WaitUntil ([this] { return closed_; });
  EXPECT_THAT (error_, testing::HasSubstr ("has stopped sending in the middle of a message"));
}

} // namespace
