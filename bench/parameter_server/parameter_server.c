/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parameter-server benchmark: starts trainers, servers and a master, or runs as one of them. */

#include <locale.h>

#include "bench/parameter_server/work.h"

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  g_auto (TpsBenchWork) work = { 0 };
  TpsBenchVerdict verdict;
  TpsProgram program;
  gint status;

  setlocale (LC_CTYPE, ""); /* for the text of --help; numbers are formatted the same everywhere */
  verdict = tps_bench_options_parse (&work.options, argc, argv, &error);
  if (!tps_program_check_verdict ("parameter_server", verdict, error, &status))
    return status;
  program = tps_bench_work_get_program (&work);
  return tps_program_run (&program, &work.options.world, &work.options.run, &work);
}
