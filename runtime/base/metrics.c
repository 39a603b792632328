/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Type -> series (one a name) -> spans in the order of their start; and type -> key -> span, for the end of a span.
 *
 * A series holds at most TPS_METRICS_MAX_SAMPLES spans, finished or not: the oldest goes first, and its key with it.
 * So what is never finished does not pile up either.
 */

#include "runtime/base/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

typedef struct Span Span;

struct Span
{
  Span *next; /* started later */
  gint64 start_ns;
  gdouble elapsed_ms;
  gboolean is_finished;
  gboolean has_key;
  gchar key[];
};

typedef struct
{
  gchar *name;
  Span *first;
  Span **last; /* where the next span is linked */
  guint n_spans;
  guint n_finished;      /* of the spans held */
  gint64 n_finished_all; /* those dropped included */
} Series;

typedef struct
{
  gchar *name;
  GPtrArray *series;          /* Series, in the order of first use */
  GHashTable *series_by_name; /* borrows both */
  GHashTable *spans;          /* span->key -> SpanRef; borrows the key */
} Type;

typedef struct
{
  Span *span;
  Series *series;
} SpanRef;

struct TpsMetrics
{
  TpsRefcount refcount;
  TpsClockFunc clock;
  gpointer clock_data;
  TpsCounters *counters;

  TpsMutex lock;             /* guards everything below */
  GPtrArray *types;          /* Type, in the order of first use */
  GHashTable *types_by_name; /* borrows both */
};

static void
series_free (gpointer data)
{
  Series *series = data;

  for (Span *span = series->first, *next; span != NULL; span = next)
    {
      next = span->next;
      g_free (span);
    }
  g_free (series->name);
  g_free (series);
}

static void
type_free (gpointer data)
{
  Type *type = data;

  g_hash_table_unref (type->spans);
  g_hash_table_unref (type->series_by_name);
  g_ptr_array_unref (type->series);
  g_free (type->name);
  g_free (type);
}

static Type *
type_new (const gchar *name)
{
  Type *type = g_new (Type, 1);

  type->name = g_strdup (name);
  type->series = g_ptr_array_new_with_free_func (series_free);
  type->series_by_name = g_hash_table_new (g_str_hash, g_str_equal);
  type->spans = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
  return type;
}

static gint64
monotonic_clock (gpointer user_data)
{
  return tps_clock_now_ns ();
}

TpsMetrics *
tps_metrics_new (TpsClockFunc clock, gpointer user_data)
{
  TpsMetrics *metrics = g_new0 (TpsMetrics, 1);

  tps_refcount_init (&metrics->refcount);
  metrics->clock = clock != NULL ? clock : monotonic_clock;
  metrics->clock_data = user_data;
  metrics->counters = tps_counters_new ();
  tps_mutex_init (&metrics->lock);
  metrics->types = g_ptr_array_new_with_free_func (type_free);
  metrics->types_by_name = g_hash_table_new (g_str_hash, g_str_equal);
  return metrics;
}

TpsMetrics *
tps_metrics_ref (TpsMetrics *metrics)
{
  tps_refcount_inc (&metrics->refcount);
  return metrics;
}

void
tps_metrics_unref (TpsMetrics *metrics)
{
  if (!tps_refcount_dec (&metrics->refcount))
    return;
  g_hash_table_unref (metrics->types_by_name);
  g_ptr_array_unref (metrics->types);
  tps_counters_unref (metrics->counters);
  tps_mutex_clear (&metrics->lock);
  g_free (metrics);
}

static Type *
ensure_type (TpsMetrics *metrics, const gchar *name)
{
  Type *type = g_hash_table_lookup (metrics->types_by_name, name);

  if (type != NULL)
    return type;
  type = type_new (name);
  g_ptr_array_add (metrics->types, type);
  g_hash_table_insert (metrics->types_by_name, type->name, type);
  return type;
}

static Series *
ensure_series (Type *type, const gchar *name)
{
  Series *series = g_hash_table_lookup (type->series_by_name, name);

  if (series != NULL)
    return series;
  series = g_new0 (Series, 1);
  series->name = g_strdup (name);
  series->last = &series->first;
  g_ptr_array_add (type->series, series);
  g_hash_table_insert (type->series_by_name, series->name, series);
  return series;
}

