// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "runtime/base/cells.h"

namespace {

constexpr double kMaxError = 0.011; // half a bucket; the documented bound is 2 %

struct Free
{
  void
  operator() (TpsHistogramCounts *counts) const
  {
    g_free (counts);
  }
};
using Counts = std::unique_ptr<TpsHistogramCounts, Free>;

Counts
Read (const TpsHistogram *histogram)
{
  Counts counts (tps_histogram_counts_new ());
  tps_histogram_read (histogram, counts.get ());
  return counts;
}

Counts
Record (const std::vector<gint64> &durations)
{
  g_autoptr (TpsHistogram) histogram = tps_histogram_new ();
  for (gint64 duration : durations)
    tps_histogram_record (histogram, duration);
  return Read (histogram);
}

bool
IsEqual (const TpsHistogramCounts *a, const TpsHistogramCounts *b)
{
  return a->count == b->count && a->sum_ns == b->sum_ns && a->first == b->first && a->end == b->end
         && std::equal (a->buckets, a->buckets + TPS_HISTOGRAM_BUCKETS, b->buckets);
}

// The bucket of every duration must enclose it. Tries durations around all bounds and at random.
TEST (Histogram, BucketsAreThePowersOfThe32ndRootOfTwo)
{
  std::mt19937_64 random (1);
  std::vector<gint64> durations = { 1, 2, 3, 1000, 1000000000, G_MAXINT64 };
  for (guint i = 0; i < TPS_HISTOGRAM_BUCKETS; i++)
    {
      double bound_s = tps_histogram_get_bound_s (i);
      EXPECT_DOUBLE_EQ (bound_s, tps_histogram_get_bound_s (0) * std::exp2 (i / 32.0));
      for (int step = -1; bound_s < 9e9 && step <= 1; step++)
        durations.push_back (std::max<gint64> (std::llround (bound_s * 1e9) + step, 1));
    }
  for (int i = 0; i < 100000; i++)
    durations.push_back (static_cast<gint64> (random () >> (1 + random () % 62)) | 1);
  for (gint64 duration : durations)
    {
      guint index = tps_histogram_get_index (duration);
      double duration_s = static_cast<double> (duration) / 1e9;
      ASSERT_LT (index, static_cast<guint> (TPS_HISTOGRAM_BUCKETS)) << duration;
      ASSERT_LE (duration_s, tps_histogram_get_bound_s (index) * (1 + 1e-15)) << duration;
      ASSERT_GT (duration_s, tps_histogram_get_bound_s (index - 1) * (1 - 1e-15)) << duration;
    }
  EXPECT_EQ (tps_histogram_get_bound_s (tps_histogram_get_index (1000000000)), 1)
      << "a second is the upper bound of a bucket, and in it";
  EXPECT_EQ (tps_histogram_get_index (0), tps_histogram_get_index (1));
  EXPECT_EQ (tps_histogram_get_index (-5), tps_histogram_get_index (1));
}

using Draw = std::function<double (std::mt19937_64 *)>;

struct Distribution
{
  const char *name;
  Draw draw; // nanoseconds
};

const std::vector<Distribution> &
Distributions ()
{
  static const std::vector<Distribution> all = {
    { "constant", [] (std::mt19937_64 *) { return 12345.0; } },
    { "uniform",
      [] (std::mt19937_64 *r) { return std::uniform_real_distribution<> (100, 1e6) (*r); } },
    { "exponential",
      [] (std::mt19937_64 *r) { return std::exponential_distribution<> (1e-5) (*r) + 50; } },
    { "normal",
      [] (std::mt19937_64 *r) { return std::abs (std::normal_distribution<> (1e6, 1e5) (*r)); } },
    { "lognormal",
      [] (std::mt19937_64 *r) { return std::lognormal_distribution<> (12, 2) (*r) + 50; } },
    { "pareto",
      [] (std::mt19937_64 *r) {
        return 1e4 / std::pow (std::uniform_real_distribution<> (1e-9, 1) (*r), 1 / 1.1);
      } },
    { "two modes",
      [] (std::mt19937_64 *r) {
        return (*r) () % 10 == 0 ? std::normal_distribution<> (5e7, 1e6) (*r)
                                 : std::normal_distribution<> (2e4, 1e3) (*r);
      } },
    { "powers of two", [] (std::mt19937_64 *r) { return std::exp2 (7 + (*r) () % 30); } },
    { "hours",
      [] (std::mt19937_64 *r) { return std::uniform_real_distribution<> (1e12, 1e16) (*r); } },
  };
  return all;
}

TEST (Histogram, QuantilesAreThoseOfTheSamples)
{
  for (const Distribution &distribution : Distributions ())
    for (unsigned n : { 1u, 2u, 10u, 1000u, 20000u })
      {
        std::mt19937_64 random (n);
        std::vector<gint64> samples;
        guint64 sum = 0;
        for (unsigned i = 0; i < n; i++)
          {
            samples.push_back (std::llround (std::max (distribution.draw (&random), 50.0)));
            sum += static_cast<guint64> (samples.back ());
          }
        Counts counts = Record (samples);
        std::sort (samples.begin (), samples.end ());
        EXPECT_EQ (counts->count, n);
        EXPECT_EQ (counts->sum_ns, sum);
        for (double q : { 0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0 })
          {
            size_t rank = std::max<size_t> (static_cast<size_t> (std::ceil (q * n)), 1);
            double exact = static_cast<double> (samples[rank - 1]);
            EXPECT_NEAR (tps_histogram_counts_get_quantile (counts.get (), q), exact,
                         exact * kMaxError)
                << distribution.name << ", " << n << " samples, quantile " << q;
          }
      }
}

// Exporters require that counts below a bound never decrease with the bound. The counts are exact
// except for durations within 1.1 % of the bound.
TEST (Histogram, CountsBelowABoundAreThoseOfTheSamples)
{
  std::mt19937_64 random (3);
  std::vector<gint64> samples;
  for (int i = 0; i < 20000; i++)
    samples.push_back (std::llround (std::lognormal_distribution<> (13, 3) (random)) + 1);
  Counts counts = Record (samples);
  guint64 last = 0;
  for (double bound = 1e-9; bound < 1e4; bound *= 1.37)
    {
      auto below = [&] (double factor) {
        return static_cast<guint64> (
            std::count_if (samples.begin (), samples.end (), [&] (gint64 ns) {
              return static_cast<double> (ns) / 1e9 <= bound * factor;
            }));
      };
      guint64 n = tps_histogram_counts_get_below (counts.get (), bound);
      EXPECT_GE (n, below (1 - kMaxError)) << bound;
      EXPECT_LE (n, below (1 + kMaxError)) << bound;
      EXPECT_GE (n, last);
      last = n;
    }
  EXPECT_EQ (tps_histogram_counts_get_below (counts.get (), INFINITY), counts->count);
  EXPECT_EQ (tps_histogram_counts_get_below (counts.get (), 0), 0u);
}

TEST (Histogram, MergesInAnyOrderToTheSame)
{
  std::mt19937_64 random (4);
  for (int round = 0; round < 50; round++)
    {
      std::vector<gint64> parts[3], all;
      for (std::vector<gint64> &part : parts)
        for (unsigned i = 0, n = static_cast<unsigned> (random () % 50); i < n; i++)
          {
            part.push_back (static_cast<gint64> (random () >> (1 + random () % 62)));
            all.push_back (part.back ());
          }
      Counts a = Record (parts[0]), b = Record (parts[1]), c = Record (parts[2]);
      auto merge = [] (std::vector<const TpsHistogramCounts *> counts) {
        Counts sum (tps_histogram_counts_new ());
        for (const TpsHistogramCounts *one : counts)
          tps_histogram_counts_merge (sum.get (), one);
        return sum;
      };
      Counts ab = merge ({ a.get (), b.get () }), bc = merge ({ b.get (), c.get () });
      Counts whole = Record (all);
      EXPECT_TRUE (IsEqual (merge ({ ab.get (), c.get () }).get (), whole.get ()));
      EXPECT_TRUE (IsEqual (merge ({ a.get (), bc.get () }).get (), whole.get ()));
      EXPECT_TRUE (IsEqual (merge ({ c.get (), b.get (), a.get () }).get (), whole.get ()));
    }
}

TEST (Histogram, OfManyThreadsAddsUp)
{
  constexpr int kThreads = 100, kDurations = 2000; // more than there are shards
  g_autoptr (TpsHistogram) histogram = tps_histogram_new ();
  std::vector<std::thread> threads;
  std::atomic<bool> begins { false };
  for (int i = 0; i < kThreads; i++)
    threads.emplace_back ([&] {
      while (!begins)
        std::this_thread::yield ();
      for (int j = 1; j <= kDurations; j++)
        tps_histogram_record (histogram, j);
    });
  begins = true;
  guint64 last = 0;
  while (last < kThreads * kDurations)
    {
      Counts counts = Read (histogram);
      EXPECT_GE (counts->count, last) << "never falls";
      last = counts->count;
    }
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (Read (histogram)->sum_ns, guint64 { kThreads } * kDurations * (kDurations + 1) / 2);
}

// A new histogram reuses the cells of freed ones, and must find them empty.
TEST (Histogram, BeginsEmpty)
{
  for (int i = 0; i < 1000; i++)
    {
      g_autoptr (TpsHistogram) histogram = tps_histogram_new ();
      ASSERT_EQ (Read (histogram)->count, 0u);
      for (int shift = 0; shift < 63; shift++)
        tps_histogram_record (histogram, gint64 { 1 } << shift);
      ASSERT_EQ (Read (histogram)->count, 63u);
    }
}

TEST (Cells, OfThreadsThatHaveEndedAreKept)
{
  TpsCell cell = tps_cell_new ();
  for (int i = 0; i < 200; i++)
    std::thread ([cell] { tps_cell_add (cell, 3); }).join ();
  EXPECT_EQ (tps_cell_read (cell), 600u);
  tps_cell_free (cell);
  EXPECT_EQ (tps_cell_new (), cell);
  EXPECT_EQ (tps_cell_read (cell), 0u);
  tps_cell_free (cell);
}

TEST (Cells, RunOut)
{
  std::vector<TpsCell> blocks;
  TpsCell block;
  while ((block = tps_cell_block_new ()) != 0)
    blocks.push_back (block);
  EXPECT_GT (blocks.size () * TPS_CELL_BLOCK, 400000u);
  g_autoptr (TpsHistogram) histogram = tps_histogram_new ();
  tps_histogram_record (histogram, 5); // counts nothing, and does no harm
  EXPECT_EQ (Read (histogram)->count, 0u);
  for (TpsCell each : blocks)
    tps_cell_block_free (each);
  tps_histogram_record (histogram, 5);
  EXPECT_EQ (Read (histogram)->count, 1u);
}

} // namespace
