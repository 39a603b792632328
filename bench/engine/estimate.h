/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How long tasks take, from what is expected of them and what they have taken so far. Knows no
 * clock. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* One task's runs. Index 0 stands for its warm-up, 1 for its measured runs. */
typedef struct
{
  gdouble expected_s[2]; /* of one run on a usual machine; 0 = not known */
  gdouble spent_s[2];    /* in all runs so far */
  guint n_runs[2];       /* so far */
} TpsTaskTime;

void tps_task_time_add (TpsTaskTime *time, gboolean is_measured, gdouble seconds);

/* How much slower runs are than expected, over all tasks that have run and have an expectation; 1
 * before any has. Warm-ups have a pace of their own: what they do for the first time has no
 * expectation. */
gdouble tps_task_time_get_pace (const TpsTaskTime *times, guint n_times, gboolean is_measured);

/* Seconds of one run: the mean of those so far, else what is expected at `pace`, else the time of
 * the warm-up. NAN where none of these is known. */
gdouble tps_task_time_estimate (const TpsTaskTime *time, gboolean is_measured, gdouble pace);

/* "40 s", "3 min 10 s", "2 h 05 min"; owned by the caller. */
gchar *tps_span_to_string (gdouble seconds);

G_END_DECLS
