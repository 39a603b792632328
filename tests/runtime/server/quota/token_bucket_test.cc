/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/quota/token_charge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr gint64 second = 1000000000;
constexpr gint64 year = 365 * 24 * 3600 * second;

/* The usual definition of a token bucket: a level that grows with time up to the burst. */
class Model
{
public:
  Model (double rate_per_s, double most, gint64 now_ns)
      : per_s (rate_per_s), burst (most), level (most), then_ns (now_ns)
  {
  }

  double
  get_level (gint64 now_ns)
  {
    level = std::min (burst, level + (double) (now_ns - then_ns) * per_s / second);
    then_ns = now_ns;
    return level;
  }

  /* Returns the number of tokens that a charge of `n` lacks. If the result is not above 0, the
   * charge conforms. */
  double
  get_lack (double n, gint64 now_ns)
  {
    return std::min (n, burst) - get_level (now_ns);
  }

  void
  charge (double n)
  {
    level -= n;
  }

private:
  double per_s, burst, level;
  gint64 then_ns;
};

gboolean
take (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n, gint64 now_ns, gint64 *wait_ns)
{
  TpsTokenCharge charge = tps_token_charge (bucket, rate, n);

  return tps_token_charge_take (&charge, bucket, rate, now_ns, wait_ns);
}

gboolean
take (TpsTokenBucket *bucket, const TpsTokenRate *rate, guint64 n, gint64 now_ns)
{
  gint64 wait_ns;

  return take (bucket, rate, n, now_ns, &wait_ns);
}

TEST (TokenBucket, ADebtIsAtMostAnHour)
{
  TpsTokenRate rate = tps_token_rate (1, 1);
  TpsTokenBucket bucket = { 0 };

  tps_token_bucket_charge (&bucket, &rate, G_MAXUINT64, year);
  tps_token_bucket_charge (&bucket, &rate, G_MAXUINT64, year);
  EXPECT_FALSE (take (&bucket, &rate, 0, year + 3599 * second));
  EXPECT_TRUE (take (&bucket, &rate, 0, year + 3600 * second));
}

TEST (TokenBucket, AChangeOfTheRateKeepsTheDeficitOfTheBucket)
{
  TpsTokenRate slow = tps_token_rate (10, 100);
  TpsTokenRate fast = tps_token_rate (1000, 50);
  TpsTokenRate none = tps_token_rate (0, 0);
  TpsTokenBucket bucket = { 0 };

  ASSERT_TRUE (take (&bucket, &slow, 30, year));
  tps_token_bucket_change_rate (&bucket, &slow, &fast, year);
  EXPECT_EQ (tps_token_bucket_get_level (&bucket, &fast, year), 20);
  EXPECT_EQ (tps_token_bucket_get_level (&bucket, &fast, year + second / 100), 30);
  tps_token_bucket_change_rate (&bucket, &fast, &none, year);
  EXPECT_TRUE (take (&bucket, &none, 1000, year));
  tps_token_bucket_change_rate (&bucket, &none, &slow, year);
  EXPECT_EQ (tps_token_bucket_get_level (&bucket, &slow, year), 100);
}

/* A change of the limits may use another clock, which may be a few milliseconds late. */
TEST (TokenBucket, AFullBucketStaysFullWithAnotherClock)
{
  TpsTokenRate none = tps_token_rate (0, 0);
  TpsTokenRate slow = tps_token_rate (1, 1);
  TpsTokenBucket bucket = { 0 };

  tps_token_bucket_change_rate (&bucket, &none, &slow, year);
  EXPECT_TRUE (take (&bucket, &slow, 10, year - second / 250)) << "needs a full bucket";
}

/* Applies one random sequence of charges to the bucket and to the model. Their verdicts may differ
 * only if a charge conforms within the rounding error. */
void
compare_with_model (guint64 per_s, guint64 burst, std::mt19937_64 &random)
{
  const double slack = 1e-3 + (double) per_s * 4e-6; /* the tokens of a few microseconds */
  gint64 now_ns = (gint64) (random () % year);
  TpsTokenRate rate = tps_token_rate (per_s, burst);
  TpsTokenBucket bucket = { now_ns };
  Model model ((double) per_s, (double) burst, now_ns);

  for (int i = 0; i < 400; i++)
    {
      guint64 n = random () % 4 == 0 ? random () % (burst * 3) + 1 : random () % (burst / 4 + 2);
      gint64 wait_ns;

      now_ns += (gint64) (random () % (guint64) (second / (gint64) per_s * (gint64) (burst + 3)));
      if (random () % 8 == 0)
        {
          tps_token_bucket_charge (&bucket, &rate, n, now_ns);
          model.get_level (now_ns);
          model.charge ((double) n);
        }
      else
        {
          double lack = model.get_lack ((double) n, now_ns);

          if (take (&bucket, &rate, n, now_ns, &wait_ns))
            {
              ASSERT_LE (lack, slack) << per_s << " " << burst << " step " << i;
              model.charge ((double) n);
            }
          else
            {
              ASSERT_GE (lack, -slack) << per_s << " " << burst << " step " << i;
              ASSERT_NEAR ((double) wait_ns * (double) per_s / second, std::max (lack, 0.0),
                           slack + 1e-6 * (double) burst);
            }
        }
      ASSERT_NEAR ((double) tps_token_bucket_get_level (&bucket, &rate, now_ns),
                   model.get_level (now_ns), 1 + slack * (i + 1));
    }
}

TEST (TokenBucket, AgreesWithAModelOverRandomSequences)
{
  std::mt19937_64 random (20261123);

  for (int i = 0; i < 500; i++)
    compare_with_model (1 + random () % (i % 2 == 0 ? 20 : 100000), 1 + random () % 1000, random);
}

/* Several threads whose clocks differ by up to a millisecond. */
TEST (TokenBucket, ThreadsTogetherGetNoMoreThanRateAndBurst)
{
  constexpr guint n_threads = 4;
  constexpr gint64 period_ns = second / 5;
  const TpsTokenRate rate = tps_token_rate (100000, 500);
  TpsTokenBucket bucket = { 0 };
  std::atomic<guint64> n_taken { 0 };
  std::atomic<gint64> clock_ns { year };
  std::vector<std::thread> threads;

  for (guint t = 0; t < n_threads; t++)
    threads.emplace_back ([&, t] {
      std::mt19937 random (t);
      gint64 now_ns;

      while ((now_ns = clock_ns.fetch_add (1000)) < year + period_ns)
        {
          guint64 n = random () % 5 + 1;

          if (take (&bucket, &rate, n, std::max (year, now_ns - (gint64) (random () % 1000000))))
            n_taken += n;
        }
    });
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_LE (n_taken, 100000u / 5 + 500u + 1);
  EXPECT_GE (n_taken, 100000u / 5);
}

} // namespace
