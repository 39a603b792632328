/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/tracer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace thriftps {
namespace {

const gint64 SECOND_NS = 1000000000;
const char SAMPLED[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const char UNSAMPLED[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

std::atomic<gint64> now_ns;
std::atomic<int> n_reads;

gint64
read_clock ()
{
  n_reads++;
  return now_ns;
}

class TracerTest : public testing::Test
{
protected:
  TracerTest ()
  {
    now_ns = 100 * SECOND_NS;
    n_reads = 0;
    options_.get_now_ns = read_clock;
  }
  ~TracerTest () override
  {
    tps_tracer_free (tracer_);
  }

  void
  make ()
  {
    tracer_ = tps_tracer_new (&options_);
  }

  void
  end (TpsCallSpan *span, const char *tracestate = nullptr)
  {
    TpsCallFacts facts = { "Test:echo", "127.0.0.1:5", "uid:0", tracestate };

    if (span != nullptr && tps_tracer_wants (tracer_, span, now_ns))
      tps_tracer_end (tracer_, span, &facts, now_ns);
  }

  /* Begins a call in the memory of this thread. Only one call may be open at a time. */
  TpsCallSpan *
  begin (const char *traceparent)
  {
    static thread_local TpsCallSpan span;

    return tps_tracer_begin (tracer_, traceparent, now_ns, &span);
  }

  void
  call (const char *traceparent)
  {
    end (begin (traceparent));
  }

  std::vector<TpsSpan>
  take ()
  {
    std::vector<TpsSpan> spans;
    TpsSpan span;

    while (tps_tracer_take (tracer_, &span))
      spans.push_back (span);
    return spans;
  }

  TpsTracerOptions options_ = {};
  TpsTracer *tracer_ = nullptr;
};

TEST_F (TracerTest, callsThatAreNotSampledReadNoClock)
{
  options_.has_exporter = TRUE;
  make ();
  call (nullptr);
  call (UNSAMPLED);
  call ("not a traceparent");
  EXPECT_EQ (n_reads, 0);
  EXPECT_TRUE (take ().empty ());
}

TEST_F (TracerTest, withoutAnExporterNoCallIsSampled)
{
  options_.sampling = 1.0;
  make ();
  call (SAMPLED);
  call (nullptr);
  EXPECT_EQ (n_reads, 0);
}

TEST_F (TracerTest, tracestatesThatAreNoneAreLeftOut)
{
  options_.has_exporter = TRUE;
  make ();
  end (begin (SAMPLED), "a=\n");
  end (begin (SAMPLED), std::string (600, 'a').c_str ());
  for (const TpsSpan &span : take ())
    EXPECT_STREQ (span.tracestate, "");
}

TEST_F (TracerTest, callersSampleWithinARate)
{
  options_.has_exporter = TRUE;
  options_.max_per_second = 10;
  make ();
  for (int i = 0; i < 50; i++)
    call (SAMPLED);
  EXPECT_EQ (take ().size (), 10u);
  now_ns += SECOND_NS / 2;
  for (int i = 0; i < 50; i++)
    call (SAMPLED);
  EXPECT_EQ (take ().size (), 5u);
  now_ns += 100 * SECOND_NS;
  for (int i = 0; i < 50; i++)
    call (SAMPLED);
  EXPECT_EQ (take ().size (), 10u);
}

TEST_F (TracerTest, aPartOfTheOthersIsSampledUnderTracesOfTheirOwn)
{
  std::set<std::string> ids;

  options_.has_exporter = TRUE;
  options_.sampling = 0.25;
  options_.max_spans = 4096;
  make ();
  for (int i = 0; i < 4000; i++)
    call (nullptr);
  std::vector<TpsSpan> spans = take ();
  EXPECT_GT (spans.size (), 800u); /* 1,000 are expected; the standard deviation is 27 */
  EXPECT_LT (spans.size (), 1200u);
  for (const TpsSpan &span : spans)
    {
      gchar id[TPS_TRACE_ID_TEXT];

      tps_trace_id_format (span.context.trace_id, id);
      ids.insert (id);
      EXPECT_EQ (span.context.parent_id[0] | span.context.parent_id[7], 0);
    }
  EXPECT_EQ (ids.size (), spans.size ());
}

TEST_F (TracerTest, spansThatFindNoRoomAreCounted)
{
  options_.has_exporter = TRUE;
  options_.sampling = 1.0;
  options_.max_spans = 4;
  make ();
  for (int i = 0; i < 10; i++)
    call (nullptr);
  EXPECT_EQ (take ().size (), 4u);
  EXPECT_EQ (tps_tracer_get_n_dropped (tracer_), 6u);
  call (nullptr);
  EXPECT_EQ (take ().size (), 1u);
}

TEST_F (TracerTest, manyThreadsAndOneExporter)
{
  const int N = 5000;
  std::vector<std::thread> threads;
  std::atomic<int> n_running = 3;
  size_t n_taken = 0;

  options_.has_exporter = TRUE;
  options_.sampling = 1.0;
  options_.n_slow_calls = 4;
  options_.max_spans = 64;
  make ();
  for (int t = 0; t < 3; t++)
    threads.emplace_back ([this, &n_running] {
      for (int i = 0; i < N; i++)
        call (nullptr);
      n_running--;
    });
  while (n_running > 0)
    n_taken += take ().size ();
  for (std::thread &thread : threads)
    thread.join ();
  n_taken += take ().size ();
  EXPECT_EQ (n_taken + tps_tracer_get_n_dropped (tracer_), static_cast<size_t> (3 * N));
}

} // namespace
} // namespace thriftps
