/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The benchmark batch_update: starts trainers, a parameter server that has their model, and a
 * master; or runs as one of these roles. */

#include <locale.h>

#include "bench/batch_update/work.h"

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  TpsBatchUpdateWork work = { 0 };
  TpsBenchVerdict verdict;
  TpsProgram program;
  gint status;

  /* for the text of --help; numbers have the same format in every locale */
  setlocale (LC_CTYPE, "");
  verdict = tps_batch_update_options_parse (&work.options, argc, argv, &error);
  if (tps_program_check_verdict ("batch_update", verdict, error, &status))
    {
      if (work.options.verbose && tps_world_is_role (&work.options.world))
        tps_batch_update_log_trainer (&work);
      program = tps_batch_update_get_program (&work);
      status = tps_program_run (&program, &work.options.world, &work.options.run, &work);
    }
  tps_batch_update_options_clear (&work.options);
  return status;
}
