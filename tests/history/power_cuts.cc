/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* power_cuts FILE [SEEDS [FIRST_SEED]]: runs a server in this process on a simulated disk, with
 * repeated power cuts. It writes the history of the clients to FILE, and checks it. It stops at the
 * first seed whose history is not valid. It prints the anomaly, the number of operations and the
 * number of seeds.
 *
 * Exit code: 0 all valid, 1 not valid, 2 any other failure. */

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/history/check.h"
#include "tests/history/local_server.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace history {
namespace {

constexpr int kLives = 5;

/* The result of a seed. `name` is empty if no anomaly was found. */
struct Finding
{
  std::string name;
  std::string text;
};

class Run
{
public:
  Run (uint32_t seed, const std::string &path)
      : random_ (seed), path_ (path), disk_ (seed), options_ (options_of (seed)),
        workload_ (options_, path)
  {
    g_random_set_seed (seed);
  }

  Finding
  run ()
  {
    Finding finding;

    for (int life = 0; life < kLives && finding.name.empty (); life++)
      finding = live (life);
    if (!workload_.close ())
      return { "unwritten", "the history could not be written" };
    Finding anomaly = check ();
    return anomaly.name.empty () ? finding : anomaly;
  }

  uint64_t
  n_operations () const
  {
    return workload_.n_operations ();
  }

private:
  static WorkloadOptions
  options_of (uint32_t seed)
  {
    WorkloadOptions options;

    options.seed = seed;
    return options;
  }

  Finding
  live (int life)
  {
    auto server = std::make_unique<LocalServer> (disk_.get (),
                                                 TableSize { options_.n_rows, options_.n_clients });
    Finding finding;

    if (!start (&server, &finding))
      return finding;
    if (life == 0)
      {
        if (!server->create_table (&finding.text))
          return { "refused-table", finding.text };
      }
    else
      workload_.restart ();
    const Connect connect = [&server] { return server->connect (); };
    if (!workload_.settle (connect, &finding.text))
      return { "refused", finding.text };
    if (life + 1 == kLives)
      return {};
    arm_fault ();
    std::thread operating ([this, &server] { operate (server.get ()); });
    workload_.live (connect);
    operating.join ();
    disk_.cut ();
    server.reset ();
    disk_.restart ();
    workload_.crash ();
    return {};
  }

  /* Starts the server. The power may also be cut during its recovery. */
  bool
  start (std::unique_ptr<LocalServer> *server, Finding *finding)
  {
    if (random_ () % 4 == 0)
      disk_.cut_after (1 + random_ () % 8);
    bool is_started = (*server)->start (&finding->text);
    if (!is_started && disk_.is_off ())
      {
        *server = std::make_unique<LocalServer> (disk_.get (),
                                                 TableSize { options_.n_rows, options_.n_clients });
        disk_.restart ();
        is_started = (*server)->start (&finding->text);
      }
    disk_.cut_after (UINT32_MAX);
    if (!is_started)
      finding->name = "refused-start";
    return is_started;
  }

  void
  arm_fault ()
  {
    if (random_ () % 6 == 0)
      disk_.fail_sync (1 + random_ () % 60);
    disk_.cut_after (1 + random_ () % 400);
  }

  void
  operate (LocalServer *server)
  {
    for (unsigned n = random_ () % 4; n > 0 && !disk_.is_off (); n--)
      {
        for (uint64_t end = disk_.get_operations () + 30;
             disk_.get_operations () < end && !disk_.is_off () && !workload_.is_over ();)
          std::this_thread::yield ();
        server->write_snapshot (random_ () % 2 == 0);
      }
  }

  Finding
  check () const
  {
    History history;
    std::string error;
    std::ifstream in (path_);

    if (!read_history (in, &history, &error))
      return { "no-history", error };
    std::vector<Anomaly> anomalies = check_history (history);
    if (anomalies.empty ())
      return {};
    return { anomalies[0].name,
             "line " + std::to_string (anomalies[0].line) + ": " + anomalies[0].text };
  }

  std::mt19937 random_;
  const std::string path_;
  thriftps::SimulatedDisk disk_;
  const WorkloadOptions options_;
  Workload workload_;
};

int
run_seeds (const std::string &path, uint32_t first, uint32_t n_seeds)
{
  uint64_t n_operations = 0;

  for (uint32_t seed = first; seed < first + n_seeds; seed++)
    {
      Run run (seed, path);
      Finding finding = run.run ();

      n_operations += run.n_operations ();
      if (finding.name.empty ())
        continue;
      printf ("seed %u, %llu operations: %s: %s\n", seed,
              static_cast<unsigned long long> (n_operations), finding.name.c_str (),
              finding.text.c_str ());
      return 1;
    }
  printf ("%u seeds, %llu operations: valid\n", n_seeds,
          static_cast<unsigned long long> (n_operations));
  return 0;
}

} // namespace
} // namespace history

int
main (int argc, char **argv)
{
  if (argc < 2 || argc > 4)
    {
      fprintf (stderr, "usage: power_cuts FILE [SEEDS [FIRST_SEED]]\n");
      return 2;
    }
  return history::run_seeds (
      argv[1], argc > 3 ? static_cast<uint32_t> (strtoul (argv[3], nullptr, 10)) : 1,
      argc > 2 ? static_cast<uint32_t> (strtoul (argv[2], nullptr, 10)) : 10);
}