static void
drop_oldest (Type *type, Series *series)
{
  Span *span = series->first;

  series->first = span->next;
  series->n_spans--;
  series->n_finished -= span->is_finished;
  if (span->has_key)
    g_hash_table_remove (type->spans, span->key);
  g_free (span);
}

/* `key` may be NULL. */
static Span *
append_span (Type *type, const gchar *name, const gchar *key)
{
  Series *series = ensure_series (type, name);
  gsize n_key_bytes = key == NULL ? 0 : strlen (key) + 1;
  Span *span = g_malloc0 (sizeof *span + n_key_bytes);
  SpanRef *ref;

  if (series->n_spans == TPS_METRICS_MAX_SAMPLES)
    drop_oldest (type, series);
  *series->last = span;
  series->last = &span->next;
  series->n_spans++;
  if (key == NULL)
    {
      span->is_finished = TRUE;
      series->n_finished++;
      series->n_finished_all++;
      return span;
    }
  span->has_key = TRUE;
  memcpy (span->key, key, n_key_bytes);
  ref = g_new (SpanRef, 1);
  *ref = (SpanRef) { span, series };
  g_hash_table_insert (type->spans, span->key, ref);
  return span;
}

gboolean
tps_metrics_record_start (TpsMetrics *metrics, const gchar *type_name, const gchar *key,
                          const gchar *name, GError **error)
{
  gboolean is_new;
  Type *type;

  tps_mutex_lock (&metrics->lock);
  type = ensure_type (metrics, type_name);
  is_new = !g_hash_table_contains (type->spans, key);
  if (is_new)
    /* The clock is read last, so that what is measured does not contain our own work. */
    append_span (type, name, key)->start_ns = metrics->clock (metrics->clock_data);
  tps_mutex_unlock (&metrics->lock);
  if (!is_new)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
                 "metric_type=%s with key=%s already exists", type_name, key);
  return is_new;
}

static SpanRef *
find_span (TpsMetrics *metrics, const gchar *type_name, const gchar *key)
{
  Type *type = g_hash_table_lookup (metrics->types_by_name, type_name);

  return type == NULL ? NULL : g_hash_table_lookup (type->spans, key);
}

/* `elapsed_ms` NULL: the time since the start. */
static gboolean
end_span (TpsMetrics *metrics, const gchar *type_name, const gchar *key, const gdouble *elapsed_ms,
          GError **error)
{
  gint64 now_ns = metrics->clock (metrics->clock_data);
  gboolean was_finished = FALSE;
  SpanRef *ref;

  tps_mutex_lock (&metrics->lock);
  ref = find_span (metrics, type_name, key);
  if (ref != NULL)
    was_finished = ref->span->is_finished;
  if (ref != NULL && !was_finished)
    {
      ref->span->is_finished = TRUE;
      ref->span->elapsed_ms = elapsed_ms != NULL ? *elapsed_ms
                                                 : (gdouble) (now_ns - ref->span->start_ns) / 1e6;
      ref->series->n_finished++;
      ref->series->n_finished_all++;
    }
  tps_mutex_unlock (&metrics->lock);

  if (ref == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "metric_type=%s with key=%s not found",
                 type_name, key);
  else if (was_finished)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
                 "end for metric_type=%s with key=%s already exists", type_name, key);
  return ref != NULL && !was_finished;
}

gboolean
tps_metrics_record_end (TpsMetrics *metrics, const gchar *type, const gchar *key, GError **error)
{
  return end_span (metrics, type, key, NULL, error);
}

gboolean
tps_metrics_record_elapsed (TpsMetrics *metrics, const gchar *type, const gchar *key,
                            gdouble elapsed_ms, GError **error)
{
  return end_span (metrics, type, key, &elapsed_ms, error);
}

void
tps_metrics_record (TpsMetrics *metrics, const gchar *type, const gchar *name, gdouble elapsed_ms)
{
  tps_mutex_lock (&metrics->lock);
  append_span (ensure_type (metrics, type), name, NULL)->elapsed_ms = elapsed_ms;
  tps_mutex_unlock (&metrics->lock);
}

TpsCounters *
tps_metrics_get_counters (TpsMetrics *metrics)
{
  return metrics->counters;
}

