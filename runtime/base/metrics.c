/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A type has one series for each name, and a series has samples in the order of their start. A type
 * also maps keys to spans, so that the end of a span finds its sample.
 *
 * A series is a ring of at most TPS_METRICS_MAX_SAMPLES samples, finished or not. The oldest sample
 * is removed first, with its key. Spans that never end therefore do not accumulate either.
 *
 * Recording threads never wait long, because a summary copies one series at a time under the lock
 * and sorts the copies without it. The last summary is kept, and is returned again until there is a
 * change.
 */

#include "runtime/base/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* The number of slots in the first ring of a series. */
#define MIN_SLOTS 64

typedef struct Series Series;

/* The key of a sample, and its time. */
typedef struct
{
  Series *series;
  guint64 number; /* of the sample in its series */
  gint64 start_ns;
  gboolean is_finished;
  gchar key[];
} Span;

/* The series holds the samples [first, end); sample n is in slot n % n_slots. */
struct Series
{
  gchar *name;
  guint64 first;
  guint64 end;
  guint n_slots;         /* a power of two, or 0 */
  gdouble *elapsed_ms;   /* NAN = not finished */
  Span **spans;          /* borrowed from the type; NULL = the sample has no key */
  guint n_finished;      /* of the samples that are held */
  gint64 n_finished_all; /* since the series was made */
};

typedef struct
{
  gchar *name;
  GPtrArray *series;          /* Series, in the order of first use */
  GHashTable *series_by_name; /* name to Series; borrows both */
  GHashTable *spans;          /* key to Span; owns the Span, which contains the key */
} Type;

struct TpsMetrics
{
  TpsRefcount refcount;
  TpsClockFunc clock;
  gpointer clock_data;
  TpsCounters *counters;

  TpsMutex lock;             /* guards everything below */
  GPtrArray *types;          /* Type, in the order of first use */
  GHashTable *types_by_name; /* name to Type; borrows both */
  guint64 n_changes;         /* finished samples and clears */
  guint64 n_clears;

  /* The last summaries, without samples [0] and with samples [1]; NULL = none. `kept_changes` is
   * the value of n_changes for each. */
  GPtrArray *kept[2];
  guint64 kept_changes[2];
};

