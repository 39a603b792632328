/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An embedding-table server in this process, and a proxy that loses its replies. */

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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

/* Forwards bytes between clients of `address()` and one server. */
class LossyProxy
{
public:
  explicit LossyProxy (const std::string &server_address);
  ~LossyProxy ();
  LossyProxy (const LossyProxy &) = delete;
  LossyProxy &operator= (const LossyProxy &) = delete;

  const std::string &
  address () const
  {
    return address_;
  }

  /* Drops the next `n` replies by closing their connections. */
  void
  lose_answers (int n)
  {
    n_to_lose_ = n;
  }
  int
  n_lost () const
  {
    return n_lost_;
  }

private:
  void accept_connections ();
  void serve (int client);
  bool shall_lose ();

  std::string server_path_;
  std::string address_;
  int listener_;
  std::atomic<int> n_to_lose_ { 0 };
  std::atomic<int> n_lost_ { 0 };
  std::mutex mutex_; /* guards the following members */
  std::vector<int> sockets_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}
