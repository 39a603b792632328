/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Counters and gauges of a server: numbers that an exporter may list at any time.
 *
 * A counter only grows; a gauge is a level that rises and falls. Each is found once, by its name and
 * an optional label, and then changed through its pointer: one atomic addition, for counters on a
 * cache line that threads rarely share. NULL counters, NULL gauges and NULL TpsCounters are valid and count nothing.
 *
 *   requests = tps_counters_get_counter (counters, "requests_total", "method", "Node.describe");
 *   tps_counter_add (requests, 1);
 *
 * Names are in snake_case with the unit last (_total for counts, _bytes, _seconds). Thread: any.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsCounters TpsCounters;
typedef struct TpsCounter TpsCounter;
typedef struct TpsGauge TpsGauge;

TpsCounters *tps_counters_new (void);
void tps_counters_unref (TpsCounters *counters);

/* The counter or gauge of this name and label, made if it is new; borrowed, lives as long as `counters`. Text is
 * copied; `label` and `value` may both be NULL. A name must not be both a counter and a gauge. */
TpsCounter *tps_counters_get_counter (TpsCounters *counters, const gchar *name, const gchar *label,
                                      const gchar *value);
TpsGauge *tps_counters_get_gauge (TpsCounters *counters, const gchar *name, const gchar *label,
                                  const gchar *value);

/* Adds a gauge whose level is read when it is listed; one that is there gets the new reader. `read` is called with the list's
 * lock: it must not block or use `counters`. `release` (may be NULL) frees `user_data` with `counters`. NULL `counters` are
 * fine. */
typedef gint64 (*TpsGaugeRead) (gpointer user_data);
void tps_counters_add_gauge (TpsCounters *counters, const gchar *name, const gchar *label,
                             const gchar *value, TpsGaugeRead read, gpointer user_data,
                             GDestroyNotify release);

void tps_counter_add (TpsCounter *counter, guint64 n);
guint64 tps_counter_get (const TpsCounter *counter);

void tps_gauge_add (TpsGauge *gauge, gint64 delta);
void tps_gauge_set (TpsGauge *gauge, gint64 level);
gint64 tps_gauge_get (const TpsGauge *gauge);

typedef struct
{
  const gchar *name;
  const gchar *label; /* NULL = none */
  const gchar *value; /* of the label */
  gboolean is_gauge;
  gint64 number;
} TpsCount;

/* Everything there is, ordered by name, then by the label's value: an array of TpsCount whose text is borrowed from
 * `counters`; owned by the caller (g_array_unref). */
GArray *tps_counters_list (TpsCounters *counters);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCounters, tps_counters_unref)

G_END_DECLS
