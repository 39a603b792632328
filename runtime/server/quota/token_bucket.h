/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A token bucket in one 64-bit number, without a lock.
 *
 * The algorithm is the generic cell rate algorithm in its form of virtual scheduling (ITU-T
 * Recommendation I.371, annex A; ATM Forum, Traffic Management Specification 4.0, 4.4.2). The state
 * of a bucket is one time: the theoretical arrival time `tat`, at which the bucket is full again.
 * With T = time per token and tau = burst * T, a charge of n tokens at the time `now` is
 *
 *   tat' = max (tat, now) + n * T
 *   if tat' - now <= tau, the charge conforms: tat = tat'
 *   otherwise the charge is refused, and would conform after tat' - now - tau
 *
 * The level of the bucket is burst - max (tat - now, 0) / T tokens. Two rules are added:
 *
 *   - A charge of more than the burst conforms when the bucket is full, and leaves a debt. A large
 *     request is therefore delayed, but not refused for ever.
 *   - tps_token_bucket_charge() always succeeds. It is for amounts that are known only after the
 *     work, and may also leave a debt. A debt is limited to the tokens of one hour.
 *
 * Times are whole nanoseconds, and n * T is rounded up. To make a burst of single tokens conform in
 * spite of the rounding, tau is longer by one nanosecond for each token of the burst, up to a
 * microsecond. In any period t, the conforming charges are thus at most rate * (t + 1 us) + burst
 * tokens in total, plus one charge if single charges exceed the burst.
 *
 * The caller must supply the time (monotonic, in nanoseconds). Thread: any; the order of concurrent
 * charges is undefined. A time may be earlier than the time of a previous charge by a different
 * thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A rate and its burst, prepared for the arithmetic. Immutable. All zero = no limit. */
typedef struct
{
  guint64 burst;
  gdouble ns_per_token;
  gint64 tolerance_ns; /* tau */
} TpsTokenRate;

/* Returns the rate of `per_s` tokens per second with a burst of `burst` tokens. A `per_s` of 0
 * means no limit; a `burst` of 0 means the tokens of one second. */
TpsTokenRate tps_token_rate (guint64 per_s, guint64 burst);

/* Returns TRUE if the rate has a limit. */
static inline gboolean
tps_token_rate_is_limited (const TpsTokenRate *rate)
{
  return rate->ns_per_token > 0;
}

/* A bucket. All zero = a full bucket. The field is private. */
typedef struct
{
  gint64 tat_ns;
} TpsTokenBucket;

/* Charges `n_tokens`, which need not conform. */
void tps_token_bucket_charge (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n_tokens,
                              gint64 now_ns);

/* Returns the tokens in the bucket; a negative number is a debt; 0 without a limit. */
gint64 tps_token_bucket_get_level (TpsTokenBucket *bucket, const TpsTokenRate *rate, gint64 now_ns);

/* Changes the rate of the bucket, which keeps its number of missing tokens. A concurrent charge may
 * be computed with either rate. */
void tps_token_bucket_change_rate (TpsTokenBucket *bucket, const TpsTokenRate *from,
                                   const TpsTokenRate *to, gint64 now_ns);

G_END_DECLS
