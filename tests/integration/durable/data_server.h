/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thriftps_server with a data directory, as a process that can be killed and restarted. */

#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "plugin/wire/wire_durability.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_node.h"
#include "plugin/wire/wire_parameter_server.h"
#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/raw_client.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {

/* Returns a new empty folder of this test. */
std::string new_folder ();

/* Returns a function that writes the fields of a call's arguments. `arguments` must remain valid
 * until then. */
template <const TpsRpc &rpc, typename Arguments>
WriteFields
fields_of (const Arguments *arguments)
{
  return [arguments] (TpsWriter *out) { tps_rpc_write_arguments (&rpc, out, arguments); };
}

/* Reads the success value of a reply. Returns false if the reply has none. */
template <const TpsRpc &rpc, typename Result>
bool
read_result (const Message &reply, Result *result)
{
  TpsReader in;
  TpsWireType type;
  gint16 id;

  if (ErrorCode (reply) != 0)
    return false;
  tps_reader_init (&in, reply.get ());
  return tps_reader_field (&in, &id, &type)
         && tps_rpc_read_result (&rpc, &in, type, result, nullptr);
}

/* Make a call and return its reply. */
Message create_table (RawClient &connection, const TpsTableSpec &spec);
Message drop_table (RawClient &connection, const char *name);
Message take_snapshot (RawClient &connection, gboolean is_incremental = FALSE);

class DataServer
{
public:
  /* `wrapper` is a program with its arguments that runs the command line after them; empty =
   * none. */
  explicit DataServer (const std::string &folder, const std::vector<std::string> &flags = {},
                       const std::vector<std::string> &wrapper = {});

  /* Starts the process and waits until it listens. Returns false if the process exits instead. */
  bool start ();
  /* Waits until the recovery has succeeded. A failure has the server's output. */
  testing::AssertionResult wait_until_live ();
  /* start() and wait_until_live() */
  testing::AssertionResult serve ();
  /* Sends SIGKILL. */
  void kill ();
  /* Sends SIGTERM. Returns the exit code. */
  int stop ();

  /* Calls Node.describe. */
  TpsNodeInfo describe ();

  const std::string &
  address () const
  {
    return address_;
  }
  ServerProcess &
  process ()
  {
    return *process_;
  }

private:
  std::vector<std::string> command_;
  std::unique_ptr<ServerProcess> process_;
  std::string address_;
};

} // namespace thriftps_test
