/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* history_check: checks the history of countable pushes (FORMAT.md) on standard input. It prints
 * one line with the verdict, and one line per anomaly.
 *
 * Exit code: 0 valid, 1 not valid, 2 not a history. */

#include <cstdio>
#include <iostream>

#include "tests/history/check.h"

int
main ()
{
  history::History history;
  std::string error;

  if (!history::read_history (std::cin, &history, &error))
    {
      fprintf (stderr, "%s\n", error.c_str ());
      return 2;
    }
  std::vector<history::Anomaly> anomalies = history::check_history (history);
  printf ("%s: %zu pushes, %zu reads\n", anomalies.empty () ? "valid" : "not valid",
          history.pushes.size (), history.reads.size ());
  for (const history::Anomaly &anomaly : anomalies)
    printf ("line %u: %s: %s\n", anomaly.line, anomaly.name.c_str (), anomaly.text.c_str ());
  return anomalies.empty () ? 0 : 1;
}
