// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/counters.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "runtime/base/metrics.h"

namespace {

std::string
List (TpsCounters *counters)
{
  g_autoptr (GArray) counts = tps_counters_list (counters);
  std::string text;
  for (guint i = 0; i < counts->len; i++)
    {
      const TpsCount *count = &g_array_index (counts, TpsCount, i);
      text += std::string (count->is_gauge ? "gauge " : "counter ") + count->name;
      if (count->label != nullptr)
        text += std::string ("{") + count->label + "=" + count->value + "}";
      text += " " + std::to_string (count->number) + "\n";
    }
  return text;
}

TEST (Counters, AreFoundByNameAndLabelAndListedInOrder)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  TpsCounter *b = tps_counters_get_counter (counters, "requests_total", "method", "b");
  TpsCounter *a = tps_counters_get_counter (counters, "requests_total", "method", "a");
  TpsGauge *open = tps_counters_get_gauge (counters, "connections", nullptr, nullptr);
  tps_counter_add (a, 2);
  tps_counter_add (b, 1);
  tps_counter_add (tps_counters_get_counter (counters, "requests_total", "method", "a"), 40);
  tps_gauge_add (open, 5);
  tps_gauge_add (open, -7);
  EXPECT_EQ (List (counters), "gauge connections -2\n"
                              "counter requests_total{method=a} 42\n"
                              "counter requests_total{method=b} 1\n");
  tps_gauge_set (open, 3);
  EXPECT_EQ (tps_gauge_get (open), 3);
  EXPECT_NE (a, b);
}

TEST (Counters, NullCountsNothing)
{
  TpsCounter *counter = tps_counters_get_counter (nullptr, "a", nullptr, nullptr);
  TpsGauge *gauge = tps_counters_get_gauge (nullptr, "b", nullptr, nullptr);
  tps_counter_add (counter, 1);
  tps_gauge_add (gauge, 1);
  tps_gauge_set (gauge, 1);
  EXPECT_EQ (tps_counter_get (counter), 0u);
  EXPECT_EQ (tps_gauge_get (gauge), 0);
}

TEST (Counters, OfManyThreadsAddUp)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  std::vector<std::thread> threads;
  for (int i = 0; i < 12; i++)
    threads.emplace_back ([&counters] {
      TpsCounter *counter = tps_counters_get_counter (counters, "n_total", nullptr, nullptr);
      for (int j = 0; j < 10000; j++)
        tps_counter_add (counter, 1);
    });
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (List (counters), "counter n_total 120000\n");
}

// An exporter's counters never fall; spans are of one run.
TEST (Counters, OfMetricsOutliveClear)
{
  g_autoptr (TpsMetrics) metrics = tps_metrics_new (nullptr, nullptr);
  TpsCounters *counters = tps_metrics_get_counters (metrics);
  tps_counter_add (tps_counters_get_counter (counters, "n_total", nullptr, nullptr), 3);
  tps_metrics_clear (metrics);
  EXPECT_EQ (List (tps_metrics_get_counters (metrics)), "counter n_total 3\n");
  g_autoptr (GPtrArray) summaries = tps_metrics_summarize (metrics, FALSE);
  EXPECT_EQ (summaries->len, 0u);
}

} // namespace
