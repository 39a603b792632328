/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/tables/table_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

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

}
