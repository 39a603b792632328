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

/* Returns the phase, or -1 if the server has exited. */
int
DataServer::get_phase ()
{
  try
    {
      g_auto (TpsNodeInfo) info = describe ();

      return info.has_durability ? info.durability.phase : 0;
    }
  catch (const std::exception &)
    {
      return -1;
    }
}

void
DataServer::wait_until_live ()
{
  for (;;)
    {
      int phase = get_phase ();

      if (phase == 2)
        return;
      ASSERT_EQ (phase, 1) << "recovering, or live: " << process_->ReadErrors ();
      std::this_thread::yield ();
    }
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
