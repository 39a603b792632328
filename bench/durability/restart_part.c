/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/parts.h"

#define USUAL_S 0.1

/* Measures the time from the start of a process until it serves, for a server without tables. The
 * data directory is new only in the warm-up. */
static gboolean
run (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  static const TpsDurabilityMode mode = { "empty", "commit" };
  TpsDurabilityBench *bench = data;
  TpsDurabilityServerOptions options;
  g_autoptr (TpsDurabilityServer) server = NULL;
  gdouble seconds;

  if (!tps_durability_init_server (bench, &mode, "empty", &options, error))
    return FALSE;
  server = tps_durability_server_start (bench->run->supervisor, &options, &seconds, error);
  g_free (options.data_dir);
  if (server == NULL)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add (bench->run->figures, TPS_DURABILITY_OURS, "restart of an empty server",
                     &tps_durability_ms, seconds * 1000);
  return TRUE;
}

gboolean
tps_durability_prepare_restarts (TpsDurabilityBench *bench, GError **error)
{
  TpsTask task = { .title = "restart of an empty server",
                   .run = run,
                   .bench = bench,
                   .warm_up_s = USUAL_S,
                   .measured_s = USUAL_S };

  tps_engine_begin_row (bench->run->engine);
  tps_engine_add (bench->run->engine, &task);
  return TRUE;
}
