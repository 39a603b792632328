// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/plugin/server/raw_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "plugin/net/address.h"

namespace thriftps_test {

namespace {

constexpr gsize kMaxAnswerBytes = (gsize) 1 << 30;

int
Connect (const std::string &text)
{
  g_auto (TpsAddress) address = {};
  g_autoptr (GError) error = nullptr;
  gboolean in_progress = FALSE;
  int fd = -1;

  if (tps_address_parse (text.c_str (), &address, &error))
    fd = tps_address_connect (&address, &in_progress, &error);
  if (fd >= 0 && in_progress)
    {
      struct pollfd ready = { fd, POLLOUT, 0 };
      poll (&ready, 1, -1);
      tps_socket_check (fd, text.c_str (), &error);
    }
  if (error != nullptr)
    throw std::runtime_error (error->message);
  fcntl (fd, F_SETFL, 0);
  return fd;
}

// Calls `on_field` for each field of the outermost struct. `on_field` returns true if it has read
// the value.
template <typename OnField>
void
ForEachField (const Message &answer, OnField on_field)
{
  TpsReader in;
  TpsWireType type;
  gint16 id;

  tps_reader_init (&in, answer.get ());
  tps_reader_struct_begin (&in);
  while (tps_reader_field (&in, &id, &type))
    if (!on_field (&in, id, type))
      tps_reader_skip (&in, type);
}

struct ServiceError
{
  int code = 0;
  int retry_after_ms = -1;
  std::string text;
};

ServiceError
ReadServiceError (TpsReader *in)
{
  ServiceError error;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (tps_reader_field (in, &id, &type))
    if (id == 1)
      error.code = tps_reader_i32 (in);
    else if (id == 2)
      {
        TpsBytesView view = tps_reader_binary (in);
        error.text.assign ((const char *) view.data, view.n_bytes);
      }
    else
      error.retry_after_ms = tps_reader_i32 (in);
  tps_reader_struct_end (in);
  return error;
}

ServiceError
GetServiceError (const Message &answer)
{
  ServiceError error;
  if (answer->kind == TPS_MESSAGE_REPLY)
    ForEachField (answer, [&] (TpsReader *in, int id, TpsWireType type) {
      if (id != 1 || type != TPS_WIRE_STRUCT)
        return false;
      error = ReadServiceError (in);
      return true;
    });
  return error;
}

} // namespace

std::string
MessageBytes (const Wire &wire, const std::string &name, int seqid, const WriteFields &fields,
              TpsMessageKind kind)
{
  g_autoptr (TpsWriter) out = tps_writer_new (wire.protocol, wire.framed);
  std::string bytes;
  guint n_pieces;

  tps_writer_message_begin (out, name.c_str (), kind, seqid);
  tps_writer_struct_begin (out);
  if (fields)
    fields (out);
  tps_writer_struct_end (out);
  if (!tps_writer_message_end (out, nullptr))
    throw std::runtime_error ("the message is too long");
  const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, nullptr);
  for (guint i = 0; i < n_pieces; i++)
    bytes.append ((const char *) pieces[i].iov_base, pieces[i].iov_len);
  return bytes;
}

RawClient::RawClient (const std::string &address, Wire wire) : wire_ (wire), fd_ (Connect (address))
{
  TpsScannerOptions options = {};
  options.max_message_bytes = kMaxAnswerBytes;
  scanner_ = tps_scanner_new (&options);
}

RawClient::~RawClient ()
{
  tps_scanner_free (scanner_);
  close (fd_);
  for (int descriptor : descriptors_)
    close (descriptor);
}

int
RawClient::TakeDescriptor ()
{
  if (descriptors_.empty ())
    return -1;
  int descriptor = descriptors_.front ();
  descriptors_.pop_front ();
  return descriptor;
}

ssize_t
RawClient::ReceiveBytes (char *bytes, size_t size)
{
  alignas (struct cmsghdr) char control[CMSG_SPACE (16 * sizeof (int))];
  struct iovec piece = { bytes, size };
  struct msghdr header = {};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n = recvmsg (fd_, &header, MSG_CMSG_CLOEXEC);
  for (struct cmsghdr *item = CMSG_FIRSTHDR (&header); n > 0 && item != nullptr;
       item = CMSG_NXTHDR (&header, item))
    {
      int received[16];
      size_t n_bytes = item->cmsg_len - CMSG_LEN (0);
      memcpy (received, CMSG_DATA (item), n_bytes);
      descriptors_.insert (descriptors_.end (), received, received + n_bytes / sizeof (int));
    }
  return n;
}

