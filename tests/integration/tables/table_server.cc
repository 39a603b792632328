/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/tables/table_server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace tps_test {

std::string
new_socket_path ()
{
  static std::atomic<int> n_paths { 0 };

  return "tables_" + std::to_string (getpid ()) + "_" + std::to_string (n_paths++) + ".sock";
}

TableServer::TableServer (const std::string &transport, gsize max_table_bytes)
{
  TpsPluginOptions options = {};
  std::string listen = transport == "unix" ? "unix:" + new_socket_path () : "127.0.0.1:0";
  g_autoptr (GError) error = nullptr;

  options.n_trainers = 1;
  options.max_table_bytes = max_table_bytes;
  options.n_workers = 2;
  plugin_ = tps_plugin_new (&options, &error);
  EXPECT_NE (plugin_, nullptr) << error->message;
  server_ = tps_plugin_new_server (plugin_, nullptr);
  EXPECT_TRUE (tps_server_listen (server_, listen.c_str (), &error)) << error->message;
  EXPECT_TRUE (tps_server_start (server_, &error)) << error->message;
  address_ = tps_server_get_addresses (server_)[0];
}

TableServer::~TableServer ()
{
  stop ();
  g_object_unref (server_);
  tps_plugin_free (plugin_);
}

void
TableServer::stop ()
{
  tps_server_stop (server_);
}

/* -- the proxy -- */

static sockaddr_un
address_of (const std::string &path)
{
  sockaddr_un address = {};

  address.sun_family = AF_UNIX;
  strncpy (address.sun_path, path.c_str (), sizeof address.sun_path - 1);
  return address;
}

LossyProxy::LossyProxy (const std::string &server_address)
    : server_path_ (server_address.substr (strlen ("unix:")))
{
  std::string path = new_socket_path ();
  sockaddr_un address = address_of (path);

  address_ = "unix:" + path;
  listener_ = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ (bind (listener_, reinterpret_cast<sockaddr *> (&address), sizeof address), 0);
  EXPECT_EQ (listen (listener_, 16), 0);
  acceptor_ = std::thread (&LossyProxy::accept_connections, this);
}

LossyProxy::~LossyProxy ()
{
  std::vector<std::thread> threads;

  shutdown (listener_, SHUT_RDWR);
  acceptor_.join ();
  {
    std::lock_guard<std::mutex> lock (mutex_);

    for (int fd : sockets_)
      shutdown (fd, SHUT_RDWR);
    threads.swap (threads_);
  }
  for (std::thread &thread : threads)
    thread.join ();
  for (int fd : sockets_)
    close (fd);
  close (listener_);
}

void
LossyProxy::accept_connections ()
{
  int client;

  while ((client = accept4 (listener_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0)
    {
      std::lock_guard<std::mutex> lock (mutex_);

      sockets_.push_back (client);
      threads_.emplace_back (&LossyProxy::serve, this, client);
    }
}

static bool
pass (int from, int to)
{
  char bytes[65536];
  ssize_t n = read (from, bytes, sizeof bytes);

  for (ssize_t sent = 0, once; sent < n; sent += once)
    {
      once = send (to, bytes + sent, static_cast<size_t> (n - sent), MSG_NOSIGNAL);
      if (once <= 0)
        return false;
    }
  return n > 0;
}

bool
LossyProxy::shall_lose ()
{
  int n = n_to_lose_;

  while (n > 0 && !n_to_lose_.compare_exchange_weak (n, n - 1))
    continue;
  n_lost_ += n > 0;
  return n > 0;
}

void
LossyProxy::serve (int client)
{
  sockaddr_un address = address_of (server_path_);
  int server = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  {
    std::lock_guard<std::mutex> lock (mutex_);

    sockets_.push_back (server);
  }
  if (connect (server, reinterpret_cast<sockaddr *> (&address), sizeof address) == 0)
    for (;;)
      {
        pollfd ends[] = { { client, POLLIN, 0 }, { server, POLLIN, 0 } };

        if (poll (ends, 2, -1) < 0)
          break;
        /* When the server starts its reply, it has executed the request. */
        if (ends[1].revents != 0 && (shall_lose () || !pass (server, client)))
          break;
        if (ends[0].revents != 0 && !pass (client, server))
          break;
      }
  shutdown (client, SHUT_RDWR);
  shutdown (server, SHUT_RDWR);
}

}
