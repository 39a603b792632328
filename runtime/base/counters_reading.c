/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A reading begins a use of every series, family by family, under the lock. All other work,
 * including the calls of readers and collectors, is done without this lock.
 */

#include <string.h>

#include "runtime/base/counters_private.h"
#include "runtime/base/label_text.h"

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

static TpsFamilyReading *
provide_family (TpsReading *reading, const TpsFamily *family)
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

/* ---- series ---------------------------------------------------------------------------------- */

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
  tps_mutex_lock (&reading->counters->lock);
  for (guint i = 0; i < family->series->len; i++)
    {
      TpsSeries *series = family->series->pdata[i];

      series->n_uses++;
      g_ptr_array_add (reading->series, series);
    }
  tps_mutex_unlock (&reading->counters->lock);
}

static void
read_family (TpsReading *reading, const TpsNumberFamily *family)
{
  guint first = reading->series->len;
  GArray *samples;

  take_uses (reading, family);
  if (first == reading->series->len)
    return;
  samples = provide_family (reading, family->about)->samples;
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

  tps_mutex_lock (&counters->lock);
  for (guint i = 0; i < counters->families->len; i++)
    g_ptr_array_add (families, counters->families->pdata[i]);
  tps_mutex_unlock (&counters->lock);
  return families;
}

/* ---- collectors ------------------------------------------------------------------------------ */

static void
append_sample (TpsReading *reading, TpsFamilyReading *family, const gchar *const *values,
               const gchar *labels, gint64 number)
{
  TpsSample sample = { .labels = g_string_chunk_insert (reading->text, labels), .number = number };

  for (guint i = 0; i < TPS_MAX_LABELS && family->family->labels[i] != NULL; i++)
    {
      g_autofree gchar *value = tps_label_dup_value (values[i]);

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
  TpsFamilyReading *family = provide_family (reading, about);
  guint max_samples = about->max_series > 0 ? about->max_series : TPS_FAMILY_MAX_SERIES;
  g_autofree gchar *labels = tps_label_text_new (about, values);
  gchar *key = g_strconcat (about->name, "{", labels, NULL);
  gpointer place = g_hash_table_lookup (reading->collected, key);

  if (place != NULL)
    g_array_index (family->samples, TpsSample, GPOINTER_TO_UINT (place) - 1).number += number;
  if (place != NULL || (family->samples->len >= max_samples && !is_other))
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

/* ---- all families ---------------------------------------------------------------------------- */

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
    tps_series_end_use (counters, reading->series->pdata[i]);
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
