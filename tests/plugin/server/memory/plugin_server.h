// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A server with all services on a Unix socket and on TCP, and functions that observe the release of
// shared memory.

#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "plugin/plugin.h"
#include "runtime/base/error.h"

namespace thriftps_test {

// Returns the number of mappings of segments in this process. Mappings of clients in this process
// count too, until they are unmapped.
inline int
CountMappings ()
{
  FILE *maps = fopen ("/proc/self/maps", "re");
  char line[4096];
  int n = 0;

  while (fgets (line, sizeof line, maps) != nullptr)
    n += strstr (line, "thriftps-segment") != nullptr;
  fclose (maps);
  return n;
}

// Waits for a condition, if necessary until the timeout of the test.
inline void
WaitUntil (const std::function<bool ()> &is_so)
{
  while (!is_so ())
    sched_yield ();
}

// A folder for a socket. Process ids do not make its name unique, because test processes may run in
// separate sandboxes.
class SocketFolder
{
public:
  SocketFolder () : path_ (g_dir_make_tmp ("tps-XXXXXX", nullptr))
  {
  }
  ~SocketFolder ()
  {
    unlink ((std::string (path_) + "/socket").c_str ());
    rmdir (path_);
    g_free (path_);
  }
  SocketFolder (const SocketFolder &) = delete;
  SocketFolder &operator= (const SocketFolder &) = delete;

  std::string
  SocketAddress () const
  {
    return std::string ("unix:") + path_ + "/socket";
  }

private:
  gchar *path_;
};

class PluginServer
{
public:
  explicit PluginServer (TpsServerOptions options = {}, guint n_trainers = 2)
  {
    TpsPluginOptions plugin_options = {};
    TpsPluginParts parts = {};
    g_autoptr (GError) error = nullptr;

    plugin_options.n_workers = 2;
    plugin_options.n_trainers = n_trainers;
    plugin_options.max_pending_bytes = options.max_pending_bytes;
    parts.device = options.parts != nullptr ? options.parts->device : nullptr;
    plugin_options.parts = &parts;
    plugin_ = tps_plugin_new (&plugin_options, &error);
    EXPECT_NE (plugin_, nullptr) << error->message;
    server_ = tps_plugin_new_server (plugin_, &options);
    EXPECT_TRUE (tps_server_listen (server_, folder_.SocketAddress ().c_str (), nullptr));
    EXPECT_TRUE (tps_server_listen (server_, "127.0.0.1:0", nullptr));
    EXPECT_TRUE (tps_server_start (server_, nullptr));
  }

  ~PluginServer ()
  {
    EXPECT_TRUE (tps_server_stop (server_));
    g_object_unref (server_);
    tps_plugin_free (plugin_);
  }

  PluginServer (const PluginServer &) = delete;
  PluginServer &operator= (const PluginServer &) = delete;

  std::string
  Unix () const
  {
    return tps_server_get_addresses (server_)[0];
  }

  std::string
  Tcp () const
  {
    return tps_server_get_addresses (server_)[1];
  }

  TpsServer *
  Get () const
  {
    return server_;
  }

  TpsCounters *
  Counters () const
  {
    return tps_metrics_get_counters (plugin_->metrics);
  }

  // Returns the bytes of bodies and segments in use.
  gsize
  BytesOut () const
  {
    return tps_buffer_pool_get_n_bytes_out (tps_server_get_bodies (server_))
           + tps_budget_get_held (plugin_->budgets->shared);
  }

private:
  TpsPlugin *plugin_ = nullptr;
  TpsServer *server_ = nullptr;
  SocketFolder folder_;
};

} // namespace thriftps_test
