// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A connection whose other end is a plain socket.

#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/net/connection.h"

namespace tps_test {

inline TpsWriter *
NewMessage (int seqid, size_t body_bytes)
{
  TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  std::string body (body_bytes, (char) ('a' + seqid % 26));
  tps_writer_message_begin (out, "call", TPS_MESSAGE_CALL, seqid);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_binary (out, body.data (), body.size ());
  tps_writer_struct_end (out);
  EXPECT_TRUE (tps_writer_message_end (out, nullptr));
  return out;
}

inline std::string
ToBytes (int seqid, size_t body_bytes)
{
  g_autoptr (TpsWriter) out = NewMessage (seqid, body_bytes);
  std::string bytes;
  guint n_pieces;
  gsize n_bytes;
  const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  for (guint i = 0; i < n_pieces; i++)
    bytes.append (static_cast<const char *> (pieces[i].iov_base), pieces[i].iov_len);
  return bytes;
}

// One end is a connection on a loop, and the other is a plain blocking socket.
class ConnectionTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    int fds[2];
    ASSERT_EQ (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    ASSERT_EQ (fcntl (fds[0], F_SETFL, O_NONBLOCK), 0);
    if (send_buffer_ != nullptr)
      {
        ASSERT_EQ (setsockopt (fds[0], SOL_SOCKET, SO_SNDBUF, send_buffer_, sizeof *send_buffer_),
                   0);
      }
    peer_ = fds[1];
    loop_ = tps_loop_new ("test", nullptr);
    TpsScannerOptions options = {};
    options.max_message_bytes = 64 << 20;
    TpsConnectionEvents events = { OnMessage, OnClosed, on_descriptor_ };
    connection_ = tps_connection_new (loop_, fds[0], &options, &events, this);
  }

  void
  TearDown () override
  {
    tps_connection_close (connection_);
    WaitUntil ([this] { return closed_; });
    tps_connection_unref (connection_);
    tps_loop_free (loop_);
    ClosePeer ();
    for (auto *message : messages_)
      tps_message_free (message);
  }

  void
  Start ()
  {
    OnLoop ([this] { tps_connection_start (connection_); });
  }
  void
  ClosePeer ()
  {
    if (peer_ >= 0)
      close (peer_);
    peer_ = -1;
  }
  static void
  RunFunction (gpointer data)
  {
    (*static_cast<std::function<void ()> *> (data)) ();
  }
  void
  OnLoop (std::function<void ()> function)
  {
    tps_loop_call (loop_, RunFunction, &function);
  }
  // Waits until the loop has taken at least two turns. The first turn polls, and the second runs
  // the posts of the first.
  void
  Settle ()
  {
    for (int i = 0; i < 4; i++)
      OnLoop ([] {});
  }
  void
  WaitUntil (const std::function<bool ()> &condition)
  {
    std::unique_lock<std::mutex> guard (lock_);
    changed_.wait (guard, condition);
  }
  void
  WaitForMessages (size_t n)
  {
    WaitUntil ([this, n] { return messages_.size () >= n || closed_; });
  }
  size_t
  NMessages ()
  {
    std::lock_guard<std::mutex> guard (lock_);
    return messages_.size ();
  }
  bool
  IsClosed ()
  {
    std::lock_guard<std::mutex> guard (lock_);
    return closed_;
  }
  void
  PeerSends (const std::string &bytes)
  {
    for (size_t sent = 0; sent < bytes.size ();)
      {
        ssize_t n = send (peer_, bytes.data () + sent, bytes.size () - sent, MSG_NOSIGNAL);
        ASSERT_GT (n, 0);
        sent += (size_t) n;
      }
  }
  std::string
  PeerReceives (size_t n_bytes)
  {
    std::string bytes (n_bytes, '\0');
    EXPECT_EQ (recv (peer_, &bytes[0], n_bytes, MSG_WAITALL), (ssize_t) n_bytes);
    return bytes;
  }

  static void
  OnMessage (TpsConnection *, TpsMessage *message, gpointer data)
  {
    auto *test = static_cast<ConnectionTest *> (data);
    if (test->on_message_)
      test->on_message_ (message);
    std::lock_guard<std::mutex> guard (test->lock_);
    test->messages_.push_back (message);
    test->changed_.notify_all ();
  }
  static void
  OnClosed (TpsConnection *, const GError *error, gpointer data)
  {
    auto *test = static_cast<ConnectionTest *> (data);
    std::lock_guard<std::mutex> guard (test->lock_);
    EXPECT_FALSE (test->closed_);
    test->closed_ = true;
    test->error_ = error != nullptr ? error->message : "";
    test->error_code_ = error != nullptr ? error->code : 0;
    test->changed_.notify_all ();
  }

  TpsLoop *loop_ = nullptr;
  TpsConnection *connection_ = nullptr;
  int peer_ = -1;
  std::function<void (TpsMessage *)> on_message_;
  void (*on_descriptor_) (TpsConnection *, gint, gpointer) = nullptr; // set before SetUp()
  const int *send_buffer_ = nullptr; // bytes of the socket's buffer; set before SetUp()

  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<TpsMessage *> messages_;
  bool closed_ = false;
  std::string error_;
  int error_code_ = 0;
};

} // namespace tps_test
