/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server of one table in this process, on a disk that the caller provides. It uses no sockets, so
 * thousands of power cuts take only seconds. */

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

  /* Returns false if the data directory is refused or its recovery fails. */
  bool start (std::string *why);
  bool create_table (std::string *why);
  std::unique_ptr<Connection> connect ();
  /* Writes a snapshot, and waits until it has succeeded or failed. */
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
