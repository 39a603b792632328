/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arithmetic of token buckets (token_bucket.h), inline, because each call of a tenant charges
 * up to four of them: tps_token_charge(), and if tps_token_charge_wait() is 0,
 * tps_token_charge_take(). Rates must be limited, except in tps_token_charge(). Private to this
 * folder. Thread: any. */

#pragma once

#include "runtime/server/quota/token_bucket.h"

G_BEGIN_DECLS

#define TPS_TOKEN_MAX_DEBT_NS (G_GINT64_CONSTANT (3600) * 1000000000)
/* The longest duration of one charge, and of a burst. The sum of a time and both durations does not
 * overflow. */
#define TPS_TOKEN_MAX_SPAN_NS (G_GINT64_CONSTANT (1) << 60)

/* A charge, and the state of its bucket when it was last read. */
typedef struct
{
  gint64 ns;
  gint64 tat_ns;
} TpsTokenCharge;

/* Rounds a duration up to whole nanoseconds, at most TPS_TOKEN_MAX_SPAN_NS. ceil() would be a
 * function call on processors whose rounding instruction is optional. */
static inline gint64
tps_token_span (gdouble ns)
{
  gint64 whole;

  if (G_UNLIKELY (ns >= (gdouble) TPS_TOKEN_MAX_SPAN_NS))
    return TPS_TOKEN_MAX_SPAN_NS;
  whole = (gint64) ns;
  return whole + ((gdouble) whole < ns);
}

/* Returns the state of the bucket. */
static inline gint64
tps_token_load (const TpsTokenBucket *bucket)
{
  return __atomic_load_n (&bucket->tat_ns, __ATOMIC_RELAXED);
}

/* Returns the time until the bucket is full. */
static inline gint64
tps_token_missing_ns (gint64 tat_ns, gint64 now_ns)
{
  return MAX (tat_ns - now_ns, 0);
}

/* Sets a state that is full after `missing` ns, if the state is still `*tat_ns`; otherwise FALSE
 * and the present state. May fail spuriously. The state of a full bucket is 0, because a time could
 * lie ahead on the coarse clock, which is a few milliseconds late. */
static inline gboolean
tps_token_try_set (TpsTokenBucket *bucket, const TpsTokenRate *rate, gint64 *tat_ns, gint64 missing,
                   gint64 now_ns)
{
  gint64 max_ns = rate->tolerance_ns + TPS_TOKEN_MAX_DEBT_NS;
  gint64 after_ns = missing > 0 ? now_ns + MIN (missing, max_ns) : 0;

  return __atomic_compare_exchange_n (&bucket->tat_ns, tat_ns, after_ns, TRUE, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED);
}

/* Prepares a charge of `n_tokens` and reads the state of the bucket. */
static inline TpsTokenCharge
tps_token_charge (const TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n_tokens)
{
  return (TpsTokenCharge) { .ns = tps_token_span ((gdouble) n_tokens * rate->ns_per_token),
                            .tat_ns = tps_token_load (bucket) };
}

/* Returns 0 if the charge conforms, and otherwise the time after which it does. */
static inline gint64
tps_token_charge_wait (const TpsTokenCharge *charge, const TpsTokenRate *rate, gint64 now_ns)
{
  gint64 missing = tps_token_missing_ns (charge->tat_ns, now_ns);
  gint64 wait_ns = missing + charge->ns - rate->tolerance_ns;

  if (G_UNLIKELY (charge->ns > rate->tolerance_ns)) /* such a charge needs a full bucket */
    return missing;
  return MAX (wait_ns, 0);
}

/* Charges the bucket if its state has not changed. Otherwise returns FALSE; `charge` then has the
 * present state of the bucket. */
static inline gboolean
tps_token_charge_try (TpsTokenCharge *charge, TpsTokenBucket *bucket, const TpsTokenRate *rate,
                      gint64 now_ns)
{
  gint64 missing = tps_token_missing_ns (charge->tat_ns, now_ns);

  return tps_token_try_set (bucket, rate, &charge->tat_ns, missing + charge->ns, now_ns);
}

/* Charges the bucket if the charge conforms. Otherwise returns FALSE; the charge would conform
 * after `*wait_ns`. */
static inline gboolean
tps_token_charge_take (TpsTokenCharge *charge, TpsTokenBucket *bucket, const TpsTokenRate *rate,
                       gint64 now_ns, gint64 *wait_ns)
{
  do
    {
      *wait_ns = tps_token_charge_wait (charge, rate, now_ns);
      if (*wait_ns > 0)
        return FALSE;
    }
  while (!tps_token_charge_try (charge, bucket, rate, now_ns));
  return TRUE;
}

G_END_DECLS
