/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/zipf/zipf.h"

#include <math.h>

/* (e^x - 1) / x and log (1 + x) / x, for a transformation that also holds at the exponent 1. Near 0
 * the quotients lose their digits, so the first terms of the Taylor series replace them. */
static gdouble
log1p_over (gdouble x)
{
  return fabs (x) > 1e-8 ? log1p (x) / x : 1 - x * (0.5 - x / 3);
}

static gdouble
expm1_over (gdouble x)
{
  return fabs (x) > 1e-8 ? expm1 (x) / x : 1 + x * 0.5 * (1 + x / 3);
}

/* The density k^-exponent without normalisation, its integral, and the inverse of the integral. */
static gdouble
density (const TpsZipf *zipf, gdouble x)
{
  return exp (-zipf->exponent * log (x));
}

static gdouble
integral (const TpsZipf *zipf, gdouble x)
{
  gdouble log_x = log (x);

  return expm1_over ((1 - zipf->exponent) * log_x) * log_x;
}

static gdouble
inverse (const TpsZipf *zipf, gdouble y)
{
  gdouble t = fmax (y * (1 - zipf->exponent), -1); /* only rounding makes it less than -1 */

  return exp (log1p_over (t) * y);
}

void
tps_zipf_init (TpsZipf *zipf, gint64 n, gdouble exponent)
{
  *zipf = (TpsZipf) { .exponent = exponent, .n = n };
  zipf->low = integral (zipf, 1.5) - 1;
  zipf->high = integral (zipf, (gdouble) n + 0.5);
  zipf->shortcut = 2 - inverse (zipf, integral (zipf, 2.5) - density (zipf, 2));
}

gint64
tps_zipf_draw (const TpsZipf *zipf, TpsRng *rng)
{
  while (TRUE)
    {
      gdouble y = zipf->high + tps_rng_next_double (rng) * (zipf->low - zipf->high);
      gdouble x = inverse (zipf, y);
      gint64 k = CLAMP ((gint64) (x + 0.5), 1, zipf->n);

      if ((gdouble) k - x <= zipf->shortcut
          || y >= integral (zipf, (gdouble) k + 0.5) - density (zipf, (gdouble) k))
        return k - 1;
    }
}
