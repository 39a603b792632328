/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A token bucket in one 64-bit number, without a lock.
 *
 * The algorithm is the generic cell rate algorithm in its form of virtual scheduling (ITU-T
 * Recommendation I.371, annex A; ATM Forum, Traffic Management Specification 4.0, 4.4.2). A bucket
 * is one time: the theoretical arrival time `tat`, at which the bucket is full again. With T = time
 * per token and tau = burst * T, a charge of n tokens at the time `now` is
 *
 *   tat' = max (tat, now) + n * T
 *   it conforms if tat' - now <= tau; then tat = tat'
 *   otherwise it is refused, and would conform after tat' - now - tau
 *
 * The level of the bucket is burst - max (tat - now, 0) / T tokens. Two rules are added:
 *
 *   - A charge of more than the burst conforms when the bucket is full, and leaves a debt. A large
 *     request is therefore delayed, but not refused for ever.
 *   - tps_token_bucket_charge() always succeeds. It is for amounts that are known after the work,
 *     and may leave a debt too. A debt is at most an hour.
 *
 * Times are whole nanoseconds, and n * T is rounded up. To make a burst of single tokens conform in
 * spite of the rounding, tau is longer by one nanosecond for each token of the burst, up to a
 * microsecond. In any period t the charges that conform are thus at most rate * (t + 1 us) + burst
 * tokens, or one charge more than that where single charges exceed the burst.
 *
 * The caller supplies the time (monotonic, in nanoseconds). Thread: any, without an order among
 * concurrent charges. A time that is earlier than that of another thread's charge is harmless.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A rate and its burst, as the arithmetic needs them. All zero = no limit. Immutable. */
typedef struct
{
  guint64 burst;
  gdouble ns_per_token;
  gint64 tolerance_ns; /* tau */
} TpsTokenRate;

/* `per_s` tokens a second, 0 = no limit; a burst of 0 is the tokens of one second. */
TpsTokenRate tps_token_rate (guint64 per_s, guint64 burst);

static inline gboolean
tps_token_rate_is_limited (const TpsTokenRate *rate)
{
  return rate->ns_per_token > 0;
}

/* A bucket. All zero is a full one. Only the functions below may access its field. */
typedef struct
{
  gint64 tat_ns;
} TpsTokenBucket;

/* Charges `n_tokens` if they conform. FALSE: nothing was charged, and `*wait_ns` is the time after
 * which the same charge conforms if no other comes first. For 0 tokens: checks that the bucket has
 * no debt. */
gboolean tps_token_bucket_take (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n_tokens,
                                gint64 now_ns, gint64 *wait_ns);

/* The same decision without a charge. */
gboolean tps_token_bucket_may_take (TpsTokenBucket *bucket, const TpsTokenRate *rate,
                                    guint64 n_tokens, gint64 now_ns, gint64 *wait_ns);

/* Charges `n_tokens` in any case. */
void tps_token_bucket_charge (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n_tokens,
                              gint64 now_ns);

/* The number of tokens; negative = a debt. 0 without a limit. */
gint64 tps_token_bucket_get_level (TpsTokenBucket *bucket, const TpsTokenRate *rate, gint64 now_ns);

/* Keeps the number of missing tokens when the rate of the bucket changes. A concurrent charge may
 * count at either rate. */
void tps_token_bucket_change_rate (TpsTokenBucket *bucket, const TpsTokenRate *from,
                                   const TpsTokenRate *to, gint64 now_ns);

G_END_DECLS
