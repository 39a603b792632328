/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An embedding-table server in this process. */

#pragma once

#include <string>

#include "plugin/plugin.h"

namespace tps_test {

/* Returns a new path for a Unix socket of this process. */
std::string new_socket_path ();

class TableServer
{
public:
  /* `transport`: "unix" or "tcp". */
  explicit TableServer (const std::string &transport, gsize max_table_bytes = 0);
  ~TableServer ();
  TableServer (const TableServer &) = delete;
  TableServer &operator= (const TableServer &) = delete;

  const std::string &
  address () const
  {
    return address_;
  }
  TpsTableStore *
  store ()
  {
    return plugin_->tables;
  }
  /* Ends pending calls. Later connections are refused. */
  void stop ();

private:
  TpsPlugin *plugin_;
  TpsServer *server_;
  std::string address_;
};

}
