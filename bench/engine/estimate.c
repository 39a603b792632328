/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/engine/estimate.h"

#include <math.h>

void
tps_task_time_add (TpsTaskTime *time, gboolean is_measured, gdouble seconds)
{
  time->spent_s[is_measured] += seconds;
  time->n_runs[is_measured]++;
}

gdouble
tps_task_time_get_pace (const TpsTaskTime *times, guint n_times, gboolean is_measured)
{
  gdouble spent_s = 0, expected_s = 0;

  for (guint i = 0; i < n_times; i++)
    if (times[i].expected_s[is_measured] > 0 && times[i].n_runs[is_measured] > 0)
      {
        spent_s += times[i].spent_s[is_measured];
        expected_s += times[i].expected_s[is_measured] * times[i].n_runs[is_measured];
      }
  return expected_s > 0 ? spent_s / expected_s : 1;
}

gdouble
tps_task_time_estimate (const TpsTaskTime *time, gboolean is_measured, gdouble pace)
{
  if (time->n_runs[is_measured] > 0)
    return time->spent_s[is_measured] / time->n_runs[is_measured];
  if (time->expected_s[is_measured] > 0)
    return time->expected_s[is_measured] * pace;
  return time->n_runs[0] > 0 ? time->spent_s[0] / time->n_runs[0] : (gdouble) NAN;
}

gchar *
tps_span_to_string (gdouble seconds)
{
  gint64 whole = (gint64) (seconds + 0.5);

  if (whole < 60)
    return g_strdup_printf ("%" G_GINT64_FORMAT " s", whole);
  if (whole < 3600)
    return g_strdup_printf ("%" G_GINT64_FORMAT " min %02" G_GINT64_FORMAT " s", whole / 60,
                            whole % 60);
  return g_strdup_printf ("%" G_GINT64_FORMAT " h %02" G_GINT64_FORMAT " min", whole / 3600,
                          whole / 60 % 60);
}
