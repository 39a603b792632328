/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/batch_update/rates.h"

static TpsBenchSeries *
find_training (TpsBenchResults *results)
{
  return tps_bench_results_find (results, "trainer", -1, TPS_BATCH_UPDATE_TRAINING);
}

GArray *
tps_batch_update_get_rates (TpsBenchResults *results, gint batches)
{
  GArray *rates = g_array_new (FALSE, FALSE, sizeof (gdouble));
  const TpsBenchSeries *training = find_training (results);

  for (guint i = 0; training != NULL && i < training->pass_p50_ms->len; i++)
    {
      gdouble rate = batches * 1e3 / g_array_index (training->pass_p50_ms, gdouble, i);

      g_array_append_val (rates, rate);
    }
  return rates;
}

gdouble
tps_batch_update_get_seconds (TpsBenchResults *results)
{
  const TpsBenchSeries *training = find_training (results);

  return training != NULL ? tps_bench_series_get_median (training) / 1e3 : 0;
}

gdouble
tps_batch_update_get_rate (TpsBenchResults *results, gint batches)
{
  gdouble seconds = tps_batch_update_get_seconds (results);

  return seconds > 0 ? batches / seconds : 0;
}

gchar *
tps_batch_update_format_end (TpsBenchResults *results, gint batches)
{
  return g_strdup_printf ("Time spent training: %.6gs\n%.6g updates/s\n",
                          tps_batch_update_get_seconds (results),
                          tps_batch_update_get_rate (results, batches));
}

void
tps_batch_update_add_rates (TpsBenchResults *results, gint batches, TpsBenchSystem *system)
{
  g_autoptr (GArray) rates = tps_batch_update_get_rates (results, batches);

  tps_bench_system_add_figure (system, "updates", "1/s", rates);
}