static void
series_free (gpointer data)
{
  Series *series = data;

  g_free (series->elapsed_ms);
  g_free (series->spans);
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

TPS_DEFINE_REF (TpsMetrics, tps_metrics)

static void
drop_kept (TpsMetrics *metrics)
{
  for (guint i = 0; i < G_N_ELEMENTS (metrics->kept); i++)
    g_clear_pointer (&metrics->kept[i], g_ptr_array_unref);
}

void
tps_metrics_unref (TpsMetrics *metrics)
{
  if (!tps_refcount_dec (&metrics->refcount))
    return;
  drop_kept (metrics);
  g_hash_table_unref (metrics->types_by_name);
  g_ptr_array_unref (metrics->types);
  tps_counters_unref (metrics->counters);
  tps_mutex_clear (&metrics->lock);
  g_free (metrics);
}

/* Returns the type `name`, and makes it if it does not exist. The lock is held. */
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

/* Returns the series `name` of a type, and makes it if it does not exist. The lock is held. */
static Series *
ensure_series (Type *type, const gchar *name)
{
  Series *series = g_hash_table_lookup (type->series_by_name, name);

  if (series != NULL)
    return series;
  series = g_new0 (Series, 1);
  series->name = g_strdup (name);
  g_ptr_array_add (type->series, series);
  g_hash_table_insert (type->series_by_name, series->name, series);
  return series;
}

static gboolean
is_finished (const Series *series, guint64 number)
{
  return !isnan (series->elapsed_ms[number % series->n_slots]);
}

static void
drop_oldest (Type *type, Series *series)
{
  Span *span = series->spans[series->first % series->n_slots];

  series->n_finished -= is_finished (series, series->first);
  if (span != NULL)
    g_hash_table_remove (type->spans, span->key);
  series->first++;
}

/* Doubles the number of slots. Samples keep their numbers, and therefore change their slots. */
static void
grow (Series *series)
{
  guint n_slots = MAX (series->n_slots * 2, MIN_SLOTS);
  gdouble *elapsed_ms = g_new (gdouble, n_slots);
  Span **spans = g_new (Span *, n_slots);

  for (guint64 i = series->first; i < series->end; i++)
    {
      elapsed_ms[i % n_slots] = series->elapsed_ms[i % series->n_slots];
      spans[i % n_slots] = series->spans[i % series->n_slots];
    }
  g_free (series->elapsed_ms);
  g_free (series->spans);
  series->elapsed_ms = elapsed_ms;
  series->spans = spans;
  series->n_slots = n_slots;
}

static guint64
append_sample (Type *type, Series *series, Span *span)
{
  guint64 number = series->end;

  if (number - series->first == TPS_METRICS_MAX_SAMPLES)
    drop_oldest (type, series);
  if (number - series->first == series->n_slots)
    grow (series);
  series->elapsed_ms[number % series->n_slots] = NAN;
  series->spans[number % series->n_slots] = span;
  series->end++;
  return number;
}

static void
finish_sample (TpsMetrics *metrics, Series *series, guint64 number, gdouble elapsed_ms)
{
  series->elapsed_ms[number % series->n_slots] = elapsed_ms;
  series->n_finished++;
  series->n_finished_all++;
  metrics->n_changes++;
}

static Span *
append_span (Type *type, const gchar *name, const gchar *key)
{
  gsize n_key_bytes = strlen (key) + 1;
  Span *span = g_malloc0 (sizeof *span + n_key_bytes);

  span->series = ensure_series (type, name);
  memcpy (span->key, key, n_key_bytes);
  span->number = append_sample (type, span->series, span);
  g_hash_table_insert (type->spans, span->key, span);
  return span;
}

gboolean
tps_metrics_record_start (TpsMetrics *metrics, const gchar *type_name, const gchar *key,
                          const gchar *name, GError **error)
{
  Type *type;

  TPS_LOCK_SCOPE (&metrics->lock);
  type = ensure_type (metrics, type_name);
  if (g_hash_table_contains (type->spans, key))
    return tps_fail (error, TPS_ERROR_ALREADY_EXISTS, "metric_type=%s with key=%s already exists",
                     type_name, key);
  /* The clock is read last, so that the measured time does not include this function. */
  append_span (type, name, key)->start_ns = metrics->clock (metrics->clock_data);
  return TRUE;
}

/* Ends a span. If `elapsed_ms` is NULL, the sample is the time since the start of the span. */
static gboolean
end_span (TpsMetrics *metrics, const gchar *type_name, const gchar *key, const gdouble *elapsed_ms,
          GError **error)
{
  gint64 now_ns = metrics->clock (metrics->clock_data);
  const Type *type;
  Span *span;

  TPS_LOCK_SCOPE (&metrics->lock);
  type = g_hash_table_lookup (metrics->types_by_name, type_name);
  span = type != NULL ? g_hash_table_lookup (type->spans, key) : NULL;
  if (span == NULL)
    return tps_fail (error, TPS_ERROR_NOT_FOUND, "metric_type=%s with key=%s not found", type_name,
                     key);
  if (span->is_finished)
    return tps_fail (error, TPS_ERROR_ALREADY_EXISTS,
                     "end for metric_type=%s with key=%s already exists", type_name, key);
  span->is_finished = TRUE;
  finish_sample (metrics, span->series, span->number,
                 elapsed_ms != NULL ? *elapsed_ms : (gdouble) (now_ns - span->start_ns) / 1e6);
  return TRUE;
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
  Type *of_type;
  Series *series;

  TPS_LOCK_SCOPE (&metrics->lock);
  of_type = ensure_type (metrics, type);
  series = ensure_series (of_type, name);
  finish_sample (metrics, series, append_sample (of_type, series, NULL), elapsed_ms);
}

TpsCounters *
tps_metrics_get_counters (TpsMetrics *metrics)
{
  return metrics->counters;
}

void
tps_metrics_clear (TpsMetrics *metrics)
{
  TPS_LOCK_SCOPE (&metrics->lock);
  g_hash_table_remove_all (metrics->types_by_name);
  g_ptr_array_set_size (metrics->types, 0);
  drop_kept (metrics);
  metrics->n_changes++;
  metrics->n_clears++;
}

/* Returns a summary without statistics. Its samples are all samples in the ring; unfinished ones
 * are NAN. */
static TpsMetricSummary *
copy_series (const Type *type, const Series *series)
{
  TpsMetricSummary *summary = g_new0 (TpsMetricSummary, 1);
  guint n_held = (guint) (series->end - series->first);
  guint first_slot = (guint) (series->first % series->n_slots);
  guint n_to_end = MIN (n_held, series->n_slots - first_slot);

  summary->type = g_strdup (type->name);
  summary->name = g_strdup (series->name);
  summary->count = series->n_finished_all;
  summary->n_samples = n_held;
  summary->samples_ms = g_new (gdouble, n_held);
  memcpy (summary->samples_ms, series->elapsed_ms + first_slot, n_to_end * sizeof (gdouble));
  memcpy (summary->samples_ms + n_to_end, series->elapsed_ms,
          (n_held - n_to_end) * sizeof (gdouble));
  return summary;
}

static void
drop_unfinished (TpsMetricSummary *summary)
{
  guint n_finished = 0;

  for (guint i = 0; i < summary->n_samples; i++)
    if (!isnan (summary->samples_ms[i]))
      summary->samples_ms[n_finished++] = summary->samples_ms[i];
  summary->n_samples = n_finished;
}

static int
compare_doubles (const void *a, const void *b)
{
  gdouble left = *(const gdouble *) a;
  gdouble right = *(const gdouble *) b;

  return left < right ? -1 : left > right;
}

/* Returns the same bits as numpy.percentile() with its default method. */
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

/* Copies one series at a time, and releases the lock after each. Types and series are only ever
 * added, so that their indexes stay valid. The exception is tps_metrics_clear(), after which there
 * is nothing left to copy. The lock is held. */
static void
copy_all (TpsMetrics *metrics, GPtrArray *summaries)
{
  guint64 n_clears = metrics->n_clears;

  for (guint i = 0; i < metrics->types->len; i++)
    for (guint j = 0; j < ((const Type *) metrics->types->pdata[i])->series->len; j++)
      {
        const Type *type = metrics->types->pdata[i];
        const Series *series = type->series->pdata[j];

        if (series->n_finished > 0) /* a series without a finished sample has no summary */
          g_ptr_array_add (summaries, copy_series (type, series));
        tps_mutex_unlock (&metrics->lock);
        tps_mutex_lock (&metrics->lock);
        if (metrics->n_clears != n_clears)
          {
            g_ptr_array_set_size (summaries, 0);
            return;
          }
      }
}

static gsize
get_series_bytes (const Type *type)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < type->series->len; i++)
    {
      const Series *series = type->series->pdata[i];

      n_bytes += sizeof (TpsMetricSummary) + strlen (type->name) + strlen (series->name) + 2
                 + (gsize) (series->end - series->first) * 2 * sizeof (gdouble);
    }
  return n_bytes;
}

