/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* history_generate N_OPERATIONS [SEED [CRASHES]]: prints a valid history, which serves to measure
 * history_check. */

#include <cstdio>
#include <cstdlib>

#include "tests/history/machine.h"

int
main (int argc, char **argv)
{
  history::MachineOptions options;

  if (argc < 2 || argc > 4)
    {
      fprintf (stderr, "usage: history_generate N_OPERATIONS [SEED [CRASHES]]\n");
      return 2;
    }
  options.n_operations = strtoull (argv[1], nullptr, 10);
  options.seed = argc > 2 ? static_cast<uint32_t> (strtoul (argv[2], nullptr, 10)) : 1;
  options.no_answer = 0.01;
  if (argc > 3)
    options.crash = strtod (argv[3], nullptr) / static_cast<double> (options.n_operations);
  history::write_valid_history (
      options, [] (const std::string &text) { fwrite (text.data (), 1, text.size (), stdout); });
  return ferror (stdout) != 0;
}
