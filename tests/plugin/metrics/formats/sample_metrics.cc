// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Writes a few metrics in both formats, and the durations of a histogram, for formats_test.py:
//
//   sample_metrics FOLDER      writes FOLDER/{text,openmetrics,durations}

#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>

#include "runtime/base/exposition.h"

namespace {

const TpsFamily kRequests = { .name = "sample_requests_total",
                              .help = "Requests.",
                              .labels = { "method", "code" } };
const TpsFamily kHeld = { .name = "sample_held_bytes",
                          .help = "Held; a \\ and a \"quote\".",
                          .kind = TPS_FAMILY_GAUGE,
                          .labels = { "budget" } };
const TpsFamily kWaiting = {
  .name = "sample_waiting_seconds", .help = "Waiting.", .kind = TPS_FAMILY_GAUGE, .n_decimals = 9
};
const TpsFamily kDurations = { .name = "sample_duration_seconds",
                               .help = "Durations.",
                               .kind = TPS_FAMILY_HISTOGRAM,
                               .labels = { "method" } };

void
Write (TpsCounters *counters, const std::string &path, TpsExpositionFormat format)
{
  GString *body = tps_exposition_write (counters, format);
  std::ofstream (path, std::ios::binary)
      .write (body->str, static_cast<std::streamsize> (body->len));
  g_string_free (body, TRUE);
}

} // namespace

int
main (int argc, char **argv)
{
  if (argc != 2)
    return 2;
  std::string folder = argv[1];
  TpsCounters *counters = tps_counters_new ();
  tps_counter_add (tps_counters_use_counter (counters, &kRequests, "a\"b\\c\nd", "OK"), 12345);
  tps_counter_add (tps_counters_use_counter (counters, &kRequests, "m", "STALE"), 1);
  tps_gauge_set (tps_counters_use_gauge (counters, &kHeld, "the process", nullptr),
                 gint64 { 1 } << 52);
  tps_gauge_set (tps_counters_use_gauge (counters, &kWaiting, nullptr, nullptr), -1234567890123);
  tps_counters_use_histogram (counters, &kDurations, "none", nullptr);

  TpsHistogram *durations = tps_counters_use_histogram (counters, &kDurations, "some", nullptr);
  std::ofstream samples (folder + "/durations");
  std::mt19937_64 random (7);
  std::lognormal_distribution<> draw (std::log (1e6), 1.2);
  for (int i = 0; i < 20000; i++)
    {
      gint64 ns = std::llround (draw (random)) + 1;
      tps_histogram_record (durations, ns);
      samples << ns << "\n";
    }
  TpsExemplar exemplar = { 2000000, g_get_real_time () / 1000, "0af7651916cd43dd8448eb211c80319c" };
  tps_histogram_add_exemplar (durations, &exemplar);
  Write (counters, folder + "/text", TPS_EXPOSITION_TEXT);
  Write (counters, folder + "/openmetrics", TPS_EXPOSITION_OPENMETRICS);
  tps_counters_unref (counters);
}
