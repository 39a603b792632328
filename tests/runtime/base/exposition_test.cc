// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/exposition.h"

#include <gtest/gtest.h>

#include <string>

namespace {

const TpsFamily kCalls = { .name = "requests_total", .help = "Requests.", .labels = { "method" } };
const TpsFamily kFailures = { .name = "failures_total",
                              .help = "Failures.",
                              .labels = { "method", "code" } };
const TpsFamily kLevel = { .name = "connections", .help = "Open.", .kind = TPS_FAMILY_GAUGE };
const TpsFamily kHeld = {
  .name = "memory_held_bytes", .help = "Held.", .kind = TPS_FAMILY_GAUGE, .labels = { "budget" }
};
const TpsFamily kWaiting = { .name = "waiting_seconds",
                             .help = "Waiting.",
                             .kind = TPS_FAMILY_GAUGE,
                             .labels = { "what" },
                             .n_decimals = 9 };
const TpsFamily kDuration = { .name = "duration_seconds",
                              .help = "Of calls.",
                              .kind = TPS_FAMILY_HISTOGRAM,
                              .labels = { "method" } };
const TpsFamily kCpu = { .name = "process_cpu_seconds_total",
                         .help = "Of the process.",
                         .n_decimals = 2 };

std::string
Write (TpsCounters *counters, TpsExpositionFormat format)
{
  GString *body = tps_exposition_write (counters, format);
  std::string text (body->str, body->len);
  g_string_free (body, TRUE);
  return text;
}

class ExpositionTest : public testing::Test
{
protected:
  void
  SetUp () override
  {
    tps_counter_add (tps_counters_use_counter (counters_, &kCalls, "a\"b", nullptr), 7);
    tps_counter_add (tps_counters_use_counter (counters_, &kFailures, "m", "STALE"), 1);
    tps_gauge_set (tps_counters_use_gauge (counters_, &kLevel, nullptr, nullptr), -3);
    tps_gauge_set (tps_counters_use_gauge (counters_, &kHeld, "tables", nullptr), 1 << 30);
    tps_gauge_set (tps_counters_use_gauge (counters_, &kWaiting, "a", nullptr), -1500000000);
    tps_gauge_set (tps_counters_use_gauge (counters_, &kWaiting, "b", nullptr), 20);
    tps_counter_add (tps_counters_use_counter (counters_, &kCpu, nullptr, nullptr), 1205);
    TpsHistogram *histogram = tps_counters_use_histogram (counters_, &kDuration, "m", nullptr);
    for (gint64 ns : { 5000, 1000000, 1000001, 2000000000 })
      tps_histogram_record (histogram, ns);
    tps_counters_use_histogram (counters_, &kDuration, "none", nullptr);
  }
  void
  TearDown () override
  {
    tps_counters_unref (counters_);
  }

