/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/durable/data_server.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <stdexcept>
#include <thread>

namespace thriftps_test {

std::string
new_folder ()
{
  const char *tmp = getenv ("TEST_TMPDIR");
  std::string path = std::string (tmp != nullptr ? tmp : "/tmp") + "/data-XXXXXX";

  EXPECT_NE (mkdtemp (&path[0]), nullptr) << path;
  return path;
}

Message
create_table (RawClient &connection, const TpsTableSpec &spec)
{
  return connection.Call ("EmbeddingTable:create_table", fields_of<tps_create_table_rpc> (&spec));
}

Message
drop_table (RawClient &connection, const char *name)
{
  auto *table = const_cast<gchar *> (name);

  return connection.Call ("EmbeddingTable:drop_table", fields_of<tps_drop_table_rpc> (&table));
}

Message
take_snapshot (RawClient &connection, gboolean is_incremental)
{
  return connection.Call ("Durability:snapshot", fields_of<tps_snapshot_rpc> (&is_incremental));
}

DataServer::DataServer (const std::string &folder, const std::vector<std::string> &flags,
                        const std::vector<std::string> &wrapper)
    : command_ (wrapper)
{
  command_.insert (command_.end (), { "plugin/app/thriftps_server", "--listen=127.0.0.1:0",
                                      "--data-dir=" + folder, "--log-segment-mib=1" });
  command_.insert (command_.end (), flags.begin (), flags.end ());
}

bool
DataServer::start ()
{
  process_.reset (new ServerProcess ({ command_.begin () + 1, command_.end () }, command_[0]));
  address_ = process_->ReadAddress ();
  return !address_.empty ();
}

TpsNodeInfo
DataServer::describe ()
{
  RawClient client (address_);
  TpsNodeInfo info = {};

  EXPECT_TRUE (read_result<tps_describe_rpc> (client.Call ("Node:describe"), &info));
  return info;
}

testing::AssertionResult
DataServer::wait_until_live ()
{
  int phase = 1; /* recovering */

  while (phase == 1)
    try
      {
        g_auto (TpsNodeInfo) info = describe ();

        phase = info.has_durability ? info.durability.phase : 0;
        std::this_thread::yield ();
      }
    catch (const std::exception &)
      {
        phase = -1; /* the server has exited */
      }
  if (phase == 2)
    return testing::AssertionSuccess ();
  return testing::AssertionFailure () << "phase " << phase << ": " << process_->ReadErrors ();
}

testing::AssertionResult
DataServer::serve ()
{
  if (!start ())
    return testing::AssertionFailure () << process_->ReadErrors ();
  return wait_until_live ();
}

void
DataServer::kill ()
{
  process_->Signal (SIGKILL);
  process_->Wait ();
}

int
DataServer::stop ()
{
  process_->Signal (SIGTERM);
  return process_->Wait ();
}

} // namespace thriftps_test
