/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A real thriftps_server is repeatedly killed or loses its power. The observations of its clients
 * must be a valid history. The environment variable ROUNDS sets the number of rounds (default 3),
 * and SEED chooses another random sequence. */

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "tests/history/check.h"
#include "tests/history/fuse_mount.h"
#include "tests/history/remote_server.h"
#include "tests/integration/durable/data_server.h"

namespace history {
namespace {

using thriftps_test::DataServer;
using thriftps_test::ErrorCode;
using thriftps_test::new_folder;
using thriftps_test::RawClient;

unsigned
from_environment (const char *name, unsigned otherwise)
{
  const char *text = getenv (name);

  return text != nullptr ? static_cast<unsigned> (atoi (text)) : otherwise;
}

WorkloadOptions
workload_options ()
{
  WorkloadOptions options;

  options.seed = from_environment ("SEED", 1);
  options.n_calls = 60;
  return options;
}

class HistoryOfAServer : public testing::Test
{
protected:
  Connect
  connect_to (DataServer *server)
  {
    return [this, server] { return connect_to_server (server->address (), table); };
  }

  void
  settle (DataServer *server)
  {
    std::string why;

    ASSERT_TRUE (workload.settle (connect_to (server), &why)) << why;
  }

  /* Runs rounds, each with one life of the server. While clients push, `end` ends the server. */
  template <typename Begin, typename End>
  void
  run_rounds (DataServer *server, Begin begin, End end)
  {
    ASSERT_TRUE (server->serve ());
    ASSERT_TRUE (create_remote_table (server->address (), table));
    for (unsigned round = 0; round < from_environment ("ROUNDS", 3); round++)
      {
        begin ();
        std::thread ending ([&] { end (workload.n_operations () + 1 + random () % 300); });
        workload.live (connect_to (server));
        ending.join ();
        workload.crash ();
        ASSERT_TRUE (server->serve ()) << "round " << round;
        workload.restart ();
        settle (server);
        ASSERT_FALSE (HasFatalFailure ()) << "round " << round;
      }
    check ();
  }

  /* Waits until `n_operations` calls have been made, or until no more calls will be made. */
  void
  wait_for (uint64_t n_operations)
  {
    while (workload.n_operations () < n_operations && !workload.is_over ())
      std::this_thread::yield ();
  }

  void
  begin_snapshot (DataServer *server)
  {
    if (random () % 2 == 0)
      RawClient (server->address ()).Send ("Durability:snapshot", 1);
  }

  void
  check ()
  {
    History history;
    std::string error;

    ASSERT_TRUE (workload.close ());
    std::ifstream in (path);
    EXPECT_TRUE (read_history (in, &history, &error)) << error;
    for (const Anomaly &anomaly : check_history (history))
      ADD_FAILURE () << path << " line " << anomaly.line << ": " << anomaly.name << ": "
                     << anomaly.text;
    printf ("%zu pushes, %zu reads\n", history.pushes.size (), history.reads.size ());
  }

  const std::string path = new_folder () + "/history";
  const WorkloadOptions options = workload_options ();
  const RemoteTable table = { options.n_rows, options.n_clients };
  std::mt19937 random { options.seed };
  Workload workload { options, path };
};

} // namespace

/* The parameter is the location of the tables. */
class Killed : public HistoryOfAServer, public testing::WithParamInterface<const char *>
{
};

TEST_P (Killed, hasAValidHistory)
{
  DataServer server (new_folder (), { std::string ("--table-device=") + GetParam () });

  run_rounds (
      &server, [] {},
      [&] (uint64_t n_operations) {
        wait_for (n_operations);
        begin_snapshot (&server);
        wait_for (n_operations + 20);
        server.kill ();
      });
}

INSTANTIATE_TEST_SUITE_P (All, Killed, testing::Values ("cpu", "cuda:0"));

TEST_F (HistoryOfAServer, isValidAfterPowerCuts)
{
  thriftps::SimulatedDisk disk (options.seed);
  const std::string folder = new_folder ();
  std::string why;
  std::unique_ptr<FuseMount> mount = FuseMount::create (&disk, folder, &why);

  if (mount == nullptr)
    GTEST_SKIP () << why;
  {
    DataServer server (folder + "/data");

    run_rounds (
        &server, [&] { disk.cut_after (1 + random () % 600); },
        [&] (uint64_t n_operations) {
          wait_for (n_operations);
          begin_snapshot (&server);
          while (!disk.is_off () && !workload.is_over ())
            std::this_thread::yield ();
          disk.cut ();
          server.kill ();
          disk.restart ();
        });
  }
}

} // namespace history