  TpsCounters *counters_ = tps_counters_new ();
};

TEST_F (ExpositionTest, Text)
{
  EXPECT_EQ (Write (counters_, TPS_EXPOSITION_TEXT),
             R"(# HELP thriftps_connections Open.
# TYPE thriftps_connections gauge
thriftps_connections -3
# HELP thriftps_duration_seconds Of calls.
# TYPE thriftps_duration_seconds histogram
thriftps_duration_seconds_bucket{method="m",le="1e-05"} 1
thriftps_duration_seconds_bucket{method="m",le="2.5e-05"} 1
thriftps_duration_seconds_bucket{method="m",le="5e-05"} 1
thriftps_duration_seconds_bucket{method="m",le="0.0001"} 1
thriftps_duration_seconds_bucket{method="m",le="0.00025"} 1
thriftps_duration_seconds_bucket{method="m",le="0.0005"} 1
thriftps_duration_seconds_bucket{method="m",le="0.001"} 1
thriftps_duration_seconds_bucket{method="m",le="0.0025"} 3
thriftps_duration_seconds_bucket{method="m",le="0.005"} 3
thriftps_duration_seconds_bucket{method="m",le="0.01"} 3
thriftps_duration_seconds_bucket{method="m",le="0.025"} 3
thriftps_duration_seconds_bucket{method="m",le="0.05"} 3
thriftps_duration_seconds_bucket{method="m",le="0.1"} 3
thriftps_duration_seconds_bucket{method="m",le="0.25"} 3
thriftps_duration_seconds_bucket{method="m",le="0.5"} 3
thriftps_duration_seconds_bucket{method="m",le="1.0"} 3
thriftps_duration_seconds_bucket{method="m",le="2.5"} 4
thriftps_duration_seconds_bucket{method="m",le="10.0"} 4
thriftps_duration_seconds_bucket{method="m",le="60.0"} 4
thriftps_duration_seconds_bucket{method="m",le="+Inf"} 4
thriftps_duration_seconds_sum{method="m"} 2.002005001
thriftps_duration_seconds_count{method="m"} 4
thriftps_duration_seconds_bucket{method="none",le="1e-05"} 0
thriftps_duration_seconds_bucket{method="none",le="2.5e-05"} 0
thriftps_duration_seconds_bucket{method="none",le="5e-05"} 0
thriftps_duration_seconds_bucket{method="none",le="0.0001"} 0
thriftps_duration_seconds_bucket{method="none",le="0.00025"} 0
thriftps_duration_seconds_bucket{method="none",le="0.0005"} 0
thriftps_duration_seconds_bucket{method="none",le="0.001"} 0
thriftps_duration_seconds_bucket{method="none",le="0.0025"} 0
thriftps_duration_seconds_bucket{method="none",le="0.005"} 0
thriftps_duration_seconds_bucket{method="none",le="0.01"} 0
thriftps_duration_seconds_bucket{method="none",le="0.025"} 0
thriftps_duration_seconds_bucket{method="none",le="0.05"} 0
thriftps_duration_seconds_bucket{method="none",le="0.1"} 0
thriftps_duration_seconds_bucket{method="none",le="0.25"} 0
thriftps_duration_seconds_bucket{method="none",le="0.5"} 0
thriftps_duration_seconds_bucket{method="none",le="1.0"} 0
thriftps_duration_seconds_bucket{method="none",le="2.5"} 0
thriftps_duration_seconds_bucket{method="none",le="10.0"} 0
thriftps_duration_seconds_bucket{method="none",le="60.0"} 0
thriftps_duration_seconds_bucket{method="none",le="+Inf"} 0
thriftps_duration_seconds_sum{method="none"} 0
thriftps_duration_seconds_count{method="none"} 0
# HELP thriftps_failures_total Failures.
# TYPE thriftps_failures_total counter
thriftps_failures_total{method="m",code="STALE"} 1
# HELP thriftps_memory_held_bytes Held.
# TYPE thriftps_memory_held_bytes gauge
thriftps_memory_held_bytes{budget="tables"} 1073741824
# HELP process_cpu_seconds_total Of the process.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.05
# HELP thriftps_requests_total Requests.
# TYPE thriftps_requests_total counter
thriftps_requests_total{method="a\"b"} 7
# HELP thriftps_waiting_seconds Waiting.
# TYPE thriftps_waiting_seconds gauge
thriftps_waiting_seconds{what="a"} -1.5
thriftps_waiting_seconds{what="b"} 0.00000002
)");
}

// Checks only the parts that differ from the text format.
TEST_F (ExpositionTest, OpenMetrics)
{
  std::string text = Write (counters_, TPS_EXPOSITION_OPENMETRICS);
  for (const char *part : {
           "# HELP thriftps_requests Requests.\n# TYPE thriftps_requests counter\n"
           "thriftps_requests_total{method=\"a\\\"b\"} 7\n",
           "# TYPE thriftps_memory_held_bytes gauge\n# UNIT thriftps_memory_held_bytes bytes\n",
           "# TYPE process_cpu_seconds counter\n# UNIT process_cpu_seconds seconds\n"
           "process_cpu_seconds_total 12.05\n",
           "# TYPE thriftps_duration_seconds histogram\n# UNIT thriftps_duration_seconds seconds\n",
       })
    EXPECT_NE (text.find (part), std::string::npos) << part << "in\n" << text;
  ASSERT_GT (text.size (), 6u);
  EXPECT_EQ (text.substr (text.size () - 6), "# EOF\n");
}

// OpenMetrics shows the newest exemplar of each bucket. The text format shows no exemplars.
TEST_F (ExpositionTest, ExemplarsAreOpenMetrics)
{
  TpsHistogram *histogram = tps_counters_use_histogram (counters_, &kDuration, "m", nullptr);
  std::string before = Write (counters_, TPS_EXPOSITION_TEXT);
  gint64 time_ms = 1790000000000;
  for (gint64 ns : { 4000, 5000, 900000, 1000000, 2000000000 })
    {
      TpsExemplar exemplar = { ns, time_ms++, "" };
      g_snprintf (exemplar.trace_id, sizeof exemplar.trace_id, "%032" G_GINT64_MODIFIER "x", ns);
      tps_histogram_add_exemplar (histogram, &exemplar);
    }
  EXPECT_EQ (Write (counters_, TPS_EXPOSITION_TEXT), before);
  std::string text = Write (counters_, TPS_EXPOSITION_OPENMETRICS);
  std::string name = "\nthriftps_duration_seconds_bucket{method=\"m\",le=";
  for (const std::string &line :
       { name
             + "\"1e-05\"} 1 # {trace_id=\"00000000000000000000000000001388\"} 0.000005 "
               "1790000000.001\n",
         name
             + "\"0.001\"} 1 # {trace_id=\"000000000000000000000000000f4240\"} 0.001 "
               "1790000000.003\n",
         name + "\"0.0025\"} 3\n", name + "\"1.0\"} 3\n",
         name
             + "\"2.5\"} 4 # {trace_id=\"00000000000000000000000077359400\"} 2 "
               "1790000000.004\n",
         name + "\"+Inf\"} 4\n" })
    EXPECT_NE (text.find (line), std::string::npos) << line << "in\n" << text;
  EXPECT_EQ (text.find ("trace_id", text.find ("method=\"none\"")), std::string::npos);
}

TEST_F (ExpositionTest, OfNothing)
{
  g_autoptr (TpsCounters) counters = tps_counters_new ();
  EXPECT_EQ (Write (counters, TPS_EXPOSITION_TEXT), "");
  EXPECT_EQ (Write (counters, TPS_EXPOSITION_OPENMETRICS), "# EOF\n");
}

TEST (ExpositionFormat, IsChosenByTheAcceptHeader)
{
  const struct
  {
    const char *accept;
    TpsExpositionFormat format;
  } cases[] = {
    { nullptr, TPS_EXPOSITION_TEXT },
    { "", TPS_EXPOSITION_TEXT },
    { "*/*", TPS_EXPOSITION_TEXT },
    { "text/html,application/xhtml+xml,*/*;q=0.8", TPS_EXPOSITION_TEXT },
    { "image/png", TPS_EXPOSITION_TEXT },
    { ";;;,,=;q=x", TPS_EXPOSITION_TEXT },
    { "application/openmetrics-text", TPS_EXPOSITION_OPENMETRICS },
    { "application/openmetrics-text;version=0.0.1", TPS_EXPOSITION_TEXT },
    // The Accept headers of Prometheus 2.42, without and with native histograms.
    { "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
      "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
      TPS_EXPOSITION_OPENMETRICS },
    { "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"
      "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;"
      "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
      TPS_EXPOSITION_OPENMETRICS },
    { "application/vnd.google.protobuf; encoding=delimited", TPS_EXPOSITION_TEXT },
    { "text/plain; Q=0.9, Application/OpenMetrics-Text; q=0.95", TPS_EXPOSITION_OPENMETRICS },
  };
  for (const auto &each : cases)
    EXPECT_EQ (tps_exposition_choose (each.accept), each.format) << each.accept;
  EXPECT_STREQ (tps_exposition_get_content_type (TPS_EXPOSITION_TEXT),
                "text/plain; version=0.0.4; charset=utf-8");
}

} // namespace
