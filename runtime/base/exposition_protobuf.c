/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes messages of the type io.prometheus.client.MetricFamily
 * (client_model/io/prometheus/client/metrics.proto), each preceded by its length. A message is
 * written without its length at first. The length is then inserted before the message.
 */

#include <string.h>

#include "runtime/base/exposition_private.h"

/* Field numbers of metrics.proto. */
enum
{
  FAMILY_NAME = 1,
  FAMILY_HELP = 2,
  FAMILY_TYPE = 3,
  FAMILY_METRIC = 4,

  METRIC_LABEL = 1,
  METRIC_GAUGE = 2,
  METRIC_COUNTER = 3,
  METRIC_HISTOGRAM = 7,

  LABEL_NAME = 1,
  LABEL_VALUE = 2,

  NUMBER_VALUE = 1, /* of a counter or a gauge */

  HISTOGRAM_SAMPLE_COUNT = 1,
  HISTOGRAM_SAMPLE_SUM = 2,
  HISTOGRAM_BUCKET = 3,
  HISTOGRAM_SCHEMA = 5,
  HISTOGRAM_ZERO_THRESHOLD = 6,
  HISTOGRAM_ZERO_COUNT = 7,
  HISTOGRAM_POSITIVE_SPAN = 12,
  HISTOGRAM_POSITIVE_DELTA = 13,

  BUCKET_CUMULATIVE_COUNT = 1,
  BUCKET_UPPER_BOUND = 2,

  SPAN_OFFSET = 1,
  SPAN_LENGTH = 2,
};

/* Values of MetricType. */
static const guint types[] = {
  [TPS_FAMILY_COUNTER] = 0,
  [TPS_FAMILY_GAUGE] = 1,
  [TPS_FAMILY_HISTOGRAM] = 4,
};

/* Wire types of the encoding. */
enum
{
  WIRE_VARINT = 0,
  WIRE_DOUBLE = 1,
  WIRE_BYTES = 2,
};

/* Less than any duration. The presence of this field also marks a native histogram. */
#define ZERO_THRESHOLD 0x1p-128

#define MAX_VARINT_BYTES 10

/* ---- the encoding ---------------------------------------------------------------------------- */

static guint
encode_varint (gchar *bytes, guint64 value)
{
  guint n = 0;

  for (; value >= 0x80; value >>= 7)
    bytes[n++] = (gchar) (value | 0x80);
  bytes[n++] = (gchar) value;
  return n;
}

static void
append_varint (GString *body, guint64 value)
{
  gchar bytes[MAX_VARINT_BYTES];
  guint n = encode_varint (bytes, value);

  g_string_append_len (body, bytes, n);
}

static guint64
zigzag (gint64 value)
{
  return (guint64) value << 1 ^ (value < 0 ? G_MAXUINT64 : 0);
}

static void
write_uint (GString *body, guint field, guint64 value)
{
  append_varint (body, field << 3 | WIRE_VARINT);
  append_varint (body, value);
}

static void
write_double (GString *body, guint field, gdouble value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  bits = GUINT64_TO_LE (bits);
  append_varint (body, field << 3 | WIRE_DOUBLE);
  g_string_append_len (body, (const gchar *) &bits, sizeof bits);
}

static void
write_text (GString *body, guint field, const gchar *text)
{
  gsize n_bytes = strlen (text);

  append_varint (body, field << 3 | WIRE_BYTES);
  append_varint (body, n_bytes);
  g_string_append_len (body, text, (gssize) n_bytes);
}

/* Turns the bytes from offset `begin` on into the field `field`: inserts its tag and length. If
 * `field` is 0, inserts only the length. */
static void
end_message (GString *body, guint field, gsize begin)
{
  gchar head[2 * MAX_VARINT_BYTES];
  guint n = field != 0 ? encode_varint (head, field << 3 | WIRE_BYTES) : 0;

  n += encode_varint (head + n, body->len - begin);
  g_string_insert_len (body, (gssize) begin, head, n);
}

/* ---- histograms ------------------------------------------------------------------------------ */

static void
write_bucket (GString *body, gdouble bound_s, guint64 n)
{
  gsize begin = body->len;

  write_uint (body, BUCKET_CUMULATIVE_COUNT, n);
  write_double (body, BUCKET_UPPER_BOUND, bound_s);
  end_message (body, HISTOGRAM_BUCKET, begin);
}

/* Writes the classic buckets. The last bucket, which contains all durations, is implied by the
 * sample count. */
static void
write_classic (GString *body, TpsCounters *counters, const TpsHistogramCounts *counts)
{
  guint n_bounds;
  const gdouble *bounds_s = tps_counters_get_bounds (counters, &n_bounds);
  guint bucket = counts->first;
  guint64 n = 0;

  for (guint i = 0; i < n_bounds; i++)
    {
      guint last = tps_histogram_find_bound (bounds_s[i]);

      for (; bucket < counts->end && bucket <= last; bucket++)
        n += counts->buckets[bucket];
      write_bucket (body, bounds_s[i], n);
    }
}

