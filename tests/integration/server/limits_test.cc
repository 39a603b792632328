// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// thriftps_server under limits of the system: a start that fails must end with a message and status
// 1, and not with a signal.

#include <glib.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/raw_client.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

TEST (Limits, AThreadThatCannotStartIsAnError)
{
  int n_threads = 0;
  for (std::string line; line.empty (); n_threads++)
    {
      ASSERT_LT (n_threads, 200);
      ServerProcess server ({ "LD_PRELOAD=tests/integration/server/libfew_threads.so",
                              "MAX_THREADS=" + std::to_string (n_threads),
                              "plugin/app/thriftps_server", "--listen=127.0.0.1:0",
                              "--http=127.0.0.1:0", "--otlp=http://127.0.0.1:9", "--io-threads=2",
                              "--data-dir=" + TemporaryFolder () + "/data", "--log-segment-mib=1" },
                            "/usr/bin/env");
      line = server.ReadLine ();
      if (!line.empty ())
        server.Signal (SIGTERM);
      std::string errors = server.ReadErrors ();
      ASSERT_EQ (server.Wait (), line.empty () ? 1 : 0) << n_threads << ": " << errors;
      EXPECT_THAT (errors, HasSubstr (!line.empty ()   ? "server_started"
                                      : n_threads == 0 ? "cannot start thread gmain"
                                                       : "cannot start thread tps-"))
          << n_threads;
    }
  EXPECT_GT (n_threads, 8); // the limit applied
}

// A server that is started must be able to take a connection.
TEST (Limits, ATooSmallTableOfDescriptorsIsAnError)
{
  int n_started = 0;
  for (int limit = 8; limit < 56 && n_started < 3; limit += 2)
    {
      ServerProcess server ({ "-c", "ulimit -n " + std::to_string (limit)
                                        + "; exec plugin/app/thriftps_server --listen=127.0.0.1:0 "
                                          "--io-threads=2 --log-segment-mib=1 --data-dir="
                                        + TemporaryFolder () + "/data" },
                            "/bin/bash");
      std::string address = server.ReadAddress ();
      if (address.empty ())
        {
          EXPECT_EQ (server.Wait (), 1) << limit;
          EXPECT_THAT (server.ReadErrors (),
                       testing::AnyOf (HasSubstr ("open files"), HasSubstr ("Too many")))
              << limit;
          continue;
        }
      RawClient client (address);
      EXPECT_EQ (ErrorCode (client.Call ("Node:describe")), 0) << limit;
      n_started++;
      server.Signal (SIGTERM);
      EXPECT_EQ (server.Wait (), 0) << limit;
    }
  EXPECT_EQ (n_started, 3);
}

std::vector<std::string>
WithFilesOf (const char *kib)
{
  return { "-c", std::string ("ulimit -f ") + kib
                     + "; exec plugin/app/thriftps_server --listen=127.0.0.1:0 "
                       "--log-segment-mib=1 --data-dir="
                     + TemporaryFolder () + "/data" };
}

TEST (Limits, FilesThatCannotBeWrittenAreAnError)
{
  ServerProcess server (WithFilesOf ("0"), "/bin/bash");
  EXPECT_THAT (server.ReadErrors (), HasSubstr ("File too large"));
  EXPECT_EQ (server.Wait (), 1);
}

// This is a lack of room, like a full disk: the server serves lookups.
TEST (Limits, ALogThatCannotGrowDoesNotPreventTheStart)
{
  for (const char *kib : { "1", "64" })
    {
      ServerProcess server (WithFilesOf (kib), "/bin/bash");
      EXPECT_NE (server.ReadAddress (), "") << kib;
      server.Signal (SIGTERM);
      EXPECT_THAT (server.ReadErrors (), HasSubstr ("raise the limit on the size of files")) << kib;
      EXPECT_EQ (server.Wait (), 0) << kib;
    }
}

} // namespace
} // namespace thriftps_test