void
tps_metrics_clear (TpsMetrics *metrics)
{
  tps_mutex_lock (&metrics->lock);
  g_hash_table_remove_all (metrics->types_by_name);
  g_ptr_array_set_size (metrics->types, 0);
  tps_mutex_unlock (&metrics->lock);
}

/* Fills in everything but the statistics: those need time and no lock. */
static TpsMetricSummary *
copy_series (const Type *type, const Series *series)
{
  TpsMetricSummary *summary = g_new0 (TpsMetricSummary, 1);

  summary->type = g_strdup (type->name);
  summary->name = g_strdup (series->name);
  summary->count = series->n_finished_all;
  summary->samples_ms = g_new (gdouble, series->n_finished);
  for (const Span *span = series->first; span != NULL; span = span->next)
    if (span->is_finished)
      summary->samples_ms[summary->n_samples++] = span->elapsed_ms;
  return summary;
}

static int
compare_doubles (const void *a, const void *b)
{
  gdouble left = *(const gdouble *) a;
  gdouble right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

/* As numpy.percentile with its default method, to the bit. */
static gdouble
percentile (const gdouble *sorted, guint n, gdouble percent)
{
  gdouble position = percent / 100 * (n - 1);
  guint below = (guint) position;
  guint above = MIN (below + 1, n - 1);
  gdouble part = position - below;
  gdouble step = sorted[above] - sorted[below];

  return part < 0.5 ? sorted[below] + step * part : sorted[above] - step * (1 - part);
}

static void
compute_statistics (TpsMetricSummary *summary)
{
  guint n = summary->n_samples;
  g_autofree gdouble *sorted = g_memdup2 (summary->samples_ms, n * sizeof *sorted);
  gdouble sum = 0, squares = 0;

  qsort (sorted, n, sizeof *sorted, compare_doubles);
  for (guint i = 0; i < n; i++)
    sum += sorted[i];
  summary->mean_ms = sum / n;
  for (guint i = 0; i < n; i++)
    squares += (sorted[i] - summary->mean_ms) * (sorted[i] - summary->mean_ms);
  summary->variance_ms2 = n < 2 ? NAN : squares / (n - 1);
  summary->stdev_ms = sqrt (summary->variance_ms2);
  summary->min_ms = sorted[0];
  summary->max_ms = sorted[n - 1];
  summary->p50_ms = percentile (sorted, n, 50);
  summary->p95_ms = percentile (sorted, n, 95);
  summary->p99_ms = percentile (sorted, n, 99);
}

GPtrArray *
tps_metrics_summarize (TpsMetrics *metrics, gboolean with_samples)
{
  GPtrArray *summaries = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_metric_summary_free);

  tps_mutex_lock (&metrics->lock);
  for (guint i = 0; i < metrics->types->len; i++)
    {
      const Type *type = metrics->types->pdata[i];

      for (guint j = 0; j < type->series->len; j++)
        {
          const Series *series = type->series->pdata[j];

          if (series->n_finished > 0)
            g_ptr_array_add (summaries, copy_series (type, series));
        }
    }
  tps_mutex_unlock (&metrics->lock);

  for (guint i = 0; i < summaries->len; i++)
    {
      TpsMetricSummary *summary = summaries->pdata[i];

      compute_statistics (summary);
      if (!with_samples)
        g_clear_pointer (&summary->samples_ms, g_free);
    }
  return summaries;
}

TpsMetricSummary *
tps_metric_summary_new (const gchar *type, const gchar *name, const gdouble *samples_ms,
                        guint n_samples)
{
  TpsMetricSummary *summary = g_new0 (TpsMetricSummary, 1);

  g_return_val_if_fail (n_samples > 0, NULL);
  summary->type = g_strdup (type);
  summary->name = g_strdup (name);
  summary->count = n_samples;
  summary->n_samples = n_samples;
  summary->samples_ms = g_memdup2 (samples_ms, n_samples * sizeof *samples_ms);
  compute_statistics (summary);
  return summary;
}

void
tps_metric_summary_free (TpsMetricSummary *summary)
{
  g_free (summary->type);
  g_free (summary->name);
  g_free (summary->samples_ms);
  g_free (summary);
}
