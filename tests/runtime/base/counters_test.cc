// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/counters.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/base/readings.h"

namespace thriftps_test {
namespace {

const TpsFamily kCalls = { .name = "calls_total", .help = "Calls.", .labels = { "method" } };
const TpsFamily kFailures = {
  .name = "failures_total", .help = "Failures.", .labels = { "table", "code" }, .max_series = 2
};
const TpsFamily kLevel = { .name = "level", .help = "A level.", .kind = TPS_FAMILY_GAUGE };
const TpsFamily kBytes = { .name = "table_bytes",
                           .help = "Of a table.",
                           .kind = TPS_FAMILY_GAUGE,
                           .labels = { "table" },
                           .max_series = 2 };
const TpsFamily kDuration = { .name = "duration_seconds",
                              .help = "Of calls.",
                              .kind = TPS_FAMILY_HISTOGRAM,
                              .labels = { "method" } };

TEST (Counters, AreFoundByTheirLabelsAndReadByFamilies)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  TpsGauge *level = tps_counters_use_gauge (counters, &kLevel, nullptr, nullptr);
  TpsCounter *b = tps_counters_use_counter (counters, &kCalls, "b", nullptr);
  TpsCounter *a = tps_counters_use_counter (counters, &kCalls, "a", nullptr);
  tps_counter_add (a, 2);
  tps_counter_add (b, 1);
  tps_counter_add (tps_counters_use_counter (counters, &kCalls, "a", nullptr), 40);
  tps_counter_add (tps_counters_use_counter (counters, &kFailures, "t", "STALE"), 7);
  tps_gauge_add (level, 5);
  tps_gauge_add (level, -7);
  EXPECT_EQ (ListNumbers (counters), "calls_total{method=\"b\"} 1\n"
                                     "calls_total{method=\"a\"} 42\n"
                                     "failures_total{table=\"t\",code=\"STALE\"} 7\n"
                                     "level{} -2\n");
  tps_gauge_set (level, 3);
  EXPECT_EQ (tps_gauge_get (level), 3);
  EXPECT_NE (a, b);
}

// Peers choose the names of tables. All names beyond the limit share one series for each code.
TEST (Counters, BeyondTheBoundAreCountedAsOther)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  TpsCounter *first = tps_counters_use_counter (counters, &kFailures, "t0", "STALE");
  TpsCounter *beyond = nullptr;
  tps_counters_use_counter (counters, &kFailures, "t1", "STALE");
  for (int i = 2; i < 100; i++)
    {
      std::string name = "t" + std::to_string (i);
      beyond = tps_counters_use_counter (counters, &kFailures, name.c_str (), "STALE");
      tps_counter_add (beyond, 1);
      tps_counter_add (tps_counters_use_counter (counters, &kFailures, name.c_str (), "ABORTED"),
                       1);
    }
  EXPECT_EQ (ListNumbers (counters), "failures_total{table=\"t0\",code=\"STALE\"} 0\n"
                                     "failures_total{table=\"t1\",code=\"STALE\"} 0\n"
                                     "failures_total{table=\"(other)\",code=\"STALE\"} 98\n"
                                     "failures_total{table=\"(other)\",code=\"ABORTED\"} 98\n");
  tps_counters_end_use (counters, first);
  EXPECT_NE (tps_counters_use_counter (counters, &kFailures, "t99", "STALE"), beyond)
      << "there is room again";
  tps_counters_end_use (counters, beyond);
  EXPECT_EQ (ReadNumber (counters, "failures_total", TPS_OTHER_VALUES), 196);
}

TEST (Counters, EndWithTheirLastUse)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  TpsCounter *counter = tps_counters_use_counter (counters, &kCalls, "a", nullptr);
  TpsHistogram *histogram = tps_counters_use_histogram (counters, &kDuration, "a", nullptr);
  EXPECT_EQ (tps_counters_use_counter (counters, &kCalls, "a", nullptr), counter);
  tps_counter_add (counter, 1);
  tps_histogram_record (histogram, 1000);
  tps_counters_end_use (counters, counter);
  EXPECT_EQ (ReadNumber (counters, "calls_total", "a"), 1);
  {
    g_autoptr (TpsReading) reading = tps_counters_read (counters);
    tps_counters_end_use (counters, counter);
    tps_counters_end_use (counters, histogram);
    guint n_families;
    const TpsFamilyReading *families = tps_reading_get_families (reading, &n_families);
    ASSERT_EQ (n_families, 2u);
    const TpsSample *sample = &g_array_index (families[1].samples, TpsSample, 0);
    TpsHistogramCounts *counts = tps_histogram_counts_new ();
    tps_histogram_read (sample->histogram, counts);
    EXPECT_EQ (counts->count, 1u) << "it stays while it is read";
    g_free (counts);
  }
  EXPECT_EQ (ListNumbers (counters), "");
  EXPECT_EQ (tps_counter_get (tps_counters_use_counter (counters, &kCalls, "a", nullptr)), 0u)
      << "a new one begins at zero";
}

