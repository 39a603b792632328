/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/parts.h"

#include <stdio.h>
#include <unistd.h>

#include "bench/process/interrupt.h"
#include "bench/report/percentile.h"
#include "runtime/base/sync.h"

#define WAIT_US 20000

/* -- figures -- */

const TpsQuantity tps_durability_pushes_per_s = { "", "pushes/s" },
                  tps_durability_lookups_per_s = { "", "lookups/s" },
                  tps_durability_gb_per_s = { "", "GB/s" }, tps_durability_ms = { "", "ms" },
                  tps_durability_p50 = { " p50", "ms" }, tps_durability_p99 = { " p99", "ms" },
                  tps_durability_p999 = { " p99.9", "ms" },
                  tps_durability_longest = { " longest", "ms" },
                  tps_durability_memory = { " memory", "MiB" },
                  tps_durability_log = { " log / received", "bytes" };

void
tps_durability_add_calls (TpsFigures *figures, const gchar *system, const gchar *row,
                          const TpsQuantity *quantity, const GArray *calls)
{
  const struct
  {
    const TpsQuantity *quantity;
    gdouble percent;
  } percentiles[] = { { &tps_durability_p50, 50 },
                      { &tps_durability_p99, 99 },
                      { &tps_durability_p999, 99.9 },
                      { &tps_durability_longest, 100 } };
  g_autoptr (GArray) ms = tps_calls_get_ms (calls);

  if (calls->len == 0)
    return;
  tps_figures_add (figures, system, row, quantity, calls->len / tps_calls_get_span (calls));
  for (guint i = 0; i < G_N_ELEMENTS (percentiles); i++)
    tps_figures_add (figures, system, row, percentiles[i].quantity,
                     tps_percentile (ms, percentiles[i].percent));
}

/* -- waits and skipped parts -- */

gboolean
tps_durability_wait (TpsDurabilityBench *bench, gdouble seconds, GError **error)
{
  gint64 end_ns = tps_clock_now_ns () + (gint64) (seconds * 1e9);
  gint64 left_ns;

  while ((left_ns = end_ns - tps_clock_now_ns ()) > 0)
    {
      if (!tps_interrupt_check (error) || !tps_supervisor_check (bench->run->supervisor, error))
        return FALSE;
      tps_engine_tick (bench->run->engine);
      g_usleep ((gulong) MIN (left_ns / 1000 + 1, WAIT_US));
    }
  return TRUE;
}

void
tps_durability_skip (TpsDurabilityBench *bench, const gchar *what, const gchar *why)
{
  gchar *text = g_strdup_printf ("%s: %s", what, why);

  fprintf (stderr, "durability: not measured: %s\n", text);
  g_ptr_array_add (bench->skips, text);
}

/* -- servers -- */

static gboolean
fill_large (TpsDurabilityBench *bench, GError **error)
{
  tps_engine_set_phase (bench->run->engine, "creating the table of snapshots");
  return tps_durability_server_make_table (bench->large_server, &bench->large, error);
}

gboolean
tps_durability_init_server (TpsDurabilityBench *bench, const TpsDurabilityMode *mode,
                            const gchar *name, TpsDurabilityServerOptions *options, GError **error)
{
  const gchar *socket_dir = tps_benchmark_get_folder (bench->run, error);

  if (socket_dir == NULL)
    return FALSE;
  *options = (TpsDurabilityServerOptions) {
    .program = bench->options->server_binary,
    .socket_dir = socket_dir,
    .data_dir = g_build_filename (bench->folder, name, NULL),
    .mode = mode,
    .writes_snapshots = bench->writes_snapshots,
  };
  return TRUE;
}

TpsDurabilityServer *
tps_durability_get_large_server (TpsDurabilityBench *bench, GError **error)
{
  static const TpsDurabilityMode mode = { "large", "commit" };

  if (bench->large_server != NULL)
    return bench->large_server;
  if (!tps_durability_init_server (bench, &mode, "large", &bench->server, error))
    return NULL;
  bench->large_server = tps_durability_server_start (bench->run->supervisor, &bench->server, NULL,
                                                     error);
  if (bench->large_server == NULL || !fill_large (bench, error))
    return NULL;
  return bench->large_server;
}

gboolean
tps_durability_restart_large_server (TpsDurabilityBench *bench, gdouble *seconds, GError **error)
{
  g_clear_pointer (&bench->large_server, tps_durability_server_kill);
  bench->large_server = tps_durability_server_start (bench->run->supervisor, &bench->server,
                                                     seconds, error);
  return bench->large_server != NULL;
}
