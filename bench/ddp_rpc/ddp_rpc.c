/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The benchmark ddp_rpc: starts trainers, parameter servers with embedding tables, and a master; or
 * runs as one of these roles. */

#include <locale.h>

#include "bench/ddp_rpc/work.h"

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  g_auto (TpsDdpRpcWork) work = { 0 };
  TpsBenchVerdict verdict;
  TpsProgram program;
  gint status;

  /* for the text of --help; numbers have the same format in every locale */
  setlocale (LC_CTYPE, "");
  verdict = tps_ddp_rpc_options_parse (&work.options, argc, argv, &error);
  if (!tps_program_check_verdict ("ddp_rpc", verdict, error, &status))
    return status;
  program = tps_ddp_rpc_get_program (&work);
  return tps_program_run (&program, &work.options.world, &work.options.run, &work);
}
