/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Prometheus' text format and OpenMetrics differ in the names of counter families, in the line
 * UNIT, in exemplars and in the end marker. Bounds are written as OpenMetrics requires ("1.0"), so
 * that a series is the same in both formats. Numbers are written digit by digit instead of by
 * printf(), because a scrape of 10,000 series is a megabyte of text. */

#include "runtime/base/exposition.h"

#include <string.h>

#define PREFIX "thriftps_"
#define TOTAL "_total"
#define FIRST_BYTES 16384 /* the initial capacity of the body */
#define MAX_DIGITS 24

/* Upper bounds of the buckets of histograms, as numbers and as OpenMetrics writes them. */
static const struct
{
  gdouble seconds;
  const gchar *text;
} bounds[] = {
  { 0.00001, "1e-05" },   { 0.000025, "2.5e-05" }, { 0.00005, "5e-05" }, { 0.0001, "0.0001" },
  { 0.00025, "0.00025" }, { 0.0005, "0.0005" },    { 0.001, "0.001" },   { 0.0025, "0.0025" },
  { 0.005, "0.005" },     { 0.01, "0.01" },        { 0.025, "0.025" },   { 0.05, "0.05" },
  { 0.1, "0.1" },         { 0.25, "0.25" },        { 0.5, "0.5" },       { 1, "1.0" },
  { 2.5, "2.5" },         { 10, "10.0" },          { 60, "60.0" },
};

#define N_BOUNDS G_N_ELEMENTS (bounds)

/* ---- choice of a format ---------------------------------------------------------------------- */

static const struct
{
  const gchar *type;
  const gchar *version; /* the only one, if the parameter is present; NULL = any */
  TpsExpositionFormat format;
} media_types[] = {
  { "application/openmetrics-text", "1.0.0", TPS_EXPOSITION_OPENMETRICS },
  { "text/plain", "0.0.4", TPS_EXPOSITION_TEXT },
  { "text/*", NULL, TPS_EXPOSITION_TEXT },
  { "*/*", NULL, TPS_EXPOSITION_TEXT },
};

/* Returns the value of the parameter `name`; NULL if there is none. The first part is the media
 * type, the others are parameters of the form "name=value". */
static const gchar *
find_parameter (gchar *const *parts, const gchar *name)
{
  gsize n_bytes = strlen (name);

  for (guint i = 1; parts[i] != NULL; i++)
    if (g_ascii_strncasecmp (parts[i], name, n_bytes) == 0 && parts[i][n_bytes] == '=')
      return parts[i] + n_bytes + 1;
  return NULL;
}

static gboolean
matches (gchar *const *parts, guint i)
{
  const gchar *version = find_parameter (parts, "version");

  return g_ascii_strcasecmp (parts[0], media_types[i].type) == 0
         && (version == NULL || media_types[i].version == NULL
             || strcmp (version, media_types[i].version) == 0);
}

/* Returns the weight of one element of the header, and sets `format`. The weight is 0 if the format
 * is unknown or not acceptable. */
static gdouble
weigh (const gchar *element, TpsExpositionFormat *format)
{
  g_auto (GStrv) parts = g_strsplit (element, ";", -1);
  const gchar *weight;

  if (parts[0] == NULL)
    return 0;
  for (guint i = 0; parts[i] != NULL; i++)
    g_strstrip (parts[i]);
  weight = find_parameter (parts, "q");
  for (guint i = 0; i < G_N_ELEMENTS (media_types); i++)
    if (matches (parts, i))
      {
        *format = media_types[i].format;
        return weight != NULL ? g_ascii_strtod (weight, NULL) : 1;
      }
  return 0;
}

TpsExpositionFormat
tps_exposition_choose (const gchar *accept)
{
  g_auto (GStrv) elements = g_strsplit (accept != NULL ? accept : "", ",", -1);
  TpsExpositionFormat chosen = TPS_EXPOSITION_TEXT;
  gdouble best = 0;

  for (guint i = 0; elements[i] != NULL; i++)
    {
      TpsExpositionFormat format = TPS_EXPOSITION_TEXT;
      gdouble weight = weigh (elements[i], &format);

      if (weight > best)
        {
          best = weight;
          chosen = format;
        }
    }
  return chosen;
}

