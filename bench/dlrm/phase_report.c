/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/phase_report.h"

#include "bench/report/grid.h"
#include "bench/report/percentile.h"

const TpsQuantity *
tps_dlrm_phase_get_quantity (TpsDlrmPhase phase)
{
  static const TpsQuantity quantities[TPS_DLRM_N_PHASES] = {
    { " ids", "ms" },     { " lookup", "ms" }, { " forward", "ms" }, { " backward", "ms" },
    { " average", "ms" }, { " push", "ms" },   { " step", "ms" },
  };

  return &quantities[phase];
}

void
tps_dlrm_phases_add (TpsFigures *figures, const gchar *system, const gchar *row,
                     const TpsDlrmPass *pass)
{
  for (guint i = 0; i < pass->times->len; i++)
    tps_figures_add (figures, system, row, tps_dlrm_phase_get_quantity (i % TPS_DLRM_N_PHASES),
                     g_array_index (pass->times, gdouble, i));
}

static gdouble
add_up (const GArray *samples)
{
  gdouble sum = 0;

  for (guint i = 0; i < samples->len; i++)
    sum += g_array_index (samples, gdouble, i);
  return sum;
}

gchar *
tps_dlrm_phases_format (const TpsFigures *figures, const gchar *system, const gchar *row)
{
  g_autofree gchar *title = g_strdup_printf ("%s, ms", system);
  const gchar *const headers[] = { title, "p50", "p95", "p99", "share, %" };
  TpsGrid *grid = tps_grid_new (headers, G_N_ELEMENTS (headers));
  const GArray *steps = tps_figures_get_samples (figures, system, row,
                                                 tps_dlrm_phase_get_quantity (TPS_DLRM_STEP));

  for (TpsDlrmPhase phase = 0; steps != NULL && phase < TPS_DLRM_N_PHASES; phase++)
    {
      const GArray *samples = tps_figures_get_samples (figures, system, row,
                                                       tps_dlrm_phase_get_quantity (phase));
      gdouble numbers[] = { tps_percentile (samples, 50), tps_percentile (samples, 95),
                            tps_percentile (samples, 99), 100 * add_up (samples) / add_up (steps) };

      tps_grid_add_row (grid, tps_dlrm_phase_name (phase), numbers);
    }
  return tps_grid_free_to_string (grid);
}
