/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Random numbers that are the same on every platform: Philox4x32-10, a counter-based generator
 * (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011). Block n of
 * stream s with seed k is philox (counter = {n, s}, key = k), so streams are independent and can be
 * drawn in any order. Derived numbers use only operations whose results IEEE 754 defines, and no
 * transcendental function of the mathematics library.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A generator, in the caller's storage. Thread: one at a time. */
typedef struct
{
  guint32 key[2];
  guint32 counter[4];
  guint32 block[4];
  guint n_left; /* unused words of `block` */
  gboolean has_normal;
  gdouble normal; /* the second number of a pair */
} TpsRng;

/* Initialises a generator at the start of stream `stream` of `seed`. It needs no clearing. */
void tps_rng_init (TpsRng *rng, gint64 seed, guint64 stream);

/* Returns a number uniform in [0, bound), without bias; `bound` must be at least 1. */
guint64 tps_rng_next_below (TpsRng *rng, guint64 bound);

/* Returns a multiple of 2^-53, uniform in [0, 1). */
gdouble tps_rng_next_double (TpsRng *rng);

/* Returns a normal number of mean 0 and standard deviation 1 (Marsaglia's polar method). */
gdouble tps_rng_next_normal (TpsRng *rng);

/* Fill `values` [n] with numbers that are uniform in [low, high], from 24 random bits each, or
 * normal. */
void tps_rng_fill_uniform (TpsRng *rng, gfloat *values, gsize n, gdouble low, gdouble high);
void tps_rng_fill_normal (TpsRng *rng, gfloat *values, gsize n, gdouble mean, gdouble stdev);

/* Shuffles `values` [n] (Fisher and Yates). */
void tps_rng_shuffle (TpsRng *rng, gint64 *values, gsize n);

/* Returns ln x with the same bits on every platform. `x` must be a normal number > 0. The result is
 * almost always correctly rounded. */
gdouble tps_rng_natural_log (gdouble x);

/* Computes one block. Public for the generator's test vectors. */
void tps_rng_philox (const guint32 counter[4], const guint32 key[2], guint32 block[4]);

/* Fills `values` [n] with normal numbers of mean 0 and standard deviation 1 by the ziggurat method
 * [Marsaglia and Tsang, The Ziggurat Method for Generating Random Variables, Journal of Statistical
 * Software 5, 2000; with Doornik's improvement that the layer and the number come from different
 * bits], several times as fast as the polar method. Except in the tail, a number is a multiple of
 * 2^-24 of its layer's width. */
void tps_ziggurat_fill (TpsRng *rng, gfloat *values, gsize n);

G_END_DECLS
