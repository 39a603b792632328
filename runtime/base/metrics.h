/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Named spans of time, grouped: type -> key -> metric, as in the metrics logger of the original
 * implementations, always in milliseconds.
 *
 * Thread-safe; recording takes one lock and one hash look-up. Samples are kept in the order in
 * which metrics were started; for each type and name the newest TPS_METRICS_MAX_SAMPLES are kept.
 */

#pragma once

#include <glib.h>

#include "runtime/base/counters.h"

G_BEGIN_DECLS

#define TPS_METRICS_MAX_SAMPLES 65536

typedef struct TpsMetrics TpsMetrics;

typedef struct
{
  gchar *type;
  gchar *name;
  gint64 count; /* of all finished spans */
  /* The fields below are of the newest TPS_METRICS_MAX_SAMPLES. */
  gdouble min_ms, max_ms, mean_ms;
  gdouble variance_ms2, stdev_ms; /* of the sample (n - 1); NAN if count < 2 */
  gdouble p50_ms, p95_ms, p99_ms; /* linear interpolation, as numpy.percentile */
  guint n_samples;
  gdouble *samples_ms; /* NULL unless requested */
} TpsMetricSummary;

/* The source of the time; NULL function = the monotonic clock. */
typedef gint64 (*TpsClockFunc) (gpointer user_data);

/* `clock` NULL = the monotonic clock. The caller owns a reference. Thread of all three: any. */
TpsMetrics *tps_metrics_new (TpsClockFunc clock, gpointer user_data);
TpsMetrics *tps_metrics_ref (TpsMetrics *metrics);
void tps_metrics_unref (TpsMetrics *metrics);

/* Errors: TPS_ERROR_ALREADY_EXISTS "metric_type=T with key=K already exists". Thread: any. */
gboolean tps_metrics_record_start (TpsMetrics *metrics, const gchar *type, const gchar *key,
                                   const gchar *name, GError **error);

/* Errors: TPS_ERROR_NOT_FOUND "metric_type=T with key=K not found",
 * TPS_ERROR_ALREADY_EXISTS "end for metric_type=T with key=K already exists". Thread: any. */
gboolean tps_metrics_record_end (TpsMetrics *metrics, const gchar *type, const gchar *key,
                                 GError **error);

/* The same for a span whose time was measured elsewhere. Errors: as above. Thread: any. */
gboolean tps_metrics_record_elapsed (TpsMetrics *metrics, const gchar *type, const gchar *key,
                                     gdouble elapsed_ms, GError **error);

/* A span measured elsewhere, without a key. Thread: any. */
void tps_metrics_record (TpsMetrics *metrics, const gchar *type, const gchar *name,
                         gdouble elapsed_ms);

/* The counters and gauges beside the spans, borrowed. Thread: any. */
TpsCounters *tps_metrics_get_counters (TpsMetrics *metrics);

/* Forgets all spans, unfinished ones included; counters and gauges stay. Thread: any. */
void tps_metrics_clear (TpsMetrics *metrics);

/* All finished metrics, types in the order of their first use, names in the order of first use
 * within; unfinished spans are left out. The array of TpsMetricSummary is shared and must not be
 * changed; the caller owns a reference (g_ptr_array_unref). Recording waits at most while one
 * series is copied. If nothing was recorded since the previous call, a call costs nothing. Thread:
 * any. */
GPtrArray *tps_metrics_summarize (TpsMetrics *metrics, gboolean with_samples);

/* The memory that tps_metrics_summarize() needs now, in bytes. Thread: any. */
gsize tps_metrics_get_summary_bytes (TpsMetrics *metrics);

/* A summary of `n_samples` > 0 values; copies them. The caller owns it. */
TpsMetricSummary *tps_metric_summary_new (const gchar *type, const gchar *name,
                                          const gdouble *samples_ms, guint n_samples);
void tps_metric_summary_free (TpsMetricSummary *summary);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMetrics, tps_metrics_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMetricSummary, tps_metric_summary_free)

G_END_DECLS
