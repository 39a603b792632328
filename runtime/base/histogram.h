/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Histograms of durations: many threads record (5 ns, without a lock), one reads, and histograms of
 * several servers can be added up.
 *
 * Buckets. A power of two, in seconds, has 32 buckets: bucket i holds the durations in
 * (2^((i-1)/32), 2^(i/32)] seconds. A quantile is the geometric middle of its bucket: off by at
 * most 1.1 %. Every duration up to 292 years has a bucket; shorter ones than 1 ns count as 1 ns.
 *
 * Memory: 256 bytes for each power of two that contains durations, in each thread that recorded
 * some (cells.h), and about 256 bytes for the histogram. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_HISTOGRAM_SCHEMA 5
#define TPS_HISTOGRAM_OCTAVES 64
#define TPS_HISTOGRAM_BUCKETS (TPS_HISTOGRAM_OCTAVES << TPS_HISTOGRAM_SCHEMA)

typedef struct TpsHistogram TpsHistogram;

TpsHistogram *tps_histogram_new (void);
/* Frees a histogram, which may be NULL. No thread may record during or after this call. */
void tps_histogram_free (TpsHistogram *histogram);

/* Records a duration. `histogram` may be NULL. Thread: any. */
void tps_histogram_record (TpsHistogram *histogram, gint64 duration_ns);

/* Records a duration in two histograms, either of which may be NULL. Thread: any. */
void tps_histogram_record_twice (TpsHistogram *one, TpsHistogram *other, gint64 duration_ns);

guint64 tps_histogram_get_count (const TpsHistogram *histogram);

/* ---- exemplars ------------------------------------------------------------------------------- */

/* A recorded duration, with the trace of its call. */
typedef struct
{
  gint64 duration_ns;
  gint64 time_ms;     /* of its end, since 1970 */
  gchar trace_id[33]; /* in hex; a reader writes it without escapes */
} TpsExemplar;

/* Keeps `exemplar`, which is copied, as the newest one of its power of two, besides
 * tps_histogram_record(). Takes a lock: for sampled durations only. Memory: 4 KiB for a histogram
 * with exemplars. `histogram` may be NULL. Thread: any. */
void tps_histogram_add_exemplar (TpsHistogram *histogram, const TpsExemplar *exemplar);

/* Finds the newest exemplar whose duration is in (`above_s`, `up_to_s`]. Returns FALSE if there is
 * none; `exemplar` is undefined then. Thread: any. */
gboolean tps_histogram_find_exemplar (const TpsHistogram *histogram, gdouble above_s,
                                      gdouble up_to_s, TpsExemplar *exemplar);

/* ---- recorded numbers ------------------------------------------------------------------------ */

/* Numbers of one histogram, or of several added up. All zero is empty. */
typedef struct
{
  guint64 count;                          /* of all buckets */
  guint64 sum_ns;                         /* of the durations, exact */
  guint first, end;                       /* all buckets outside are empty; whole octaves */
  guint64 buckets[TPS_HISTOGRAM_BUCKETS]; /* by index: see tps_histogram_get_bound_s() */
} TpsHistogramCounts;

/* Makes empty counts, which the caller owns and must free with g_free(). clear() empties them. */
TpsHistogramCounts *tps_histogram_counts_new (void);
void tps_histogram_counts_clear (TpsHistogramCounts *counts);

/* Adds `histogram` to `counts`; may miss durations that are recorded meanwhile. Thread: any. */
void tps_histogram_read (const TpsHistogram *histogram, TpsHistogramCounts *counts);

/* Adds `other` to `counts`. The order of additions does not matter. */
void tps_histogram_counts_merge (TpsHistogramCounts *counts, const TpsHistogramCounts *other);

/* Returns the duration, in nanoseconds, that the fraction `quantile` (in [0, 1]) of all durations
 * does not exceed, with an error of at most 1.1 %; NAN if there are no durations. */
gdouble tps_histogram_counts_get_quantile (const TpsHistogramCounts *counts, gdouble quantile);

/* Returns the number of durations that do not exceed `bound_s`, which is rounded by at most 1.1 %,
 * to the nearest bound of a bucket. The result never decreases as `bound_s` grows. */
guint64 tps_histogram_counts_get_below (const TpsHistogramCounts *counts, gdouble bound_s);

/* Returns the index of the last bucket up to `bound_s`, rounded as above. */
guint tps_histogram_find_bound (gdouble bound_s);

gdouble tps_histogram_get_bound_s (guint index);
guint tps_histogram_get_index (gint64 duration_ns);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsHistogram, tps_histogram_free)

G_END_DECLS
