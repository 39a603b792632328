/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Numbers with a Zipf distribution: the probability of k in [0, n) is proportional to (k +
 * 1)^-exponent. The method is rejection inversion (Hörmann and Derflinger, Rejection-inversion to
 * generate variates from monotone discrete distributions, 1996). Its time and memory do not depend
 * on n. */

#pragma once

#include "runtime/base/rng.h"

G_BEGIN_DECLS

typedef struct
{
  /* The parameters and the constants of rejection inversion. Read-only after the initialisation. */
  gdouble exponent, low, high, shortcut;
  gint64 n;
} TpsZipf;

/* Initialises the distribution. `n` must be at least 1, and `exponent` above 0. */
void tps_zipf_init (TpsZipf *zipf, gint64 n, gdouble exponent);

/* Draws a number in [0, n). Thread: any, if each thread has its own generator. */
gint64 tps_zipf_draw (const TpsZipf *zipf, TpsRng *rng);

G_END_DECLS
