/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/plugin/client/scripted_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace tps_test {

namespace {

constexpr int WAIT_MS = 60000;
constexpr uint32_t VERSION = 0x80010000u;

int64_t
number (const std::string &bytes)
{
  int64_t value = 0;

  for (unsigned char byte : bytes)
    value = value * 256 + byte;
  return value;
}

std::string
big_endian (int64_t value, int n_bytes)
{
  std::string bytes;

  for (int i = n_bytes - 1; i >= 0; i--)
    bytes.push_back (static_cast<char> ((value >> (8 * i)) & 0xff));
  return bytes;
}

void
wait_for (int fd, short events)
{
  pollfd poll_fd = { fd, events, 0 };

  if (::poll (&poll_fd, 1, WAIT_MS) != 1)
    throw std::runtime_error ("the scripted peer waited, and nothing came");
}

}

std::string
be16 (int value)
{
  return big_endian (value, 2);
}

std::string
be32 (int64_t value)
{
  return big_endian (value, 4);
}

std::string
be64 (int64_t value)
{
  return big_endian (value, 8);
}

std::string
field (int type, int id, const std::string &value)
{
  return std::string (1, static_cast<char> (type)) + be16 (id) + value;
}

std::string
binary (const std::string &bytes)
{
  return be32 (static_cast<int64_t> (bytes.size ())) + bytes;
}

std::string
framed (const std::string &bytes)
{
  return binary (bytes);
}

std::string
message (int kind, const std::string &name, int seqid, const std::string &inside)
{
  return framed (be32 (VERSION | static_cast<uint32_t> (kind)) + binary (name) + be32 (seqid)
                 + inside + '\0');
}

std::string
reply (const std::string &name, int seqid, const std::string &inside)
{
  return message (2, name, seqid, inside);
}

std::string
reply_i64 (const std::string &name, int seqid, int64_t value)
{
  return reply (name, seqid, field (10, 0, be64 (value)));
}

std::string
service_error (const std::string &name, int seqid, int code, const std::string &text,
               int retry_after_ms)
{
  std::string error = field (8, 1, be32 (code)) + field (11, 2, binary (text));

  if (retry_after_ms >= 0)
    error += field (8, 3, be32 (retry_after_ms));
  return reply (name, seqid, field (12, 1, error + '\0'));
}

std::string
application_exception (const std::string &name, int seqid, int kind, const std::string &text)
{
  return message (3, name, seqid, field (11, 1, binary (text)) + field (8, 2, be32 (kind)));
}

Connection &
Connection::operator= (Connection &&other) noexcept
{
  std::swap (fd_, other.fd_);
  received_.swap (other.received_);
  std::swap (n_taken_, other.n_taken_);
  return *this;
}

std::string
Connection::read (size_t n_bytes)
{
  static thread_local char chunk[1 << 16];
  std::string bytes;

  while (received_.size () - n_taken_ < n_bytes)
    {
      wait_for (fd_, POLLIN);
      ssize_t rc = ::recv (fd_, chunk, sizeof chunk, 0);
      if (rc <= 0)
        throw std::runtime_error ("the client closed the connection");
      received_.append (chunk, static_cast<size_t> (rc));
    }
  bytes = received_.substr (n_taken_, n_bytes);
  n_taken_ += n_bytes;
  if (n_taken_ == received_.size ())
    {
      received_.clear ();
      n_taken_ = 0;
    }
  return bytes;
}

ReceivedCall
Connection::read_call ()
{
  ReceivedCall call;
  size_t n_name;

  call.raw = read (static_cast<size_t> (number (read (4))));
  if (number (call.raw.substr (0, 2)) != 0x8001)
    return call;
  call.kind = call.raw[3];
  n_name = static_cast<size_t> (number (call.raw.substr (4, 4)));
  call.name = call.raw.substr (8, n_name);
  call.seqid = static_cast<int> (number (call.raw.substr (8 + n_name, 4)));
  call.inside = call.raw.substr (12 + n_name);
  if (!call.inside.empty ())
    call.inside.pop_back ();
  return call;
}

void
Connection::send (const std::string &bytes)
{
  size_t n_sent = 0;

  while (n_sent < bytes.size ())
    {
      wait_for (fd_, POLLOUT);
      ssize_t rc = ::send (fd_, &bytes[n_sent], bytes.size () - n_sent, MSG_NOSIGNAL);
      if (rc < 0)
        throw std::runtime_error ("the client closed the connection");
      n_sent += static_cast<size_t> (rc);
    }
}

void
Connection::send_with_descriptors (const std::string &bytes, const std::vector<int> &descriptors)
{
  alignas (cmsghdr) char control[CMSG_SPACE (sizeof (int) * 16)] = {};
  iovec piece = { const_cast<char *> (bytes.data ()), bytes.size () };
  msghdr message = {};
  cmsghdr *header;

  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE (sizeof (int) * descriptors.size ());
  header = CMSG_FIRSTHDR (&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN (sizeof (int) * descriptors.size ());
  memcpy (CMSG_DATA (header), descriptors.data (), sizeof (int) * descriptors.size ());
  wait_for (fd_, POLLOUT);
  if (::sendmsg (fd_, &message, MSG_NOSIGNAL) != static_cast<ssize_t> (bytes.size ()))
    throw std::runtime_error ("the client closed the connection");
}

size_t
Connection::drain ()
{
  static thread_local char scratch[1 << 16];
  size_t n_bytes = received_.size () - n_taken_;
  ssize_t rc;

  do
    {
      wait_for (fd_, POLLIN);
      rc = ::recv (fd_, scratch, sizeof scratch, 0);
      n_bytes += rc > 0 ? static_cast<size_t> (rc) : 0;
    }
  while (rc > 0);
  return n_bytes;
}

void
Connection::close ()
{
  if (fd_ >= 0)
    ::close (fd_);
  fd_ = -1;
}

Listener::Listener (int port, int backlog)
{
  sockaddr_in address = {};
  socklen_t n_bytes = sizeof address;
  int on = 1;

  fd_ = ::socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::setsockopt (fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  address.sin_family = AF_INET;
  address.sin_port = htons (static_cast<uint16_t> (port));
  address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  if (::bind (fd_, reinterpret_cast<sockaddr *> (&address), sizeof address) != 0
      || ::listen (fd_, backlog) != 0
      || ::getsockname (fd_, reinterpret_cast<sockaddr *> (&address), &n_bytes) != 0)
    throw std::runtime_error ("the scripted peer cannot listen");
  port_ = ntohs (address.sin_port);
}

Listener::Listener (const std::string &path) : path_ (path)
{
  sockaddr_un address = {};

  fd_ = ::socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  address.sun_family = AF_UNIX;
  path.copy (address.sun_path, sizeof address.sun_path - 1);
  ::unlink (path.c_str ());
  if (::bind (fd_, reinterpret_cast<sockaddr *> (&address), sizeof address) != 0
      || ::listen (fd_, 16) != 0)
    throw std::runtime_error ("the scripted peer cannot listen");
}

Listener::~Listener ()
{
  ::close (fd_);
  if (!path_.empty ())
    ::unlink (path_.c_str ());
}

std::string
Listener::address () const
{
  return path_.empty () ? "127.0.0.1:" + std::to_string (port_) : "unix:" + path_;
}

Connection
Listener::accept ()
{
  int on = 1;
  int fd;

  wait_for (fd_, POLLIN);
  fd = ::accept4 (fd_, nullptr, nullptr, SOCK_CLOEXEC);
  ::setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return Connection (fd);
}

}
