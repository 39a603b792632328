/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A reading begins a use of every series, family by family, under the lock. All other work,
 * including the calls of readers and collectors, is done without this lock.
 *
 * The labels of a series as text have a form that Prometheus' text format and OpenMetrics share:
 *
 *   method="EmbeddingTable:lookup_bags",code="NOT_FOUND"
 *
 * Backslashes, quotes and ends of lines are escaped. Equal values have equal text, so the text
 * identifies a series of its family. */

#include "runtime/base/counters.h"

#include <string.h>

#include "runtime/base/cells.h"
#include "runtime/base/sync.h"

struct TpsCounter
{
  TpsCell cell;
};

struct TpsGauge
{
  atomic_llong level;
};

typedef struct
{
  const TpsFamily *about; /* borrowed for ever */
  GHashTable *by_labels;  /* Series.labels -> Series, both borrowed */
  GPtrArray *series;      /* of Series, owned, in the order of their creation */
  guint n_named;          /* series without `is_other` */
} TpsNumberFamily;

typedef struct
{
  TpsNumberFamily *family;
  gchar *labels;
  gchar *values[TPS_MAX_LABELS];
  gboolean is_other;
  guint n_uses;

  /* One of these, by the kind of the family; `read` replaces the first two. */
  TpsCounter counter;
  TpsGauge gauge;
  TpsHistogram *histogram;
  TpsGaugeRead read;
  gpointer user_data;
  GDestroyNotify release;
} TpsSeries;

typedef struct
{
  guint id;
  TpsCollect collect;
  gpointer user_data;
} TpsCollector;

struct TpsCounters
{
  TpsRefcount refcount;

  /* Held while functions of the program (readers, collectors) are called or replaced, so that a
   * removed function is not running. Taken before `lock`. */
  TpsMutex call_lock;
  GArray *collectors; /* of TpsCollector */
  guint last_collector;

  TpsMutex lock;         /* guards everything below, and all families and series */
  GPtrArray *families;   /* of TpsNumberFamily; only added to */
  GHashTable *by_name;   /* name -> TpsNumberFamily, both borrowed */
  GHashTable *by_number; /* TpsCounter, TpsGauge or TpsHistogram -> TpsSeries, both borrowed */
};

struct TpsReading
{
  TpsCounters *counters;
  GArray *families;    /* of TpsFamilyReading */
  GHashTable *by_name; /* name to its number in `families`, from 1 */
  GPtrArray *series;   /* of TpsSeries, each with a use that ends with the reading */
  /* samples of collectors: "name{labels" to the number of the sample, from 1; owns the keys */
  GHashTable *collected;
  GStringChunk *text; /* the texts of these samples */
};

static void
series_free (gpointer data)
{
  TpsSeries *series = data;

  if (series->release != NULL)
    series->release (series->user_data);
  tps_cell_free (series->counter.cell);
  tps_histogram_free (series->histogram);
  for (guint i = 0; i < TPS_MAX_LABELS; i++)
    g_free (series->values[i]);
  g_free (series->labels);
  g_free (series);
}

static void
family_free (gpointer data)
{
  TpsNumberFamily *family = data;

  g_hash_table_unref (family->by_labels);
  g_ptr_array_unref (family->series);
  g_free (family);
}

TpsCounters *
tps_counters_new (void)
{
  TpsCounters *counters = g_new0 (TpsCounters, 1);

  tps_refcount_init (&counters->refcount);
  tps_mutex_init (&counters->call_lock);
  tps_mutex_init (&counters->lock);
  counters->collectors = g_array_new (FALSE, FALSE, sizeof (TpsCollector));
  counters->families = g_ptr_array_new_with_free_func (family_free);
  counters->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  counters->by_number = g_hash_table_new (NULL, NULL);
  return counters;
}

TPS_DEFINE_REF (TpsCounters, tps_counters)

void
tps_counters_unref (TpsCounters *counters)
{
  if (!tps_refcount_dec (&counters->refcount))
    return;
  g_hash_table_unref (counters->by_number);
  g_hash_table_unref (counters->by_name);
  g_ptr_array_unref (counters->families);
  g_array_unref (counters->collectors);
  tps_mutex_clear (&counters->lock);
  tps_mutex_clear (&counters->call_lock);
  g_free (counters);
}

