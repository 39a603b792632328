/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An octave is a block of 32 cells, one for each bucket whose upper bound is in [2^k, 2^(k+1))
 * seconds. The block is made for the first duration in it. The durations of one method usually need
 * five or six of the 64 octaves.
 */

#include "runtime/base/histogram.h"

#include <math.h>
#include <string.h>

#include "runtime/base/cells.h"
#include "runtime/base/sync.h"

#define PER_OCTAVE (1 << TPS_HISTOGRAM_SCHEMA)
#define FIRST_EXPONENT (-30) /* 2^-30 s < 1 ns */
#define MANTISSA_BITS 52
#define EXPONENT_BIAS 1023

G_STATIC_ASSERT (PER_OCTAVE == TPS_CELL_BLOCK);

/* The newest exemplar of each octave. An empty trace id means that the octave has none. */
typedef struct
{
  TpsMutex lock; /* guards the following */
  TpsExemplar of_octaves[TPS_HISTOGRAM_OCTAVES];
} Exemplars;

struct TpsHistogram
{
  _Atomic (Exemplars *) exemplars; /* NULL until there is one */
  TpsCell sum_ns;
  _Atomic (TpsCell) octaves[TPS_HISTOGRAM_OCTAVES]; /* first cells; 0 = no duration was recorded */
};

/* Element i is 2^(i/32). These are the upper bounds of the buckets of one octave, relative to its
 * first bound. */
static const gdouble bounds[PER_OCTAVE + 1] = {
  0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
  0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
  0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
  0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
  0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
  0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
  0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
  0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
  0x1.0000000000000p+1,
};

/* Element i is the index of the first bound that is at least 1 + i/64. At most one bound lies
 * between 1 + i/64 and 1 + (i+1)/64. */
static const guint8 first_bounds[64] = {
  0,  1,  2,  3,  3,  4,  5,  5,  6,  7,  7,  8,  8,  9,  10, 10, 11, 11, 12, 13, 13, 14,
  14, 15, 15, 16, 16, 17, 17, 18, 18, 19, 19, 20, 20, 21, 21, 22, 22, 22, 23, 23, 24, 24,
  25, 25, 26, 26, 26, 27, 27, 28, 28, 28, 29, 29, 30, 30, 30, 31, 31, 31, 32, 32,
};

/* ---- buckets --------------------------------------------------------------------------------- */

/* Returns the index of a bucket without a logarithm. The exponent gives the octave, and the first
 * six bits of the mantissa replace all comparisons but one. */
static inline guint
find_index (gint64 duration_ns)
{
  gdouble duration_s = (gdouble) MAX (duration_ns, 1) / 1e9;
  guint64 bits, mantissa_bits;
  gdouble mantissa;
  gint octave;
  guint index;

  memcpy (&bits, &duration_s, sizeof bits);
  octave = (gint) (bits >> MANTISSA_BITS) - EXPONENT_BIAS - FIRST_EXPONENT;
  mantissa_bits = (bits & ((G_GUINT64_CONSTANT (1) << MANTISSA_BITS) - 1))
                  | (guint64) EXPONENT_BIAS << MANTISSA_BITS;
  memcpy (&mantissa, &mantissa_bits, sizeof mantissa);
  index = first_bounds[bits >> (MANTISSA_BITS - 6) & 63];
  index += mantissa > bounds[index];
  return (guint) octave * PER_OCTAVE + index;
}

guint
tps_histogram_get_index (gint64 duration_ns)
{
  return find_index (duration_ns);
}

gdouble
tps_histogram_get_bound_s (guint index)
{
  return ldexp (bounds[index % PER_OCTAVE], (gint) (index / PER_OCTAVE) + FIRST_EXPONENT);
}

/* ---- exemplars ------------------------------------------------------------------------------- */

static void
exemplars_free (Exemplars *exemplars)
{
  if (exemplars == NULL)
    return;
  tps_mutex_clear (&exemplars->lock);
  g_free (exemplars);
}