gsize
tps_metrics_get_summary_bytes (TpsMetrics *metrics)
{
  gsize n_bytes = 0;

  TPS_LOCK_SCOPE (&metrics->lock);
  for (guint i = 0; i < metrics->types->len; i++)
    n_bytes += get_series_bytes (metrics->types->pdata[i]);
  return n_bytes;
}

GPtrArray *
tps_metrics_summarize (TpsMetrics *metrics, gboolean with_samples)
{
  GPtrArray **kept = &metrics->kept[with_samples ? 1 : 0];
  guint64 *kept_changes = &metrics->kept_changes[with_samples ? 1 : 0];
  GPtrArray *summaries;
  GPtrArray *replaced;
  guint64 n_changes;

  tps_mutex_lock (&metrics->lock);
  n_changes = metrics->n_changes;
  if (*kept != NULL && *kept_changes == n_changes)
    {
      summaries = g_ptr_array_ref (*kept);
      tps_mutex_unlock (&metrics->lock);
      return summaries;
    }
  summaries = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_metric_summary_free);
  copy_all (metrics, summaries);
  tps_mutex_unlock (&metrics->lock);

  for (guint i = 0; i < summaries->len; i++)
    {
      TpsMetricSummary *summary = summaries->pdata[i];

      drop_unfinished (summary);
      compute_statistics (summary);
      if (!with_samples)
        g_clear_pointer (&summary->samples_ms, g_free);
    }

  tps_mutex_lock (&metrics->lock);
  replaced = g_steal_pointer (kept);
  if (metrics->n_changes == n_changes)
    {
      *kept = g_ptr_array_ref (summaries);
      *kept_changes = n_changes;
    }
  tps_mutex_unlock (&metrics->lock);
  g_clear_pointer (&replaced, g_ptr_array_unref);
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
