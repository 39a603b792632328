/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Connections of a workload to a thriftps_server, over sockets. */

#pragma once

#include "tests/history/workload.h"

namespace history {

struct RemoteTable
{
  guint n_rows;
  guint n_columns;
};

/* Returns false if the server refuses the table. Throws an exception if no server listens. */
bool create_remote_table (const std::string &address, const RemoteTable &table);

/* Returns NULL if no server listens. */
std::unique_ptr<Connection> connect_to_server (const std::string &address,
                                               const RemoteTable &table);

} // namespace history
