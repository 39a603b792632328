/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The benchmark parameter_server: starts trainers, servers and a master; or runs as one of these
 * roles. */

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

  /* for the text of --help; numbers have the same format in every locale */
  setlocale (LC_CTYPE, "");
  verdict = tps_bench_options_parse (&work.options, argc, argv, &error);
  if (!tps_program_check_verdict ("parameter_server", verdict, error, &status))
    return status;
  program = tps_bench_work_get_program (&work);
  return tps_program_run (&program, &work.options.world, &work.options.run, &work);
}