TEST (Counters, LabelsAreBoundedEscapedAndText)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  tps_counters_use_counter (counters, &kCalls, "a\"b\\c\nd\xff", nullptr);
  tps_counters_use_counter (counters, &kCalls, std::string (1000, 'x').c_str (), nullptr);
  EXPECT_EQ (ListNumbers (counters), "calls_total{method=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"} 0\n"
                                     "calls_total{method=\""
                                         + std::string (TPS_LABEL_MAX_BYTES, 'x') + "\"} 0\n");
}

struct Object
{
  gint64 number;
  int n_released;
};

gint64
ReadObject (gpointer object)
{
  return static_cast<Object *> (object)->number;
}

void
ReleaseObject (gpointer object)
{
  static_cast<Object *> (object)->n_released++;
}

TEST (Counters, ReadersAreAskedAtEachReading)
{
  Object first = { 5, 0 }, second = { 6, 0 };
  {
    g_autoptr (TpsCounters) counters = tps_counters_new ();
    tps_counters_add_reader (counters, &kLevel, nullptr, nullptr, ReadObject, &first,
                             ReleaseObject);
    EXPECT_EQ (ReadNumber (counters, "level"), 5);
    first.number = 50;
    EXPECT_EQ (ReadNumber (counters, "level"), 50);
    tps_counters_add_reader (counters, &kLevel, nullptr, nullptr, ReadObject, &second,
                             ReleaseObject);
    EXPECT_EQ (first.n_released, 1);
    EXPECT_EQ (ReadNumber (counters, "level"), 6);
  }
  EXPECT_EQ (first.n_released, 1);
  EXPECT_EQ (second.n_released, 1);
}

void
CollectTables (TpsReading *reading, gpointer data)
{
  for (int i = 0; i < *static_cast<int *> (data); i++)
    tps_reading_add (reading, &kBytes, ("t" + std::to_string (i)).c_str (), nullptr, 10 + i);
}

TEST (Counters, CollectorsAddSamplesUpToTheBound)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  int n = 1;
  guint id = tps_counters_add_collector (counters, CollectTables, &n);
  EXPECT_EQ (ListNumbers (counters), "table_bytes{table=\"t0\"} 10\n");
  n = 4;
  EXPECT_EQ (ListNumbers (counters), "table_bytes{table=\"t0\"} 10\n"
                                     "table_bytes{table=\"t1\"} 11\n"
                                     "table_bytes{table=\"(other)\"} 25\n");
  guint again = tps_counters_add_collector (counters, CollectTables, &n);
  EXPECT_EQ (ReadNumber (counters, "table_bytes", "t1"), 22) << "equal samples are added up";
  tps_counters_remove_collector (counters, id);
  tps_counters_remove_collector (counters, again);
  EXPECT_EQ (ListNumbers (counters), "");
}

// Reads run concurrently with threads that create, change and end series.
TEST (Counters, AreReadWhileTheyChange)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back ([&counters, i] {
      std::string name = "m" + std::to_string (i % 2);
      for (int j = 0; j < 500; j++)
        {
          TpsCounter *counter = tps_counters_use_counter (counters, &kCalls, name.c_str (),
                                                          nullptr);
          TpsHistogram *histogram = tps_counters_use_histogram (counters, &kDuration, name.c_str (),
                                                                nullptr);
          tps_counter_add (counter, 1);
          tps_histogram_record (histogram, 1000);
          tps_counters_end_use (counters, histogram);
          tps_counters_end_use (counters, counter);
        }
    });
  for (int i = 0; i < 100; i++)
    ListNumbers (counters);
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (ListNumbers (counters), "");
}

} // namespace
} // namespace thriftps_test
