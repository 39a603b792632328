// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A server with all services on a Unix socket and on TCP, and what shows that it has let go of shared memory.

#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "plugin/plugin.h"
#include "runtime/error.h"

namespace thriftps_test {

// Mappings of segments in this process. The client's count too: a test's client unmaps, or is another process.
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

// Until the test's time is over.
inline void
WaitUntil (const std::function<bool ()> &is_so)
{
  while (!is_so ())
    sched_yield ();
}

class PluginServer
{
public:
  explicit PluginServer (TpsServerOptions options = {}, guint n_trainers = 2)
  {
    static int n_made;
    TpsPluginOptions plugin_options = {};
    g_autoptr (GError) error = nullptr;

    plugin_options.n_workers = 2;
    plugin_options.parameter_server.n_trainers = n_trainers;
    plugin_ = tps_plugin_new (&plugin_options, &error);
    EXPECT_NE (plugin_, nullptr) << error->message;
    server_ = tps_plugin_new_server (plugin_, &options);
    path_ = "/tmp/tps-mem-" + std::to_string (getpid ()) + "-" + std::to_string (n_made++);
    EXPECT_TRUE (tps_server_listen (server_, ("unix:" + path_).c_str (), nullptr));
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

  // Bytes of bodies and segments.
  gsize
  BytesOut () const
  {
    return tps_buffer_pool_get_n_bytes_out (tps_server_get_bodies (server_));
  }

private:
  TpsPlugin *plugin_ = nullptr;
  TpsServer *server_ = nullptr;
  std::string path_;
};

} // namespace thriftps_test
