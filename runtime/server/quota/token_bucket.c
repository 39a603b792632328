/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/quota/token_bucket.h"

#include "runtime/server/quota/token_charge.h"

#define NS_PER_S 1e9
#define MAX_ROUNDING_NS 1000 /* see token_bucket.h */

/* ---- rates ----------------------------------------------------------------------------------- */

TpsTokenRate
tps_token_rate (guint64 per_s, guint64 burst)
{
  TpsTokenRate rate = { .burst = burst > 0 ? burst : per_s };

  if (per_s == 0)
    return (TpsTokenRate) { 0 };
  rate.ns_per_token = NS_PER_S / (gdouble) per_s;
  rate.tolerance_ns = tps_token_span ((gdouble) rate.burst * rate.ns_per_token)
                      + (gint64) MIN (rate.burst, MAX_ROUNDING_NS);
  return rate;
}

/* ---- the bucket ------------------------------------------------------------------------------ */

void
tps_token_bucket_charge (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n_tokens,
                         gint64 now_ns)
{
  TpsTokenCharge charge = tps_token_charge (bucket, rate, n_tokens);

  if (!tps_token_rate_is_limited (rate))
    return;
  while (!tps_token_charge_try (&charge, bucket, rate, now_ns))
    ;
}

gint64
tps_token_bucket_get_level (TpsTokenBucket *bucket, const TpsTokenRate *rate, gint64 now_ns)
{
  gdouble missing = (gdouble) tps_token_missing_ns (tps_token_load (bucket), now_ns);

  return tps_token_rate_is_limited (rate)
             ? (gint64) rate->burst - tps_token_span (missing / rate->ns_per_token)
             : 0;
}

void
tps_token_bucket_change_rate (TpsTokenBucket *bucket, const TpsTokenRate *from,
                              const TpsTokenRate *to, gint64 now_ns)
{
  gdouble ratio = tps_token_rate_is_limited (from) ? to->ns_per_token / from->ns_per_token : 0;
  gint64 tat_ns = tps_token_load (bucket);

  /* A failed attempt has set `tat_ns` to the present state of the bucket. */
  while (!tps_token_try_set (
      bucket, to, &tat_ns, tps_token_span ((gdouble) tps_token_missing_ns (tat_ns, now_ns) * ratio),
      now_ns))
    ;
}
