/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Random numbers that are the same on every platform: Philox4x32-10, a counter-based generator
 * (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011). Block n of
 * stream s under seed k is philox (counter = {n, s}, key = k), so that streams are independent and
 * may be drawn in any order. Derived numbers use only operations whose results IEEE 754 fixes; the
 * mathematics library is not asked.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* In the caller's storage; one thread at a time. */
typedef struct
{
  guint32 key[2];
  guint32 counter[4];
  guint32 block[4];
  guint n_left; /* words of `block` not yet given out */
  gboolean has_normal;
  gdouble normal; /* the second of a pair */
} TpsRng;

void tps_rng_init (TpsRng *rng, gint64 seed, guint64 stream);

guint32 tps_rng_next_u32 (TpsRng *rng);
guint64 tps_rng_next_u64 (TpsRng *rng);

/* Uniform in [0, bound), without bias; bound >= 1. */
guint64 tps_rng_next_below (TpsRng *rng, guint64 bound);

/* Uniform in [0, 1), a multiple of 2^-53. */
gdouble tps_rng_next_double (TpsRng *rng);

/* Normal, mean 0, deviation 1 (Marsaglia's polar method). */
gdouble tps_rng_next_normal (TpsRng *rng);

/* Uniform in [low, high], from 24 bits each. */
void tps_rng_fill_uniform (TpsRng *rng, gfloat *values, gsize n, gdouble low, gdouble high);
void tps_rng_fill_normal (TpsRng *rng, gfloat *values, gsize n, gdouble mean, gdouble stdev);

/* Fisher and Yates. */
void tps_rng_shuffle (TpsRng *rng, gint64 *values, gsize n);

/* ln x of a normal x > 0, to the last bit or nearly: the same everywhere. */
gdouble tps_rng_natural_log (gdouble x);

/* One block: the generator itself, for its test vectors. */
void tps_rng_philox (const guint32 counter[4], const guint32 key[2], guint32 block[4]);

G_END_DECLS
