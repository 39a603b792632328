// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Compares durations of calls with the samples from which they were made. A message carries its
// time of arrival, so tests need not wait.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "plugin/service/dispatch.h"
#include "tests/plugin/server/test_service.h"
#include "tests/runtime/base/readings.h"

namespace thriftps_test {
namespace {

constexpr double kMaxError = 0.02;

gint64
NowNs ()
{
  struct timespec now;
  clock_gettime (CLOCK_MONOTONIC, &now);
  return gint64 { now.tv_sec } * 1000000000 + now.tv_nsec;
}

class CallMetrics : public testing::Test
{
protected:
  void
  SetUp () override
  {
    TpsService test = service_.Get ();
    dispatcher_ = tps_dispatcher_new (&test, 1, nullptr, nullptr);
    tps_dispatcher_set_metrics (dispatcher_, metrics_);
    ops_.may_wait = [] (gpointer) -> gboolean { return TRUE; };
    ops_.finish = [] (gpointer, TpsWriter *reply) { tps_writer_free (reply); };
  }
  void
  TearDown () override
  {
    tps_dispatcher_unref (dispatcher_);
    tps_metrics_unref (metrics_);
  }
  // Makes a call whose request arrived `age_ns` ago.
  void
  Call (const char *name, gint64 age_ns)
  {
    const guint8 empty_struct = 0;
    TpsMessage *message = tps_message_new ();
    message->kind = TPS_MESSAGE_CALL;
    message->protocol = TPS_PROTOCOL_BINARY;
    message->framed = TRUE;
    message->received_ns = NowNs () - age_ns;
    g_byte_array_append (message->head, &empty_struct, 1);
    tps_message_set_name (message, name);
    tps_dispatcher_handle (dispatcher_, message, nullptr, &ops_, this);
  }
  gint64
  Number (const char *name, const char *value = nullptr)
  {
    return ReadNumber (tps_metrics_get_counters (metrics_), name, value);
  }
  // Adds the histogram of a method to `*counts`.
  void
  Read (const char *method, TpsHistogramCounts *counts)
  {
    ForEachNumber (tps_metrics_get_counters (metrics_),
                   [&] (const TpsFamily &family, const TpsSample &sample) {
                     if (g_str_equal (family.name, "request_duration_seconds")
                         && g_str_equal (sample.values[0], method))
                       tps_histogram_read (sample.histogram, counts);
                   });
  }

  TestService service_;
  TpsCarrierOps ops_ = {};
  TpsMetrics *metrics_ = tps_metrics_new (nullptr, nullptr);
  TpsDispatcher *dispatcher_ = nullptr;
};

// The ages are long compared with the duration of a call, which the samples do not include.
TEST_F (CallMetrics, QuantilesAreThoseOfTheSamples)
{
  std::mt19937_64 random (1);
  std::lognormal_distribution<> draw (std::log (5e9), 1.5);
  std::vector<double> samples;
  for (int i = 0; i < 5000; i++)
    {
      samples.push_back (std::max (draw (random), 1e8));
      Call ("Test:echo", static_cast<gint64> (samples.back ()));
    }
  std::sort (samples.begin (), samples.end ());
  TpsHistogramCounts *counts = tps_histogram_counts_new ();
  Read ("Test:echo", counts);
  EXPECT_EQ (counts->count, samples.size ());
  for (double q : { 0.01, 0.1, 0.5, 0.9, 0.99, 0.999 })
    {
      double exact = samples[static_cast<size_t> (std::ceil (q * samples.size ())) - 1];
      EXPECT_NEAR (tps_histogram_counts_get_quantile (counts, q), exact, exact * kMaxError) << q;
    }
  g_free (counts);
}

// A method of the default service has two names, which must be counted together.
TEST_F (CallMetrics, CountEachCallOnce)
{
  Call ("Test:echo", 0);
  Call ("echo", 0);
  Call ("Test:nothing", 0);
  Call ("Other:echo", 0);
  EXPECT_EQ (Number ("requests_total", "Test:echo"), 2);
  EXPECT_EQ (Number ("requests_total", "unknown"), 2);
  EXPECT_EQ (Number ("requests_total"), 4);
  EXPECT_EQ (Number ("requests_failed_total", "TApplicationException"), 2);
  EXPECT_EQ (Number ("requests_failed_total"), 2);
  EXPECT_EQ (Number ("requests_in_flight"), 0);
}

TEST_F (CallMetrics, PendingCallsAreInFlight)
{
  Call ("Test:hold", 0);
  Call ("Test:hold", 0);
  EXPECT_EQ (Number ("requests_in_flight", "Test:hold"), 2);
  TpsHistogramCounts *counts = tps_histogram_counts_new ();
  Read ("Test:hold", counts);
  EXPECT_EQ (counts->count, 0u);
  tps_dispatcher_shut_down (dispatcher_);
  Read ("Test:hold", counts);
  EXPECT_EQ (counts->count, 2u) << "of failed calls too";
  EXPECT_EQ (Number ("requests_in_flight", "Test:hold"), 0);
  EXPECT_EQ (Number ("requests_failed_total", "UNAVAILABLE"), 2);
  g_free (counts);
}

// Dispatchers that share metrics, such as the dispatcher for calls in chunks, must count together.
TEST_F (CallMetrics, OfTwoDispatchersAddUp)
{
  TestService service;
  TpsService test = service.Get ();
  TpsDispatcher *first = dispatcher_;
  dispatcher_ = tps_dispatcher_new (&test, 1, nullptr, nullptr);
  tps_dispatcher_set_metrics (dispatcher_, metrics_);
  Call ("Test:echo", 0);
  tps_dispatcher_unref (dispatcher_);
  dispatcher_ = first;
  Call ("Test:echo", 0);
  EXPECT_EQ (Number ("requests_total", "Test:echo"), 2);
  EXPECT_EQ (Number ("requests_in_flight", "Test:echo"), 0);
}

} // namespace
} // namespace thriftps_test
