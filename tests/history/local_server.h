/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server of one table in this process, on a disk of the caller. Without sockets, thousands of
 * power cuts take seconds. */

#pragma once

#include <mutex>
#include <string>

#include "runtime/server/durable/durable.h"
#include "tests/history/workload.h"

namespace history {

/* The size of the table. */
struct TableSize
{
  guint n_rows;
  guint n_columns;
};

class LocalServer
{
public:
  LocalServer (TpsDisk *disk, const TableSize &size) : disk_ (disk), size_ (size)
  {
  }
  ~LocalServer ();
  LocalServer (const LocalServer &) = delete;
  LocalServer &operator= (const LocalServer &) = delete;

  /* FALSE: the data directory was refused, or its recovery failed. */
  bool start (std::string *why);
  bool create_table (std::string *why);
  std::unique_ptr<Connection> connect ();
  /* Writes a snapshot and waits for its end, whether it succeeds or fails. */
  void write_snapshot (bool is_incremental);

private:
  class LocalConnection;

  TpsDisk *disk_;
  TableSize size_;
  TpsDurable *durable_ = nullptr;
  TpsWorkerPool *workers_ = nullptr;
  TpsSequencer *sequencer_ = nullptr;
  TpsTableStore *store_ = nullptr;
};

} // namespace history
