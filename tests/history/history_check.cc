/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* history_check [FILE]: checks a history of countable pushes (FORMAT.md). By default it reads the
 * history from standard input. It prints one line with the verdict, and one line per anomaly.
 *
 * Exit code: 0 valid, 1 not valid, 2 not a history. */

#include <cerrno>
#include <chrono>
#include <cstring>

#include "tests/history/check.h"

namespace {

double
seconds_since (std::chrono::steady_clock::time_point begin)
{
  return std::chrono::duration<double> (std::chrono::steady_clock::now () - begin).count ();
}

} // namespace

int
main (int argc, char **argv)
{
  FILE *in = argc > 1 ? fopen (argv[1], "r") : stdin;
  history::History history;
  std::string error;

  if (argc > 2 || in == nullptr)
    {
      fprintf (stderr, "%s: %s\n", argc > 2 ? "usage: history_check [FILE]" : argv[1],
               argc > 2 ? "one file at most" : strerror (errno));
      return 2;
    }
  auto begin = std::chrono::steady_clock::now ();
  if (!history::read_history (in, &history, &error))
    {
      fprintf (stderr, "%s\n", error.c_str ());
      return 2;
    }
  double read_s = seconds_since (begin);
  std::vector<history::Anomaly> anomalies = history::check_history (history);
  printf ("%s: %zu pushes, %zu reads, %.1f s to read, %.1f s to check\n",
          anomalies.empty () ? "valid" : "not valid", history.pushes.size (), history.reads.size (),
          read_s, seconds_since (begin) - read_s);
  for (const history::Anomaly &anomaly : anomalies)
    printf ("line %u: %s: %s\n", anomaly.line, anomaly.name.c_str (), anomaly.text.c_str ());
  return anomalies.empty () ? 0 : 1;
}
