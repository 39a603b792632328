/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Numbers with a Zipf distribution: the probability of k in [0, n) is proportional to 1 / (k + 1)
 * to the power of the exponent. Method: rejection inversion (Hörmann and Derflinger, Rejection-
 * inversion to generate variates from monotone discrete distributions, 1996), whose time and memory
 * do not depend on n. */

#pragma once

#include "runtime/nn/rng.h"

G_BEGIN_DECLS

typedef struct
{
  gdouble exponent, low, high, shortcut;
  gint64 n;
} TpsZipf;

/* Initialises the distribution; `n` must be at least 1 and `exponent` above 0. */
void tps_zipf_init (TpsZipf *zipf, gint64 n, gdouble exponent);

/* Draws a number. Thread: any, with a generator of its own. */
gint64 tps_zipf_draw (const TpsZipf *zipf, TpsRng *rng);

G_END_DECLS