/* Returns the family, and makes it if it does not exist. The lock is held. */
static TpsNumberFamily *
provide_family (TpsCounters *counters, const TpsFamily *about)
{
  TpsNumberFamily *family = g_hash_table_lookup (counters->by_name, about->name);

  if (family == NULL)
    {
      family = g_new0 (TpsNumberFamily, 1);
      family->about = about;
      family->by_labels = g_hash_table_new (g_str_hash, g_str_equal);
      family->series = g_ptr_array_new_with_free_func (series_free);
      g_ptr_array_add (counters->families, family);
      g_hash_table_insert (counters->by_name, (gpointer) (gsize) about->name, family);
    }
  return family;
}

/* Returns the address by which callers know the number of a series. */
static gpointer
get_number_of (TpsSeries *series)
{
  switch (series->family->about->kind)
    {
    case TPS_FAMILY_COUNTER:
      return &series->counter;
    case TPS_FAMILY_HISTOGRAM:
      return series->histogram;
    case TPS_FAMILY_GAUGE:
    default:
      return &series->gauge;
    }
}

/* Returns `value` truncated and as valid UTF-8, but not escaped. The caller owns the text. A
 * character that the truncation cuts is replaced, like other bytes that are not UTF-8. */
static gchar *
label_dup_value (const gchar *value)
{
  const gchar *text = value != NULL ? value : "";

  return g_utf8_make_valid (text, (gssize) strnlen (text, TPS_LABEL_MAX_BYTES));
}

/* Takes ownership of `labels`. The lock is held. */
static TpsSeries *
add_series (TpsCounters *counters, TpsNumberFamily *family, const gchar *const *values,
            gchar *labels, gboolean is_other)
{
  TpsSeries *series = g_new0 (TpsSeries, 1);

  series->family = family;
  series->labels = labels;
  series->is_other = is_other;
  for (guint i = 0; i < TPS_MAX_LABELS && family->about->labels[i] != NULL; i++)
    series->values[i] = label_dup_value (values[i]);
  if (family->about->kind == TPS_FAMILY_COUNTER)
    series->counter.cell = tps_cell_new ();
  if (family->about->kind == TPS_FAMILY_HISTOGRAM)
    series->histogram = tps_histogram_new ();
  family->n_named += !is_other;
  g_ptr_array_add (family->series, series);
  g_hash_table_insert (family->by_labels, series->labels, series);
  g_hash_table_insert (counters->by_number, get_number_of (series), series);
  return series;
}

static guint
get_max_series (const TpsFamily *about)
{
  return about->max_series > 0 ? about->max_series : TPS_FAMILY_MAX_SERIES;
}

static void
append_escaped (GString *text, const gchar *value)
{
  for (; *value != '\0'; value++)
    switch (*value)
      {
      case '\\':
        g_string_append (text, "\\\\");
        break;
      case '"':
        g_string_append (text, "\\\"");
        break;
      case '\n':
        g_string_append (text, "\\n");
        break;
      default:
        g_string_append_c (text, *value);
      }
}

/* Returns the labels of `family` with `values` [TPS_MAX_LABELS]; a value of NULL becomes "". The
 * caller owns the text. */
static gchar *
label_text_new (const TpsFamily *family, const gchar *const *values)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < TPS_MAX_LABELS && family->labels[i] != NULL; i++)
    {
      g_autofree gchar *value = label_dup_value (values[i]);

      if (i > 0)
        g_string_append_c (text, ',');
      g_string_append (text, family->labels[i]);
      g_string_append (text, "=\"");
      append_escaped (text, value);
      g_string_append_c (text, '"');
    }
  return g_string_free (text, FALSE);
}

/* Returns the series of these values, and makes it if it does not exist. Returns NULL if the family
 * has no room for it. The lock is held. */