static Exemplars *
provide_exemplars (TpsHistogram *histogram)
{
  Exemplars *exemplars = atomic_load_explicit (&histogram->exemplars, memory_order_acquire);
  Exemplars *made;

  if (exemplars != NULL)
    return exemplars;
  made = g_new0 (Exemplars, 1);
  tps_mutex_init (&made->lock);
  if (atomic_compare_exchange_strong (&histogram->exemplars, &exemplars, made))
    return made;
  exemplars_free (made);
  return exemplars;
}

void
tps_histogram_add_exemplar (TpsHistogram *histogram, const TpsExemplar *exemplar)
{
  guint octave = tps_histogram_get_index (exemplar->duration_ns) / PER_OCTAVE;
  Exemplars *exemplars;

  if (histogram == NULL)
    return;
  exemplars = provide_exemplars (histogram);
  TPS_LOCK_SCOPE (&exemplars->lock);
  exemplars->of_octaves[octave] = *exemplar;
}

gboolean
tps_histogram_find_exemplar (const TpsHistogram *histogram, gdouble above_s, gdouble up_to_s,
                             TpsExemplar *exemplar)
{
  Exemplars *exemplars = atomic_load_explicit (&histogram->exemplars, memory_order_acquire);
  gboolean has_any = FALSE;

  if (exemplars == NULL)
    return FALSE;
  TPS_LOCK_SCOPE (&exemplars->lock);
  for (guint i = 0; i < TPS_HISTOGRAM_OCTAVES; i++)
    {
      const TpsExemplar *one = &exemplars->of_octaves[i];
      gdouble duration_s = (gdouble) one->duration_ns / 1e9;

      if (one->trace_id[0] == '\0' || duration_s <= above_s || duration_s > up_to_s
          || (has_any && one->time_ms < exemplar->time_ms))
        continue;
      *exemplar = *one;
      has_any = TRUE;
    }
  return has_any;
}

/* ---- recording ------------------------------------------------------------------------------- */

TpsHistogram *
tps_histogram_new (void)
{
  TpsHistogram *histogram = g_new0 (TpsHistogram, 1);

  histogram->sum_ns = tps_cell_new ();
  return histogram;
}

void
tps_histogram_free (TpsHistogram *histogram)
{
  if (histogram == NULL)
    return;
  for (guint i = 0; i < TPS_HISTOGRAM_OCTAVES; i++)
    tps_cell_block_free (atomic_load (&histogram->octaves[i]));
  tps_cell_free (histogram->sum_ns);
  exemplars_free (atomic_load (&histogram->exemplars));
  g_free (histogram);
}

/* Returns the first cell of the octave, which another thread may have made meanwhile. Returns 0 if
 * the process has no more cells; the duration is then added to the sum only. */
static TpsCell
add_octave (TpsHistogram *histogram, guint octave)
{
  TpsCell first = tps_cell_block_new ();
  TpsCell other = 0;

  if (atomic_compare_exchange_strong (&histogram->octaves[octave], &other, first))
    return first;
  tps_cell_block_free (first);
  return other;
}

static inline void
add_duration (TpsHistogram *histogram, guint index, gint64 duration_ns)
{
  TpsCell first = atomic_load_explicit (&histogram->octaves[index / PER_OCTAVE],
                                        memory_order_acquire);

  if (G_UNLIKELY (first == 0))
    first = add_octave (histogram, index / PER_OCTAVE);
  if (G_LIKELY (first != 0))
    tps_cell_add (first + index % PER_OCTAVE, 1);
  tps_cell_add (histogram->sum_ns, (guint64) MAX (duration_ns, 0));
}

void
tps_histogram_record (TpsHistogram *histogram, gint64 duration_ns)
{
  if (histogram != NULL)
    add_duration (histogram, find_index (duration_ns), duration_ns);
}

void
tps_histogram_record_twice (TpsHistogram *one, TpsHistogram *other, gint64 duration_ns)
{
  guint index = find_index (duration_ns);

  if (one != NULL)
    add_duration (one, index, duration_ns);
  if (other != NULL)
    add_duration (other, index, duration_ns);
}

/* ---- reading --------------------------------------------------------------------------------- */

