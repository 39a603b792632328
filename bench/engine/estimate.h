/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Estimates the time of tasks from their expected times and from their earlier runs. Uses no
 * clock. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The runs of one task. Index 0 is the warm-up, index 1 the measured runs. */
typedef struct
{
  gdouble expected_s[2]; /* of one run on a typical machine; 0 = unknown */
  gdouble spent_s[2];    /* in all runs so far */
  guint n_runs[2];       /* so far */
} TpsTaskTime;

/* Adds a run that has ended. */
void tps_task_time_add (TpsTaskTime *time, gboolean is_measured, gdouble seconds);

/* Returns the ratio of actual to expected time of all tasks that have run and have an expected
 * time; 1 if there is no such task. Warm-ups have their own ratio, because their initial work has
 * no expected time. */
gdouble tps_task_time_get_pace (const TpsTaskTime *times, guint n_times, gboolean is_measured);

/* Returns the seconds of one run: the mean of the runs so far; without runs, the expected time
 * multiplied by `pace`; without an expected time, the time of the warm-up. NAN if none is known. */
gdouble tps_task_time_estimate (const TpsTaskTime *time, gboolean is_measured, gdouble pace);

/* Formats a duration as "40 s", "3 min 10 s" or "2 h 05 min". The caller owns the result. */
gchar *tps_span_to_string (gdouble seconds);

G_END_DECLS