static TpsSeries *
find_series (TpsCounters *counters, TpsNumberFamily *family, const gchar *const *values,
             gboolean is_other)
{
  g_autofree gchar *labels = label_text_new (family->about, values);
  TpsSeries *series = g_hash_table_lookup (family->by_labels, labels);

  if (series == NULL && (is_other || family->n_named < get_max_series (family->about)))
    series = add_series (counters, family, values, g_steal_pointer (&labels), is_other);
  return series;
}

/* Begins a use of the series with these values. In a full family, a new series is replaced by the
 * series of TPS_OTHER_VALUES. The lock is held. */
static TpsSeries *
use_series (TpsCounters *counters, const TpsFamily *about, const gchar *value, const gchar *value2)
{
  const gchar *values[TPS_MAX_LABELS] = { value, value2 };
  TpsNumberFamily *family = provide_family (counters, about);
  TpsSeries *series = find_series (counters, family, values,
                                   g_strcmp0 (value, TPS_OTHER_VALUES) == 0);

  if (series == NULL)
    {
      values[0] = TPS_OTHER_VALUES;
      series = find_series (counters, family, values, TRUE);
    }
  series->n_uses++;
  return series;
}

static gpointer
use_number (TpsCounters *counters, const TpsFamily *about, const gchar *value, const gchar *value2)
{
  if (counters == NULL)
    return NULL;
  TPS_LOCK_SCOPE (&counters->lock);
  return get_number_of (use_series (counters, about, value, value2));
}

#define DEFINE_USE(Type, name)                                                   \
  Type *tps_counters_use_##name (TpsCounters *counters, const TpsFamily *family, \
                                 const gchar *value, const gchar *value2)        \
  {                                                                              \
    return use_number (counters, family, value, value2);                         \
  }

DEFINE_USE (TpsCounter, counter)
DEFINE_USE (TpsGauge, gauge)
DEFINE_USE (TpsHistogram, histogram)

/* Ends one use of a series, and frees the series with its last use. The lock must be held. */
static void
series_end_use (TpsCounters *counters, TpsSeries *series)
{
  TpsNumberFamily *family = series->family;

  if (--series->n_uses > 0)
    return;
  family->n_named -= !series->is_other;
  g_hash_table_remove (counters->by_number, get_number_of (series));
  g_hash_table_remove (family->by_labels, series->labels);
  g_ptr_array_remove (family->series, series);
}

void
tps_counters_end_use (TpsCounters *counters, gconstpointer number)
{
  TpsSeries *series;

  if (counters == NULL || number == NULL)
    return;
  TPS_LOCK_SCOPE (&counters->lock);
  series = g_hash_table_lookup (counters->by_number, number);
  if (series != NULL)
    series_end_use (counters, series);
}

void
tps_counter_add (TpsCounter *counter, guint64 n)
{
  if (counter != NULL)
    tps_cell_add (counter->cell, n);
}

guint64
tps_counter_get (const TpsCounter *counter)
{
  return counter != NULL ? tps_cell_read (counter->cell) : 0;
}

void
tps_gauge_add (TpsGauge *gauge, gint64 delta)
{
  if (gauge != NULL)
    atomic_fetch_add_explicit (&gauge->level, delta, memory_order_relaxed);
}

void
tps_gauge_set (TpsGauge *gauge, gint64 level)
{
  if (gauge != NULL)
    atomic_store_explicit (&gauge->level, level, memory_order_relaxed);
}

gint64
tps_gauge_get (const TpsGauge *gauge)
{
  return gauge != NULL ? atomic_load_explicit (&gauge->level, memory_order_relaxed) : 0;
}

/* Sets the reader of a series, and returns the data and the release function of the replaced reader
 * in `*user_data` and `*release`. Returns FALSE in a full family, where the number would be mixed
 * with numbers of other objects. Both locks are held. */
static gboolean
set_reader (TpsCounters *counters, TpsSeries *series, TpsGaugeRead read, gpointer *user_data,
            GDestroyNotify *release)
{
  gpointer old_data = series->user_data;
  GDestroyNotify old_release = series->release;

  if (series->is_other)
    {
      series_end_use (counters, series);
      return FALSE;
    }
  if (series->read != NULL)
    series->n_uses--; /* the use of the replaced function */
  series->read = read;
  series->user_data = *user_data;
  series->release = *release;
  *user_data = old_data;
  *release = old_release;
  return TRUE;
}