guint64
tps_histogram_get_count (const TpsHistogram *histogram)
{
  guint64 count = 0;

  for (guint i = 0; i < TPS_HISTOGRAM_OCTAVES; i++)
    {
      TpsCell cells = atomic_load_explicit (&histogram->octaves[i], memory_order_acquire);
      guint64 n[PER_OCTAVE] = { 0 };

      if (cells == 0)
        continue;
      tps_cell_block_read (cells, n);
      for (guint j = 0; j < PER_OCTAVE; j++)
        count += n[j];
    }
  return count;
}

TpsHistogramCounts *
tps_histogram_counts_new (void)
{
  return g_new0 (TpsHistogramCounts, 1);
}

void
tps_histogram_counts_clear (TpsHistogramCounts *counts)
{
  memset (counts->buckets + counts->first, 0, (counts->end - counts->first) * sizeof (guint64));
  counts->count = counts->sum_ns = 0;
  counts->first = counts->end = 0;
}

static void
widen (TpsHistogramCounts *counts, guint first, guint end)
{
  gboolean was_empty = counts->end == 0;

  counts->first = was_empty ? first : MIN (counts->first, first);
  counts->end = MAX (counts->end, end);
}

static void
read_octave (TpsHistogramCounts *counts, guint octave, TpsCell cells)
{
  guint first = octave * PER_OCTAVE;
  guint64 n[PER_OCTAVE] = { 0 };

  tps_cell_block_read (cells, n);
  for (guint i = 0; i < PER_OCTAVE; i++)
    {
      counts->buckets[first + i] += n[i];
      counts->count += n[i];
    }
  widen (counts, first, first + PER_OCTAVE);
}

void
tps_histogram_read (const TpsHistogram *histogram, TpsHistogramCounts *counts)
{
  for (guint i = 0; i < TPS_HISTOGRAM_OCTAVES; i++)
    {
      TpsCell cells = atomic_load_explicit (&histogram->octaves[i], memory_order_acquire);

      if (cells != 0)
        read_octave (counts, i, cells);
    }
  counts->sum_ns += tps_cell_read (histogram->sum_ns);
}

void
tps_histogram_counts_merge (TpsHistogramCounts *counts, const TpsHistogramCounts *other)
{
  if (other->end == 0)
    return;
  for (guint i = other->first; i < other->end; i++)
    counts->buckets[i] += other->buckets[i];
  counts->count += other->count;
  counts->sum_ns += other->sum_ns;
  widen (counts, other->first, other->end);
}

/* Returns the bucket of the duration with this rank, from 1, in ascending order. */
static guint
find_rank (const TpsHistogramCounts *counts, guint64 rank)
{
  guint64 n = 0;
  guint i = counts->first;

  while (i + 1 < counts->end && (n += counts->buckets[i]) < rank)
    i++;
  return i;
}

gdouble
tps_histogram_counts_get_quantile (const TpsHistogramCounts *counts, gdouble quantile)
{
  gdouble rank = ceil (CLAMP (quantile, 0, 1) * (gdouble) counts->count);
  gdouble bound_s;

  if (counts->count == 0)
    return NAN;
  bound_s = tps_histogram_get_bound_s (find_rank (counts, (guint64) MAX (rank, 1)));
  /* The geometric middle of the bucket, whose bounds differ by the factor bounds[1]. */
  return bound_s / sqrt (bounds[1]) * 1e9;
}

guint
tps_histogram_find_bound (gdouble bound_s)
{
  gdouble number = round (log2 (bound_s) * PER_OCTAVE) - FIRST_EXPONENT * PER_OCTAVE;

  return (guint) CLAMP (number, 0, TPS_HISTOGRAM_BUCKETS - 1);
}

guint64
tps_histogram_counts_get_below (const TpsHistogramCounts *counts, gdouble bound_s)
{
  guint last = tps_histogram_find_bound (bound_s);
  guint64 n = 0;

  for (guint i = counts->first; i < counts->end && i <= last; i++)
    n += counts->buckets[i];
  return n;
}
