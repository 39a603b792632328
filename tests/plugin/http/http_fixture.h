// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A TpsServer with its HTTP server, and clients that send raw bytes.

#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "plugin/http/http.h"
#include "plugin/net/address.h"

namespace thriftps_test {

constexpr int wait_ms = 60000;

// A new connection. Its methods block.
class Socket
{
public:
  explicit Socket (const std::string &url, int receive_buffer = 0)
  {
    g_auto (TpsAddress) address = { nullptr, nullptr, 0 };
    gboolean in_progress;
    tps_address_parse (url.substr (strlen ("http://")).c_str (), &address, nullptr);
    fd_ = tps_address_connect (&address, &in_progress, nullptr);
    Wait (POLLOUT);
    if (receive_buffer > 0)
      setsockopt (fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  ~Socket ()
  {
    Close ();
  }
  Socket (const Socket &) = delete;
  Socket &operator= (const Socket &) = delete;

  void
  Close ()
  {
    if (fd_ >= 0)
      close (fd_);
    fd_ = -1;
  }

  // Sends all bytes. If the peer has closed the connection, it drops the rest.
  void
  Send (const std::string &bytes)
  {
    for (size_t sent = 0; sent < bytes.size ();)
      {
        ssize_t n = send (fd_, bytes.data () + sent, bytes.size () - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
          return;
        if (n < 0)
          Wait (POLLOUT);
        sent += n > 0 ? static_cast<size_t> (n) : 0;
      }
  }

  // Reads until `end` has arrived or the connection has ended.
  std::string
  Receive (const std::string &end = "")
  {
    std::string all;
    char chunk[4096];
    while (end.empty () || all.find (end) == std::string::npos)
      {
        Wait (POLLIN);
        ssize_t n = recv (fd_, chunk, sizeof chunk, 0);
        if (n < 0 && errno == EAGAIN)
          ADD_FAILURE () << "nothing came";
        if (n <= 0)
          break;
        all.append (chunk, static_cast<size_t> (n));
      }
    return all;
  }

private:
  void
  Wait (short events)
  {
    struct pollfd ready = { fd_, events, 0 };
    poll (&ready, 1, wait_ms);
  }

  int fd_ = -1;
};

inline std::string
Request (const std::string &path, const std::string &headers = "",
         const std::string &method = "GET", const std::string &host = "localhost")
{
  return method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n";
}

class Servers
{
public:
  explicit Servers (TpsHttpOptions http = {}, const std::vector<TpsHttpEndpoint> &endpoints = {})
  {
    TpsPluginOptions options = {};
    g_autoptr (GError) error = nullptr;
    options.n_workers = 1;
    options.n_trainers = 2;
    plugin_ = tps_plugin_new (&options, &error);
    server_ = tps_plugin_new_server (plugin_, nullptr);
    EXPECT_TRUE (tps_server_listen (server_, "127.0.0.1:0", &error));
    http.plugin = plugin_;
    http.server = server_;
    http_ = tps_http_new (&http);
    for (const TpsHttpEndpoint &endpoint : endpoints)
      tps_http_add_endpoint (http_, &endpoint);
    EXPECT_TRUE (tps_http_listen (http_, "127.0.0.1:0", &error));
    started_ = tps_http_start (http_, &error);
    if (error != nullptr)
      message_ = error->message;
  }

  ~Servers ()
  {
    tps_server_stop (server_);
    tps_http_free (http_);
    g_object_unref (server_);
    tps_plugin_free (plugin_);
  }

  void
  StartThrift ()
  {
    g_autoptr (GError) error = nullptr;
    ASSERT_TRUE (tps_server_start (server_, &error)) << error->message;
  }

  std::string
  url () const
  {
    return tps_http_get_addresses (http_)[0];
  }

  std::string
  Exchange (const std::string &bytes) const
  {
    Socket socket (url ());
    socket.Send (bytes);
    return socket.Receive ();
  }

  std::string
  Get (const std::string &path, const std::string &headers = "") const
  {
    return Exchange (Request (path, headers));
  }

  TpsServer *
  server () const
  {
    return server_;
  }
  TpsPlugin *
  plugin () const
  {
    return plugin_;
  }
  TpsHttp *
  http () const
  {
    return http_;
  }
  bool
  started () const
  {
    return started_;
  }
  const std::string &
  message () const
  {
    return message_;
  }

private:
  TpsPlugin *plugin_ = nullptr;
  TpsServer *server_ = nullptr;
  TpsHttp *http_ = nullptr;
  bool started_ = false;
  std::string message_;
};

} // namespace thriftps_test
