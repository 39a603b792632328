/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Named spans of time, grouped: type -> key -> metric, as in the metrics logger of the PyTorch
 * benchmarks that bench/ repeats, in milliseconds. Recording takes one lock. For each type and name
 * the newest TPS_METRICS_MAX_SAMPLES are kept, in the order in which they were started. */

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
  gdouble variance_ms2, stdev_ms; /* of the sample (n - 1); NAN if n_samples < 2 */
  gdouble p50_ms, p95_ms, p99_ms; /* linear interpolation, as numpy.percentile */
  guint n_samples;
  gdouble *samples_ms; /* NULL unless requested */
} TpsMetricSummary;

/* Returns the time in nanoseconds. */
typedef gint64 (*TpsClockFunc) (gpointer user_data);

/* Creates an empty set of metrics, to which the caller owns a reference. `clock` NULL = the
 * monotonic clock. Thread of all three: any. */
TpsMetrics *tps_metrics_new (TpsClockFunc clock, gpointer user_data);
TpsMetrics *tps_metrics_ref (TpsMetrics *metrics);
void tps_metrics_unref (TpsMetrics *metrics);

/* Begins the span `key` of the metric `name`. Errors: TPS_ERROR_ALREADY_EXISTS "metric_type=T with
 * key=K already exists". Thread: any. */
gboolean tps_metrics_record_start (TpsMetrics *metrics, const gchar *type, const gchar *key,
                                   const gchar *name, GError **error);

/* Ends a span. Errors: TPS_ERROR_NOT_FOUND "metric_type=T with key=K not found",
 * TPS_ERROR_ALREADY_EXISTS "end for metric_type=T with key=K already exists". Thread: any. */
gboolean tps_metrics_record_end (TpsMetrics *metrics, const gchar *type, const gchar *key,
                                 GError **error);

/* Ends a span that took `elapsed_ms`, as measured by the caller. Errors: as above. Thread: any. */
gboolean tps_metrics_record_elapsed (TpsMetrics *metrics, const gchar *type, const gchar *key,
                                     gdouble elapsed_ms, GError **error);

/* Records a whole span without a key, which took `elapsed_ms`. Thread: any. */
void tps_metrics_record (TpsMetrics *metrics, const gchar *type, const gchar *name,
                         gdouble elapsed_ms);

/* Returns the counters and gauges that belong to the metrics, borrowed. Thread: any. */
TpsCounters *tps_metrics_get_counters (TpsMetrics *metrics);

/* Discards all spans, unfinished ones included; counters and gauges stay. Thread: any. */
void tps_metrics_clear (TpsMetrics *metrics);

/* Summarizes all metrics with finished spans, types and names in the order of their first use. The
 * array of TpsMetricSummary is shared and must not be changed; the caller owns a reference
 * (g_ptr_array_unref). Without a new record, the previous array is returned. Recording waits while
 * one series is copied. Thread: any. */
GPtrArray *tps_metrics_summarize (TpsMetrics *metrics, gboolean with_samples);

/* Returns the bytes of memory that tps_metrics_summarize() would need now. Thread: any. */
gsize tps_metrics_get_summary_bytes (TpsMetrics *metrics);

/* Makes a summary of `n_samples` > 0 values, which are copied. The caller owns the summary. */
TpsMetricSummary *tps_metric_summary_new (const gchar *type, const gchar *name,
                                          const gdouble *samples_ms, guint n_samples);
void tps_metric_summary_free (TpsMetricSummary *summary);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMetrics, tps_metrics_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsMetricSummary, tps_metric_summary_free)

G_END_DECLS
