/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/quota/token_bucket.h"

#define NS_PER_S 1e9
#define MAX_ROUNDING_NS 1000
#define MAX_DEBT_NS (G_GINT64_CONSTANT (3600) * 1000000000)
/* The longest span of one charge, and of a burst. The sum of a time and both of them does not
 * overflow. */
#define MAX_SPAN_NS (G_GINT64_CONSTANT (1) << 60)

/* ---- rates ----------------------------------------------------------------------------------- */

/* Rounds up. ceil() would be a function call on processors whose rounding instruction is
 * optional. */
static gint64
span_of (gdouble ns)
{
  gint64 whole;

  if (ns >= (gdouble) MAX_SPAN_NS)
    return MAX_SPAN_NS;
  whole = (gint64) ns;
  return whole + ((gdouble) whole < ns);
}

TpsTokenRate
tps_token_rate (guint64 per_s, guint64 burst)
{
  TpsTokenRate rate = { .burst = burst > 0 ? burst : per_s };

  if (per_s == 0)
    return (TpsTokenRate) { 0 };
  rate.ns_per_token = NS_PER_S / (gdouble) per_s;
  rate.tolerance_ns = span_of ((gdouble) rate.burst * rate.ns_per_token)
                      + (gint64) MIN (rate.burst, MAX_ROUNDING_NS);
  return rate;
}

static gint64
time_of (const TpsTokenRate *rate, guint64 n_tokens)
{
  return span_of ((gdouble) n_tokens * rate->ns_per_token);
}

/* ---- the bucket ------------------------------------------------------------------------------ */

static gint64
load_tat (const TpsTokenBucket *bucket)
{
  return __atomic_load_n (&bucket->tat_ns, __ATOMIC_RELAXED);
}

/* The time until the bucket is full. */
static gint64
missing_ns (gint64 tat_ns, gint64 now_ns)
{
  return MAX (tat_ns - now_ns, 0);
}

/* 0 = the charge conforms; else the time after which it does. */
static gint64
wait_for (const TpsTokenRate *rate, gint64 missing, gint64 charge_ns)
{
  if (charge_ns > rate->tolerance_ns) /* such a charge needs a full bucket */
    return missing;
  return MAX (missing + charge_ns - rate->tolerance_ns, 0);
}

/* Sets the state of the bucket if it is still `*tat_ns`. FALSE: `*tat_ns` is now the present
 * state. A full bucket is full on every clock: the coarse one is some milliseconds late. */
static gboolean
try_set (TpsTokenBucket *bucket, const TpsTokenRate *rate, gint64 *tat_ns, gint64 missing,
         gint64 now_ns)
{
  gint64 after_ns = missing > 0 ? now_ns + MIN (missing, rate->tolerance_ns + MAX_DEBT_NS) : 0;

  return __atomic_compare_exchange_n (&bucket->tat_ns, tat_ns, after_ns, TRUE, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED);
}

gboolean
tps_token_bucket_take (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n_tokens,
                       gint64 now_ns, gint64 *wait_ns)
{
  gint64 charge_ns = time_of (rate, n_tokens);
  gint64 tat_ns = load_tat (bucket);

  *wait_ns = 0;
  if (!tps_token_rate_is_limited (rate))
    return TRUE;
  do
    {
      *wait_ns = wait_for (rate, missing_ns (tat_ns, now_ns), charge_ns);
      if (*wait_ns > 0)
        return FALSE;
    }
  while (!try_set (bucket, rate, &tat_ns, missing_ns (tat_ns, now_ns) + charge_ns, now_ns));
  return TRUE;
}

gboolean
tps_token_bucket_may_take (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n_tokens,
                           gint64 now_ns, gint64 *wait_ns)
{
  *wait_ns = 0;
  if (tps_token_rate_is_limited (rate))
    *wait_ns = wait_for (rate, missing_ns (load_tat (bucket), now_ns), time_of (rate, n_tokens));
  return *wait_ns == 0;
}

void
tps_token_bucket_charge (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n_tokens,
                         gint64 now_ns)
{
  gint64 charge_ns = time_of (rate, n_tokens);
  gint64 tat_ns = load_tat (bucket);

  if (!tps_token_rate_is_limited (rate))
    return;
  while (!try_set (bucket, rate, &tat_ns, missing_ns (tat_ns, now_ns) + charge_ns, now_ns))
    ;
}

gint64
tps_token_bucket_get_level (TpsTokenBucket *bucket, const TpsTokenRate *rate, gint64 now_ns)
{
  gdouble missing = (gdouble) missing_ns (load_tat (bucket), now_ns);

  return tps_token_rate_is_limited (rate)
             ? (gint64) rate->burst - span_of (missing / rate->ns_per_token)
             : 0;
}

void
tps_token_bucket_change_rate (TpsTokenBucket *bucket, const TpsTokenRate *from,
                              const TpsTokenRate *to, gint64 now_ns)
{
  gdouble ratio = tps_token_rate_is_limited (from) ? to->ns_per_token / from->ns_per_token : 0;
  gint64 tat_ns = load_tat (bucket);

  while (!try_set (bucket, to, &tat_ns, span_of ((gdouble) missing_ns (tat_ns, now_ns) * ratio),
                   now_ns))
    ;
}
