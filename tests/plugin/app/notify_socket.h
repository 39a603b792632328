// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The socket of a service manager. It receives the notifications of programs.

#pragma once

#include <glib.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>
#include <string>

namespace thriftps_test {

class NotifySocket
{
public:
  // Returns a path in a new folder, without a bound socket.
  static std::string
  InFolder ()
  {
    g_autofree gchar *folder = g_dir_make_tmp ("thriftps-XXXXXX", nullptr);
    return std::string (folder) + "/notify";
  }

  // `address` is a path, or "@NAME" for an abstract socket.
  explicit NotifySocket (const std::string &address) : address_ (address)
  {
    struct sockaddr_un un = {};
    struct timeval patience = { 120, 0 };
    fd_ = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    un.sun_family = AF_UNIX;
    memcpy (un.sun_path, address.data (), address.size ());
    if (address[0] == '@')
      un.sun_path[0] = '\0';
    setsockopt (fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (bind (fd_, reinterpret_cast<struct sockaddr *> (&un),
              (socklen_t) (offsetof (struct sockaddr_un, sun_path) + address.size ()))
        < 0)
      throw std::runtime_error ("bind " + address);
  }
  ~NotifySocket ()
  {
    close (fd_);
  }
  NotifySocket (const NotifySocket &) = delete;
  NotifySocket &operator= (const NotifySocket &) = delete;

  const std::string &
  address () const
  {
    return address_;
  }

  // Returns the next message. Throws if none arrives within two minutes.
  std::string
  Receive ()
  {
    char bytes[4096];
    ssize_t n = recv (fd_, bytes, sizeof bytes, 0);
    if (n < 0)
      throw std::runtime_error ("no message at " + address_);
    return std::string (bytes, (size_t) n);
  }

  // Returns the next message that contains `text`, and drops the messages before it.
  std::string
  WaitFor (const std::string &text)
  {
    std::string message;
    do
      message = Receive ();
    while (message.find (text) == std::string::npos);
    return message;
  }

private:
  std::string address_;
  int fd_;
};

} // namespace thriftps_test
