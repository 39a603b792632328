/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/metrics.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

/* The expected values are from numpy 1.24 (percentile, linear) and Python's statistics. */
TEST (MetricSummary, AgreesWithNumpyAndStatistics)
{
  const gdouble values[] = { 3.5, 1.25, 9, 4, 4, 0.5, 7.75 };
  g_autoptr (TpsMetricSummary)
      summary = tps_metric_summary_new ("t", "n", values, G_N_ELEMENTS (values));

  EXPECT_EQ (summary->count, 7);
  EXPECT_EQ (summary->min_ms, 0.5);
  EXPECT_EQ (summary->max_ms, 9);
  EXPECT_DOUBLE_EQ (summary->mean_ms, 4.285714285714286);
  EXPECT_DOUBLE_EQ (summary->variance_ms2, 9.758928571428571);
  EXPECT_DOUBLE_EQ (summary->stdev_ms, 3.1239283876921013);
  EXPECT_EQ (summary->p50_ms, 4);
  EXPECT_DOUBLE_EQ (summary->p95_ms, 8.625);
  EXPECT_DOUBLE_EQ (summary->p99_ms, 8.925);
}

TEST (Metrics, ThreadsRecordAtTheSameTime)
{
  g_autoptr (TpsMetrics) metrics = tps_metrics_new (NULL, NULL);
  std::vector<std::thread> threads;

  for (int t = 0; t < 4; t++)
    threads.emplace_back ([t, &metrics] {
      for (int i = 0; i < 1000; i++)
        {
          std::string key = std::to_string (t) + "," + std::to_string (i);

          tps_metrics_record_start (metrics, "spans", key.c_str (), "n", NULL);
          tps_metrics_record (metrics, "others", "n", 1);
          tps_metrics_record_end (metrics, "spans", key.c_str (), NULL);
          if (i % 100 == 0)
            {
              g_autoptr (GPtrArray) all = tps_metrics_summarize (metrics, TRUE);
              (void) all;
            }
        }
    });
  for (std::thread &thread : threads)
    thread.join ();
  g_autoptr (GPtrArray) all = tps_metrics_summarize (metrics, FALSE);
  ASSERT_EQ (all->len, 2u);
  for (guint i = 0; i < 2; i++)
    EXPECT_EQ (((const TpsMetricSummary *) all->pdata[i])->count, 4000);
}

/* Otherwise a client that repeats the call would keep the workers busy with sorting. */
TEST (Metrics, SummariesAreMadeAgainOnlyAfterAChange)
{
  g_autoptr (TpsMetrics) metrics = tps_metrics_new (NULL, NULL);

  tps_metrics_record (metrics, "type", "name", 1);
  for (gboolean with_samples : std::vector<gboolean> { FALSE, TRUE })
    {
      g_autoptr (GPtrArray) first = tps_metrics_summarize (metrics, with_samples);
      g_autoptr (GPtrArray) same = tps_metrics_summarize (metrics, with_samples);
      EXPECT_EQ (first, same);
      ASSERT_TRUE (
          tps_metrics_record_start (metrics, "type", with_samples ? "a" : "b", "name", NULL));
      g_autoptr (GPtrArray) still = tps_metrics_summarize (metrics, with_samples);
      EXPECT_EQ (first, still) << "an unfinished span is no change";
      tps_metrics_record (metrics, "type", "name", 2);
      g_autoptr (GPtrArray) changed = tps_metrics_summarize (metrics, with_samples);
      EXPECT_NE (first, changed);
      EXPECT_EQ (((TpsMetricSummary *) first->pdata[0])->count + 1,
                 ((TpsMetricSummary *) changed->pdata[0])->count);
    }
  tps_metrics_clear (metrics);
  g_autoptr (GPtrArray) cleared = tps_metrics_summarize (metrics, TRUE);
  EXPECT_EQ (cleared->len, 0u);
}

/* The ring wraps. Unfinished and finished spans are dropped in the order of their start. */
TEST (Metrics, KeepsTheNewestInOrderWhileTheRingTurns)
{
  g_autoptr (TpsMetrics) metrics = tps_metrics_new (NULL, NULL);
  const int n = TPS_METRICS_MAX_SAMPLES;

  ASSERT_TRUE (tps_metrics_record_start (metrics, "type", "stuck", "name", NULL));
  for (int i = 0; i < 2 * n + 10; i++)
    {
      tps_metrics_record (metrics, "type", "name", i);
      if (i == n - 2)
        {
          EXPECT_TRUE (tps_metrics_record_elapsed (metrics, "type", "stuck", 5, NULL));
        }
    }
  EXPECT_FALSE (tps_metrics_record_end (metrics, "type", "stuck", NULL)) << "it has gone";
  EXPECT_TRUE (tps_metrics_record_start (metrics, "type", "stuck", "name", NULL));
  g_autoptr (GPtrArray) all = tps_metrics_summarize (metrics, TRUE);
  const TpsMetricSummary *summary = (const TpsMetricSummary *) all->pdata[0];
  EXPECT_EQ (summary->count, 2 * n + 11);
  ASSERT_EQ (summary->n_samples, (guint) n - 1);
  for (int i = 0; i < n - 1; i++)
    ASSERT_EQ (summary->samples_ms[i], n + 11 + i);
}

} // namespace
