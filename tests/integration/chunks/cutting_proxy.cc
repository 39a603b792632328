/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/chunks/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace thriftps {
namespace {

sockaddr_in
local (int port)
{
  sockaddr_in address = {};

  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
  address.sin_port = htons (static_cast<uint16_t> (port));
  return address;
}

bool
read_all (int fd, char *bytes, size_t n_bytes)
{
  return recv (fd, bytes, n_bytes, MSG_WAITALL) == static_cast<ssize_t> (n_bytes);
}

bool
read_frame (int fd, std::string *frame)
{
  uint32_t length;

  frame->resize (4);
  if (!read_all (fd, frame->data (), 4))
    return false;
  memcpy (&length, frame->data (), 4);
  frame->resize (4 + ntohl (length));
  return read_all (fd, frame->data () + 4, frame->size () - 4);
}

} // namespace

CuttingProxy::CuttingProxy (const std::string &server, Cut cut, int n)
    : server_port_ (std::stoi (server.substr (server.rfind (':') + 1))), cut_ (cut), at_ (n)
{
  sockaddr_in address = local (0);
  socklen_t length = sizeof address;

  listener_ = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind (listener_, reinterpret_cast<sockaddr *> (&address), length) != 0
      || listen (listener_, 16) != 0)
    abort ();
  getsockname (listener_, reinterpret_cast<sockaddr *> (&address), &length);
  address_ = "127.0.0.1:" + std::to_string (ntohs (address.sin_port));
  accepting_ = std::thread ([this] { accept_all (); });
}

CuttingProxy::~CuttingProxy ()
{
  shutdown (listener_, SHUT_RDWR);
  accepting_.join ();
  for (int fd : sockets_)
    shutdown (fd, SHUT_RDWR);
  for (std::thread &thread : threads_)
    thread.join ();
  for (int fd : sockets_)
    close (fd);
  close (listener_);
}

void
CuttingProxy::accept_all ()
{
  for (;;)
    {
      int client = accept4 (listener_, nullptr, nullptr, SOCK_CLOEXEC);
      sockaddr_in address = local (server_port_);

      if (client < 0)
        return;
      int server = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      n_connections_++;
      std::lock_guard<std::mutex> guard (lock_);
      sockets_.insert (sockets_.end (), { client, server });
      if (connect (server, reinterpret_cast<sockaddr *> (&address), sizeof address) != 0)
        shutdown (client, SHUT_RDWR);
      threads_.emplace_back ([=] { pass (client, server, true); });
      threads_.emplace_back ([=] { pass (server, client, false); });
    }
}

bool
CuttingProxy::is_cut (bool is_request, int n) const
{
  return n == at_ && is_request == (cut_ != Cut::BEFORE_ANSWER);
}

bool
CuttingProxy::shall_lose ()
{
  int n = n_to_lose_;

  while (n > 0 && !n_to_lose_.compare_exchange_weak (n, n - 1))
    continue;
  n_lost_ += n > 0;
  return n > 0;
}

void
CuttingProxy::pass (int from, int to, bool is_request)
{
  std::string frame;

  while (read_frame (from, &frame))
    {
      int n = is_request ? n_requests_++ : n_answers_++;
      bool cut = (is_cut (is_request, n) && !was_cut_.exchange (true))
                 || (!is_request && shall_lose ());

      if ((!cut || cut_ == Cut::AFTER_REQUEST)
          && send (to, frame.data (), frame.size (), MSG_NOSIGNAL)
                 != static_cast<ssize_t> (frame.size ()))
        break;
      if (cut)
        break;
    }
  shutdown (from, SHUT_RDWR);
  shutdown (to, SHUT_RDWR);
}

} // namespace thriftps
