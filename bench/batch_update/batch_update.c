/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The batch-updating benchmark: starts trainers, a parameter server with their model, and a master,
 * or runs as one of them. */

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

  setlocale (LC_CTYPE, ""); /* for the text of --help; numbers are formatted the same everywhere */
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