void
tps_counters_add_reader (TpsCounters *counters, const TpsFamily *family, const gchar *value,
                         const gchar *value2, TpsGaugeRead read, gpointer user_data,
                         GDestroyNotify release)
{
  if (counters != NULL)
    {
      tps_mutex_lock (&counters->call_lock);
      tps_mutex_lock (&counters->lock);
      set_reader (counters, use_series (counters, family, value, value2), read, &user_data,
                  &release);
      tps_mutex_unlock (&counters->lock);
      tps_mutex_unlock (&counters->call_lock);
    }
  if (release != NULL) /* of the replaced function, or of this one if it was not added */
    release (user_data);
}

guint
tps_counters_add_collector (TpsCounters *counters, TpsCollect collect, gpointer user_data)
{
  TpsCollector collector = { .collect = collect, .user_data = user_data };

  if (counters == NULL)
    return 0;
  TPS_LOCK_SCOPE (&counters->call_lock);
  collector.id = ++counters->last_collector;
  g_array_append_val (counters->collectors, collector);
  return collector.id;
}

void
tps_counters_remove_collector (TpsCounters *counters, guint id)
{
  if (counters == NULL)
    return;
  TPS_LOCK_SCOPE (&counters->call_lock);
  for (guint i = 0; i < counters->collectors->len; i++)
    if (g_array_index (counters->collectors, TpsCollector, i).id == id)
      {
        g_array_remove_index (counters->collectors, i);
        break;
      }
}

static TpsFamilyReading *
provide_reading (TpsReading *reading, const TpsFamily *family)
{
  gpointer number = g_hash_table_lookup (reading->by_name, family->name);
  TpsFamilyReading new_family = { .family = family };

  if (number == NULL)
    {
      new_family.samples = g_array_new (FALSE, FALSE, sizeof (TpsSample));
      g_array_append_val (reading->families, new_family);
      number = GUINT_TO_POINTER (reading->families->len);
      g_hash_table_insert (reading->by_name, (gpointer) (gsize) family->name, number);
    }
  return &g_array_index (reading->families, TpsFamilyReading, GPOINTER_TO_UINT (number) - 1);
}

static gint64
get_number (TpsSeries *series)
{
  if (series->read != NULL)
    return series->read (series->user_data);
  switch (series->family->about->kind)
    {
    case TPS_FAMILY_COUNTER:
      return (gint64) tps_counter_get (&series->counter);
    case TPS_FAMILY_GAUGE:
      return tps_gauge_get (&series->gauge);
    case TPS_FAMILY_HISTOGRAM:
    default:
      return 0;
    }
}

static void
take_uses (TpsReading *reading, const TpsNumberFamily *family)
{
  TPS_LOCK_SCOPE (&reading->counters->lock);
  for (guint i = 0; i < family->series->len; i++)
    {
      TpsSeries *series = family->series->pdata[i];

      series->n_uses++;
      g_ptr_array_add (reading->series, series);
    }
}

static void
read_family (TpsReading *reading, const TpsNumberFamily *family)
{
  guint first = reading->series->len;
  GArray *samples;

  take_uses (reading, family);
  if (first == reading->series->len)
    return;
  samples = provide_reading (reading, family->about)->samples;
  for (guint i = first; i < reading->series->len; i++)
    {
      TpsSeries *series = reading->series->pdata[i];
      TpsSample sample = { .labels = series->labels,
                           .number = get_number (series),
                           .histogram = series->histogram };

      for (guint j = 0; j < TPS_MAX_LABELS; j++)
        sample.values[j] = series->values[j];
      g_array_append_val (samples, sample);
    }
}

/* Returns the families, which stay valid: they are never removed. */
static GPtrArray *
copy_families (TpsCounters *counters)
{
  GPtrArray *families = g_ptr_array_new ();

  TPS_LOCK_SCOPE (&counters->lock);
  for (guint i = 0; i < counters->families->len; i++)
    g_ptr_array_add (families, counters->families->pdata[i]);
  return families;
}

