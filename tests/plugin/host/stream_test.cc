/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the host's transport and protocol alone, on one end of a socket pair. */

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "plugin/host/library.h"
#include "plugin/host/protocol.h"
#include "plugin/host/transport.h"
#include "runtime/base/error.h"
#include "tests/integration/host/wire_value.h"
#include "tests/plugin/host/fixtures.h"

using wire::Protocol;

namespace {

struct Form
{
  const char *name;
  Protocol protocol;
  bool framed;
  bool secret; /* the transport is not a plain socket */
};

std::ostream &
operator<< (std::ostream &out, const Form &form)
{
  return out << form.name;
}

class Stream : public testing::TestWithParam<Form>
{
protected:
  void
  start (TpsHostOptions options = {})
  {
    tps_repair_library (); /* otherwise the library's sockets leak */
    int fds[2];
    ASSERT_EQ (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    fd_ = fds[0];
    if (GetParam ().secret)
      inner_ = secret_socket_new (fds[1]);
    else
      {
        inner_ = THRIFT_TRANSPORT (g_object_new (THRIFT_TYPE_SOCKET, nullptr));
        THRIFT_SOCKET (inner_)->sd = fds[1];
      }
    in_ = tps_host_transport_new (inner_, &options);
    out_ = tps_host_transport_new (inner_, &options);
    reader_ = tps_host_protocol_new (in_);
    writer_ = tps_host_protocol_new (out_);
  }

  void
  TearDown () override
  {
    g_clear_object (&reader_);
    g_clear_object (&writer_);
    g_clear_object (&in_);
    g_clear_object (&out_);
    g_clear_object (&inner_);
    if (fd_ >= 0)
      close (fd_);
  }

  std::string
  on_the_wire (const wire::Message &message)
  {
    std::string bytes = wire::encode (GetParam ().protocol, message);
    return GetParam ().framed ? wire::frame (bytes) : bytes;
  }

  void
  send (std::string bytes)
  {
    if (GetParam ().secret)
      secret_socket_invert (reinterpret_cast<guint8 *> (&bytes[0]), bytes.size ());
    ASSERT_EQ (::send (fd_, bytes.data (), bytes.size (), MSG_NOSIGNAL),
               static_cast<ssize_t> (bytes.size ()));
  }

  std::string
  receive (size_t n_bytes)
  {
    std::string bytes (n_bytes, '\0');
    EXPECT_EQ (recv (fd_, &bytes[0], n_bytes, MSG_WAITALL), static_cast<ssize_t> (n_bytes));
    if (GetParam ().secret)
      secret_socket_invert (reinterpret_cast<guint8 *> (&bytes[0]), bytes.size ());
    return bytes;
  }

  /* Reads the struct { 1: i32 } of the next message. */
  int
  read_number ()
  {
    g_autofree gchar *name = nullptr;
    gchar *field_name = nullptr;
    ThriftMessageType kind;
    ThriftType type;
    gint32 seqid;
    gint16 id;
    gint32 value = -1;
    if (thrift_protocol_read_message_begin (reader_, &name, &kind, &seqid, &error_) < 0)
      return -1;
    thrift_protocol_read_struct_begin (reader_, &field_name, &error_);
    while (thrift_protocol_read_field_begin (reader_, &field_name, &type, &id, &error_) >= 0
           && type != T_STOP)
      {
        if (id == 1)
          thrift_protocol_read_i32 (reader_, &value, &error_);
        else
          thrift_protocol_skip (reader_, type, &error_);
        thrift_protocol_read_field_end (reader_, &error_);
      }
    thrift_protocol_read_struct_end (reader_, &error_);
    return thrift_protocol_read_message_end (reader_, &error_) >= 0 ? value : -1;
  }

  void
  write_number (int value, bool end = true)
  {
    thrift_protocol_write_message_begin (writer_, "m", T_REPLY, 4, &error_);
    thrift_protocol_write_struct_begin (writer_, "", &error_);
    thrift_protocol_write_field_begin (writer_, "", T_I32, 1, &error_);
    thrift_protocol_write_i32 (writer_, value, &error_);
    thrift_protocol_write_field_end (writer_, &error_);
    thrift_protocol_write_field_stop (writer_, &error_);
    thrift_protocol_write_struct_end (writer_, &error_);
    if (!end)
      return;
    EXPECT_EQ (thrift_protocol_write_message_end (writer_, &error_), 0);
    EXPECT_TRUE (thrift_transport_write_end (out_, &error_));
    EXPECT_TRUE (thrift_transport_flush (out_, &error_));
  }

  void
  expect_error (int code)
  {
    ASSERT_NE (error_, nullptr);
    EXPECT_EQ (error_->code, code) << error_->message;
    g_clear_error (&error_);
  }

  static wire::Message
  number (int value)
  {
    return { "m", wire::Reply, 4, wire::structure ({ { 1, wire::i32 (value) } }) };
  }

  int fd_ = -1;
  ThriftTransport *inner_ = nullptr;
  ThriftTransport *in_ = nullptr;
  ThriftTransport *out_ = nullptr;
  ThriftProtocol *reader_ = nullptr;
  ThriftProtocol *writer_ = nullptr;
  GError *error_ = nullptr;
};

const Form kForms[] = {
  { "FramedBinary", Protocol::Binary, true, false },
  { "FramedCompact", Protocol::Compact, true, false },
  { "UnframedBinary", Protocol::Binary, false, false },
  { "UnframedCompact", Protocol::Compact, false, false },
  { "SecretFramedBinary", Protocol::Binary, true, true },
  { "SecretUnframedCompact", Protocol::Compact, false, true },
};

INSTANTIATE_TEST_SUITE_P (Forms, Stream, testing::ValuesIn (kForms),
                          [] (const auto &form) { return std::string (form.param.name); });

TEST_P (Stream, UnfinishedMessageIsNotSent)
{
  start ();
  send (on_the_wire (number (0)));
  EXPECT_EQ (read_number (), 0);
  write_number (666, false);
  write_number (7);
  std::string expected = on_the_wire (number (7));
  EXPECT_EQ (receive (expected.size ()), expected);
}

TEST_P (Stream, EndBetweenMessagesIsTheEnd)
{
  start ();
  close (fd_);
  fd_ = -1;
  if (!GetParam ().secret)
    {
      EXPECT_FALSE (thrift_transport_peek (in_, &error_));
      EXPECT_EQ (error_, nullptr);
    }
  EXPECT_EQ (read_number (), -1);
  expect_error (TPS_ERROR_CONNECTION_LOST);
}

TEST_P (Stream, EndInsideAMessageIsAnError)
{
  start ();
  std::string bytes = on_the_wire (number (1));
  send (bytes.substr (0, bytes.size () - 2));
  close (fd_);
  fd_ = -1;
  EXPECT_EQ (read_number (), -1);
  expect_error (TPS_ERROR_CONNECTION_LOST);
}

TEST_P (Stream, AfterAnErrorNothingIsReadOrWritten)
{
  start ();
  send (GetParam ().framed ? std::string (4, '\0') : std::string (8, '\xff'));
  EXPECT_EQ (read_number (), -1);
  expect_error (TPS_ERROR_PROTOCOL);
  EXPECT_EQ (read_number (), -1);
  expect_error (TPS_ERROR_CONNECTION_LOST);
  EXPECT_FALSE (thrift_transport_peek (in_, nullptr));
}

TEST_P (Stream, StallInsideAMessageEnds)
{
  if (GetParam ().secret)
    GTEST_SKIP () << "such transports have no timeouts";
  TpsHostOptions options = {};
  options.stall_timeout_ms = 20;
  start (options);
  send (on_the_wire (number (1)).substr (0, 6));
  EXPECT_EQ (read_number (), -1);
  expect_error (TPS_ERROR_DEADLINE_EXCEEDED);
}

TEST_P (Stream, IdleTimeoutEndsTheConnection)
{
  if (GetParam ().secret)
    GTEST_SKIP () << "such transports have no timeouts";
  TpsHostOptions options = {};
  options.idle_timeout_ms = 20;
  start (options);
  EXPECT_FALSE (thrift_transport_peek (in_, &error_));
  expect_error (TPS_ERROR_DEADLINE_EXCEEDED);
}

TEST_P (Stream, PeerThatDoesNotReadIsGivenUp)
{
  if (GetParam ().secret)
    GTEST_SKIP () << "such transports have no timeouts";
  TpsHostOptions options = {};
  options.stall_timeout_ms = 20;
  start (options);
  std::string large (8 << 20, 'x');
  thrift_protocol_write_message_begin (writer_, "m", T_REPLY, 4, &error_);
  thrift_protocol_write_struct_begin (writer_, "", &error_);
  thrift_protocol_write_field_begin (writer_, "", T_STRING, 1, &error_);
  thrift_protocol_write_binary (writer_, &large[0], static_cast<guint32> (large.size ()), &error_);
  thrift_protocol_write_field_stop (writer_, &error_);
  thrift_protocol_write_struct_end (writer_, &error_);
  thrift_protocol_write_message_end (writer_, &error_);
  EXPECT_FALSE (thrift_transport_flush (out_, &error_));
  expect_error (TPS_ERROR_DEADLINE_EXCEEDED);
}

TEST_P (Stream, PeerThatIsGoneGivesAnErrorAndNoSignal)
{
  start ();
  close (fd_);
  fd_ = -1;
  thrift_protocol_write_message_begin (writer_, "m", T_REPLY, 4, &error_);
  thrift_protocol_write_struct_begin (writer_, "", &error_);
  thrift_protocol_write_field_stop (writer_, &error_);
  thrift_protocol_write_struct_end (writer_, &error_);
  thrift_protocol_write_message_end (writer_, &error_);
  EXPECT_FALSE (thrift_transport_flush (out_, &error_));
  expect_error (TPS_ERROR_CONNECTION_LOST);
}

TEST_P (Stream, OtherProtocolsAreRefused)
{
  gchar byte;
  start ();
  EXPECT_EQ (thrift_transport_read (in_, &byte, 1, &error_), -1);
  expect_error (TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_FALSE (thrift_transport_write (out_, &byte, 1, &error_));
  expect_error (TPS_ERROR_INVALID_ARGUMENT);
}

} // namespace
