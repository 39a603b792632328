/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Estimates the time of tasks from their expected times and from their runs so far. Uses no
 * clock. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The runs of one task. Index 0 is the warm-up, and index 1 the measured runs. */
typedef struct
{
  gdouble expected_s[2]; /* of one run on a typical machine; 0 = unknown */
  gdouble spent_s[2];    /* in all runs so far */
  guint n_runs[2];       /* so far */
} TpsTaskTime;

void tps_task_time_add (TpsTaskTime *time, gboolean is_measured, gdouble seconds);

/* Returns the ratio of actual to expected times, over all tasks that have run and have an expected
 * time; 1 before the first run. Warm-ups have a ratio of their own, because their initial work has
 * no expected time. */
gdouble tps_task_time_get_pace (const TpsTaskTime *times, guint n_times, gboolean is_measured);

/* Returns the seconds of one run: the mean of the runs so far, else the expected time multiplied by
 * `pace`, else the time of the warm-up. NAN if none of these is known. */
gdouble tps_task_time_estimate (const TpsTaskTime *time, gboolean is_measured, gdouble pace);

/* Formats "40 s", "3 min 10 s", "2 h 05 min". Owned by the caller. */
gchar *tps_span_to_string (gdouble seconds);

G_END_DECLS