bool
RawClient::SendBytes (const std::string &bytes)
{
  for (size_t sent = 0; sent < bytes.size ();)
    {
      ssize_t n = send (fd_, bytes.data () + sent, bytes.size () - sent, MSG_NOSIGNAL);
      if (n <= 0)
        return false;
      sent += (size_t) n;
    }
  return true;
}

bool
RawClient::Send (const std::string &name, int seqid, const WriteFields &fields, TpsMessageKind kind)
{
  return SendBytes (MessageBytes (wire_, name, seqid, fields, kind));
}

Message
RawClient::Receive ()
{
  while (true)
    {
      Message message (tps_scanner_take (scanner_));
      if (message != nullptr)
        return message;
      if (unread_.empty ())
        {
          char chunk[65536];
          ssize_t n = ReceiveBytes (chunk, sizeof chunk);
          if (n <= 0)
            return nullptr;
          unread_.assign (chunk, (size_t) n);
        }
      gsize n_consumed;
      g_autoptr (GError) error = nullptr;
      if (!tps_scanner_feed (scanner_, (const guint8 *) unread_.data (), unread_.size (),
                             &n_consumed, &error))
        throw std::runtime_error (error->message);
      unread_.erase (0, n_consumed);
    }
}

Message
RawClient::Call (const std::string &name, const WriteFields &fields, int seqid)
{
  return Send (name, seqid, fields) ? Receive () : nullptr;
}

size_t
RawClient::SendUntilStuck (const std::string &bytes, int patience_ms)
{
  size_t sent = 0;
  struct pollfd ready = { fd_, POLLOUT, 0 };
  while (sent < bytes.size () && poll (&ready, 1, patience_ms) == 1)
    {
      ssize_t n = send (fd_, bytes.data () + sent, bytes.size () - sent,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EAGAIN)
        continue;
      if (n <= 0)
        break;
      sent += (size_t) n;
    }
  return sent;
}

bool
RawClient::IsClosedByPeer ()
{
  char chunk[65536];
  ssize_t n;
  while ((n = recv (fd_, chunk, sizeof chunk, 0)) > 0)
    ;
  return true;
}

void
RawClient::StopSending ()
{
  shutdown (fd_, SHUT_WR);
}

int
ErrorCode (const Message &answer)
{
  if (answer == nullptr)
    return -1;
  return answer->kind == TPS_MESSAGE_EXCEPTION ? -2 : GetServiceError (answer).code;
}

std::string
ErrorText (const Message &answer)
{
  std::string text;
  if (answer == nullptr)
    return "(no answer)";
  if (answer->kind != TPS_MESSAGE_EXCEPTION)
    return GetServiceError (answer).text;
  ForEachField (answer, [&] (TpsReader *in, int id, TpsWireType) {
    if (id != 1)
      return false;
    TpsBytesView view = tps_reader_binary (in);
    text.assign ((const char *) view.data, view.n_bytes);
    return true;
  });
  return text;
}

int
RetryAfterMs (const Message &answer)
{
  return GetServiceError (answer).retry_after_ms;
}

int
ExceptionKind (const Message &answer)
{
  int kind = 0;
  if (answer != nullptr && answer->kind == TPS_MESSAGE_EXCEPTION)
    ForEachField (answer, [&] (TpsReader *in, int id, TpsWireType) {
      if (id != 2)
        return false;
      kind = tps_reader_i32 (in);
      return true;
    });
  return kind;
}

gint64
IntResult (const Message &answer)
{
  gint64 value = -1;
  if (answer != nullptr)
    ForEachField (answer, [&] (TpsReader *in, int id, TpsWireType type) {
      if (id != 0)
        return false;
      value = type == TPS_WIRE_I32 ? tps_reader_i32 (in) : tps_reader_i64 (in);
      return true;
    });
  return value;
}

std::string
BinaryResult (const Message &answer)
{
  std::string value;
  if (answer != nullptr)
    ForEachField (answer, [&] (TpsReader *in, int id, TpsWireType) {
      if (id != 0)
        return false;
      TpsBytesView view = tps_reader_binary (in);
      value.assign ((const char *) view.data, view.n_bytes);
      return true;
    });
  return value;
}

} // namespace thriftps_test