static void
append_sample (TpsReading *reading, TpsFamilyReading *family, const gchar *const *values,
               const gchar *labels, gint64 number)
{
  TpsSample sample = { .labels = g_string_chunk_insert (reading->text, labels), .number = number };

  for (guint i = 0; i < TPS_MAX_LABELS && family->family->labels[i] != NULL; i++)
    {
      g_autofree gchar *value = label_dup_value (values[i]);

      sample.values[i] = g_string_chunk_insert (reading->text, value);
    }
  g_array_append_val (family->samples, sample);
}

/* Adds to the sample of these values, and makes it if it does not exist. Returns FALSE if the
 * family has no room for it. The sample of TPS_OTHER_VALUES (`is_other`) always has room. */
static gboolean
add_number (TpsReading *reading, const TpsFamily *about, const gchar *const *values, gint64 number,
            gboolean is_other)
{
  TpsFamilyReading *family = provide_reading (reading, about);
  g_autofree gchar *labels = label_text_new (about, values);
  gchar *key = g_strconcat (about->name, "{", labels, NULL);
  gpointer place = g_hash_table_lookup (reading->collected, key);

  if (place != NULL)
    g_array_index (family->samples, TpsSample, GPOINTER_TO_UINT (place) - 1).number += number;
  if (place != NULL || (family->samples->len >= get_max_series (about) && !is_other))
    {
      g_free (key);
      return place != NULL;
    }
  append_sample (reading, family, values, labels, number);
  g_hash_table_insert (reading->collected, key, GUINT_TO_POINTER (family->samples->len));
  return TRUE;
}

void
tps_reading_add (TpsReading *reading, const TpsFamily *family, const gchar *value,
                 const gchar *value2, gint64 number)
{
  const gchar *values[TPS_MAX_LABELS] = { value, value2 };

  if (add_number (reading, family, values, number, FALSE))
    return;
  values[0] = TPS_OTHER_VALUES;
  add_number (reading, family, values, number, TRUE);
}

static gint
compare_families (gconstpointer a, gconstpointer b)
{
  const TpsFamilyReading *left = a;
  const TpsFamilyReading *right = b;

  return strcmp (left->family->name, right->family->name);
}

static void
clear_family (gpointer data)
{
  TpsFamilyReading *family = data;

  g_array_unref (family->samples);
}

TpsReading *
tps_counters_read (TpsCounters *counters)
{
  TpsReading *reading = g_new0 (TpsReading, 1);
  g_autoptr (GPtrArray) families = copy_families (counters);

  reading->counters = tps_counters_ref (counters);
  reading->families = g_array_new (FALSE, FALSE, sizeof (TpsFamilyReading));
  g_array_set_clear_func (reading->families, clear_family);
  reading->by_name = g_hash_table_new (g_str_hash, g_str_equal);
  reading->series = g_ptr_array_new ();
  reading->collected = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  reading->text = g_string_chunk_new (4096);

  tps_mutex_lock (&counters->call_lock);
  for (guint i = 0; i < families->len; i++)
    read_family (reading, families->pdata[i]);
  for (guint i = 0; i < counters->collectors->len; i++)
    {
      const TpsCollector *collector = &g_array_index (counters->collectors, TpsCollector, i);

      collector->collect (reading, collector->user_data);
    }
  tps_mutex_unlock (&counters->call_lock);
  g_array_sort (reading->families, compare_families);
  return reading;
}

void
tps_reading_free (TpsReading *reading)
{
  TpsCounters *counters = reading->counters;

  tps_mutex_lock (&counters->lock);
  for (guint i = 0; i < reading->series->len; i++)
    series_end_use (counters, reading->series->pdata[i]);
  tps_mutex_unlock (&counters->lock);
  g_string_chunk_free (reading->text);
  g_hash_table_unref (reading->collected);
  g_ptr_array_unref (reading->series);
  g_hash_table_unref (reading->by_name);
  g_array_unref (reading->families);
  tps_counters_unref (counters);
  g_free (reading);
}

const TpsFamilyReading *
tps_reading_get_families (const TpsReading *reading, guint *n_families)
{
  *n_families = reading->families->len;
  return (const TpsFamilyReading *) (gconstpointer) reading->families->data;
}