static void
write_span (GString *body, gint offset, guint length)
{
  gsize begin = body->len;

  write_uint (body, SPAN_OFFSET, zigzag (offset));
  write_uint (body, SPAN_LENGTH, length);
  end_message (body, HISTOGRAM_POSITIVE_SPAN, begin);
}

/* Writes runs of buckets that are not empty. The first run is identified by the number of its first
 * bucket, later runs by the gap before them. */
static void
write_spans (GString *body, const TpsHistogramCounts *counts)
{
  guint end_of_last = 0;
  guint i = counts->first;

  while (i < counts->end)
    {
      guint begin = i;

      while (i < counts->end && counts->buckets[i] > 0)
        i++;
      if (i > begin)
        {
          write_span (body,
                      end_of_last == 0 ? tps_histogram_get_native_number (begin)
                                       : (gint) (begin - end_of_last),
                      i - begin);
          end_of_last = i;
        }
      i++;
    }
  if (end_of_last == 0)
    write_span (body, 0, 0); /* marks an empty native histogram */
}

/* Writes the counts of the buckets in the spans, each as the difference from the previous count. */
static void
write_deltas (GString *body, const TpsHistogramCounts *counts)
{
  gsize begin = body->len;
  guint64 last = 0;

  for (guint i = counts->first; i < counts->end; i++)
    if (counts->buckets[i] > 0)
      {
        append_varint (body, zigzag ((gint64) (counts->buckets[i] - last)));
        last = counts->buckets[i];
      }
  if (body->len > begin)
    end_message (body, HISTOGRAM_POSITIVE_DELTA, begin);
}

static void
write_histogram (GString *body, TpsCounters *counters, const TpsHistogramCounts *counts)
{
  gsize begin = body->len;

  write_uint (body, HISTOGRAM_SAMPLE_COUNT, counts->count);
  write_double (body, HISTOGRAM_SAMPLE_SUM, (gdouble) counts->sum_ns / 1e9);
  write_classic (body, counters, counts);
  write_uint (body, HISTOGRAM_SCHEMA, zigzag (TPS_HISTOGRAM_SCHEMA));
  write_double (body, HISTOGRAM_ZERO_THRESHOLD, ZERO_THRESHOLD);
  write_uint (body, HISTOGRAM_ZERO_COUNT, 0);
  write_spans (body, counts);
  write_deltas (body, counts);
  end_message (body, METRIC_HISTOGRAM, begin);
}

/* ---- families -------------------------------------------------------------------------------- */

static void
write_number (GString *body, const TpsFamily *family, gint64 number)
{
  gsize begin = body->len;
  gdouble value = (gdouble) number;

  for (guint i = 0; i < family->n_decimals; i++)
    value /= 10;
  write_double (body, NUMBER_VALUE, value);
  end_message (body, family->kind == TPS_FAMILY_COUNTER ? METRIC_COUNTER : METRIC_GAUGE, begin);
}

static void
write_labels (GString *body, const TpsFamily *family, const TpsSample *sample)
{
  for (guint i = 0; i < TPS_MAX_LABELS && family->labels[i] != NULL; i++)
    {
      gsize begin = body->len;

      write_text (body, LABEL_NAME, family->labels[i]);
      write_text (body, LABEL_VALUE, sample->values[i]);
      end_message (body, METRIC_LABEL, begin);
    }
}

static void
write_metric (GString *body, TpsCounters *counters, const TpsFamily *family,
              const TpsSample *sample, TpsHistogramCounts *counts)
{
  gsize begin = body->len;

  write_labels (body, family, sample);
  if (family->kind == TPS_FAMILY_HISTOGRAM)
    {
      tps_histogram_counts_clear (counts);
      tps_histogram_read (sample->histogram, counts);
      write_histogram (body, counters, counts);
    }
  else
    write_number (body, family, sample->number);
  end_message (body, FAMILY_METRIC, begin);
}

static void
write_family (GString *body, TpsCounters *counters, const TpsFamilyReading *reading,
              TpsHistogramCounts *counts)
{
  const TpsFamily *family = reading->family;
  g_autofree gchar *name = tps_exposition_dup_name (family);
  gsize begin = body->len;

  write_text (body, FAMILY_NAME, name);
  write_text (body, FAMILY_HELP, family->help);
  write_uint (body, FAMILY_TYPE, types[family->kind]);
  for (guint i = 0; i < reading->samples->len; i++)
    write_metric (body, counters, family, &g_array_index (reading->samples, TpsSample, i), counts);
  end_message (body, 0, begin);
}

void
tps_exposition_write_protobuf (GString *body, TpsCounters *counters, const TpsReading *reading)
{
  TpsHistogramCounts *counts = tps_histogram_counts_new ();
  guint n_families;
  const TpsFamilyReading *families = tps_reading_get_families (reading, &n_families);

  for (guint i = 0; i < n_families; i++)
    write_family (body, counters, &families[i], counts);
  g_free (counts);
}