const gchar *
tps_exposition_get_content_type (TpsExpositionFormat format)
{
  return format == TPS_EXPOSITION_OPENMETRICS
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

/* ---- the body -------------------------------------------------------------------------------- */

typedef struct
{
  GString *body;
  gboolean is_openmetrics;
  gchar *name;             /* of the current family */
  gsize n_plain;           /* the length of the name without "_total" */
  guint indexes[N_BOUNDS]; /* of the last bucket up to each bound */
  TpsHistogramCounts *counts;
} Text;

/* ---- numbers --------------------------------------------------------------------------------- */

static void
append_number (GString *body, guint64 number)
{
  gchar digits[MAX_DIGITS];
  guint first = MAX_DIGITS;

  do
    digits[--first] = (gchar) ('0' + number % 10);
  while ((number /= 10) > 0);
  g_string_append_len (body, digits + first, MAX_DIGITS - first);
}

/* Writes `number` in units of 10^-n_decimals, without trailing zeros. */
static void
append_decimal (GString *body, gint64 number, guint n_decimals)
{
  guint64 rest = number < 0 ? -(guint64) number : (guint64) number;
  guint64 unit = 1;

  for (guint i = 0; i < n_decimals; i++)
    unit *= 10;
  if (number < 0)
    g_string_append_c (body, '-');
  append_number (body, rest / unit);
  rest %= unit;
  if (rest == 0)
    return;
  g_string_append_c (body, '.');
  for (; rest > 0; rest %= unit)
    {
      unit /= 10;
      g_string_append_c (body, (gchar) ('0' + rest / unit));
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Returns the unit at the end of a name; NULL if there is none. */
static const gchar *
find_unit (const gchar *name, gsize n_bytes)
{
  static const gchar *const units[] = { "seconds", "bytes" };

  for (guint i = 0; i < G_N_ELEMENTS (units); i++)
    {
      gsize n = strlen (units[i]);

      if (n_bytes > n && name[n_bytes - n - 1] == '_'
          && memcmp (name + n_bytes - n, units[i], n) == 0)
        return units[i];
    }
  return NULL;
}

static void
write_about (Text *text, const gchar *keyword, gsize n_name_bytes, const gchar *value)
{
  g_string_append (text->body, keyword);
  g_string_append_len (text->body, text->name, (gssize) n_name_bytes);
  g_string_append_c (text->body, ' ');
  g_string_append (text->body, value);
  g_string_append_c (text->body, '\n');
}

static void
write_head (Text *text, const TpsFamily *family)
{
  static const gchar *const types[] = {
    [TPS_FAMILY_COUNTER] = "counter",
    [TPS_FAMILY_GAUGE] = "gauge",
    [TPS_FAMILY_HISTOGRAM] = "histogram",
  };
  gsize n_bytes = text->is_openmetrics ? text->n_plain : strlen (text->name);
  const gchar *unit = text->is_openmetrics ? find_unit (text->name, n_bytes) : NULL;

  write_about (text, "# HELP ", n_bytes, family->help);
  write_about (text, "# TYPE ", n_bytes, types[family->kind]);
  if (unit != NULL)
    write_about (text, "# UNIT ", n_bytes, unit);
}

/* Writes the name, the labels and a space. `le` is the bound of a bucket; NULL for other lines. */
static void
begin_line (Text *text, const gchar *suffix, const gchar *labels, const gchar *le)
{
  GString *body = text->body;

  g_string_append_len (body, text->name, (gssize) text->n_plain);
  g_string_append (body, suffix);
  if (*labels != '\0' || le != NULL)
    {
      g_string_append_c (body, '{');
      g_string_append (body, labels);
      if (le != NULL)
        {
          g_string_append (body, *labels != '\0' ? ",le=\"" : "le=\"");
          g_string_append (body, le);
          g_string_append_c (body, '"');
        }
      g_string_append_c (body, '}');
    }
  g_string_append_c (body, ' ');
}

/* Writes the newest exemplar of the bucket, in OpenMetrics only. Example: # {trace_id="..."} 0.25
 * 1790000000.125 */
static void
write_exemplar (Text *text, const TpsHistogram *histogram, gdouble above_s, gdouble up_to_s)
{
  TpsExemplar exemplar;

  if (!text->is_openmetrics
      || !tps_histogram_find_exemplar (histogram, above_s, up_to_s, &exemplar))
    return;
  g_string_append (text->body, " # {trace_id=\"");
  g_string_append (text->body, exemplar.trace_id);
  g_string_append (text->body, "\"} ");
  append_decimal (text->body, exemplar.duration_ns, 9);
  g_string_append_c (text->body, ' ');
  append_decimal (text->body, exemplar.time_ms, 3);
}

/* Writes the bucket of bound `i`. The last bucket has no bound. */
static void
write_bucket (Text *text, const TpsSample *sample, guint i, guint64 n)
{
  gboolean is_last = i == N_BOUNDS;

  begin_line (text, "_bucket", sample->labels, is_last ? "+Inf" : bounds[i].text);
  append_number (text->body, n);
  write_exemplar (text, sample->histogram, i > 0 ? bounds[i - 1].seconds : 0,
                  is_last ? G_MAXDOUBLE : bounds[i].seconds);
  g_string_append_c (text->body, '\n');
}

static void
write_histogram (Text *text, const TpsSample *sample)
{
  TpsHistogramCounts *counts = text->counts;
  guint bucket;
  guint64 n = 0;

  tps_histogram_counts_clear (counts);
  tps_histogram_read (sample->histogram, counts);
  bucket = counts->first;
  for (guint i = 0; i < N_BOUNDS; i++)
    {
      for (; bucket < counts->end && bucket <= text->indexes[i]; bucket++)
        n += counts->buckets[bucket];
      write_bucket (text, sample, i, n);
    }
  write_bucket (text, sample, N_BOUNDS, counts->count);
  begin_line (text, "_sum", sample->labels, NULL);
  append_decimal (text->body, (gint64) counts->sum_ns, 9);
  g_string_append_c (text->body, '\n');
  begin_line (text, "_count", sample->labels, NULL);
  append_number (text->body, counts->count);
  g_string_append_c (text->body, '\n');
}

static void
write_family (Text *text, const TpsFamilyReading *family)
{
  /* All exporters use the names process_*. */
  text->name = g_strconcat (g_str_has_prefix (family->family->name, "process_") ? "" : PREFIX,
                            family->family->name, NULL);
  text->n_plain = strlen (text->name);
  if (family->family->kind == TPS_FAMILY_COUNTER && g_str_has_suffix (text->name, TOTAL))
    text->n_plain -= strlen (TOTAL);
  write_head (text, family->family);
  for (guint i = 0; i < family->samples->len; i++)
    {
      const TpsSample *sample = &g_array_index (family->samples, TpsSample, i);

      if (family->family->kind == TPS_FAMILY_HISTOGRAM)
        write_histogram (text, sample);
      else
        {
          begin_line (text, family->family->kind == TPS_FAMILY_COUNTER ? TOTAL : "", sample->labels,
                      NULL);
          append_decimal (text->body, sample->number, family->family->n_decimals);
          g_string_append_c (text->body, '\n');
        }
    }
  g_clear_pointer (&text->name, g_free);
}

GString *
tps_exposition_write (TpsCounters *counters, TpsExpositionFormat format)
{
  g_autoptr (TpsReading) reading = tps_counters_read (counters);
  Text text = { .body = g_string_sized_new (FIRST_BYTES),
                .is_openmetrics = format == TPS_EXPOSITION_OPENMETRICS };
  guint n_families;
  const TpsFamilyReading *families = tps_reading_get_families (reading, &n_families);

  text.counts = tps_histogram_counts_new ();
  for (guint i = 0; i < N_BOUNDS; i++)
    text.indexes[i] = tps_histogram_find_bound (bounds[i].seconds);
  for (guint i = 0; i < n_families; i++)
    write_family (&text, &families[i]);
  if (text.is_openmetrics)
    g_string_append (text.body, "# EOF\n");
  g_free (text.counts);
  return text.body;
}
