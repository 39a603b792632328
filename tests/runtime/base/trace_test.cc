// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/trace.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/trace_sinks.h"
#include "tests/runtime/base/trace_capture.h"

namespace {

using testing::ElementsAre;
using thriftps_test::TraceCapture;

TEST (Trace, CopiesTextOfFieldsUpToALimit)
{
  TpsTraceEvent event = TPS_TRACE_EVENT ("e", TPS_TRACE_INFO);
  TraceCapture capture;
  std::string text (5000, 'x');
  tps_trace (&event, tps_field_text ("text", text.c_str ()));
  text.assign (5000, 'y');
  EXPECT_THAT (capture.Lines (),
               ElementsAre ("info e text=" + std::string (TPS_TRACE_MAX_TEXT, 'x')));
}

TEST (Trace, EachEventHasARateAndCountsSuppressedLines)
{
  TpsTraceEvent flood = TPS_TRACE_EVENT ("flood", TPS_TRACE_INFO);
  TpsTraceEvent rare = TPS_TRACE_EVENT ("rare", TPS_TRACE_INFO);
  TraceCapture capture;
  TpsTraceStats before, after;
  tps_trace_get_stats (&before);
  for (int i = 0; i < 100000; i++)
    tps_trace (&flood, tps_field_int ("i", i));
  size_t n_lines = capture.Lines ("flood").size ();
  tps_trace_get_stats (&after);
  EXPECT_GE (n_lines, (size_t) TPS_TRACE_BURST);
  EXPECT_LT (n_lines, 50000u);
  EXPECT_EQ (n_lines + (after.n_suppressed - before.n_suppressed), 100000u);
  tps_trace (&rare, tps_field_int ("i", 0));
  EXPECT_EQ (capture.Lines ("rare").size (), 1u);
  flood.used_until_ns = 0; // simulates the recovery of the rate over time
  flood.n_suppressed = 7;
  tps_trace (&flood, tps_field_int ("i", 1));
  tps_trace (&flood, tps_field_int ("i", 2));
  std::vector<std::string> lines = capture.Lines ("flood");
  EXPECT_EQ (lines[lines.size () - 2], "info flood i=1 suppressed=7");
  EXPECT_EQ (lines.back (), "info flood i=2");
}

// A sink that blocks until it is released.
class StuckSink
{
public:
  StuckSink ()
  {
    tps_trace_set_sink (Take, this);
    tps_trace_set_levels ("info", nullptr);
  }
  ~StuckSink ()
  {
    Release ();
    tps_trace_set_sink (nullptr, nullptr);
    tps_trace_set_levels ("warning", nullptr);
  }
  void
  Release ()
  {
    std::lock_guard<std::mutex> guard (lock_);
    released_ = true;
    changed_.notify_all ();
  }
  std::vector<std::string>
  WaitFor (const std::string &event)
  {
    std::unique_lock<std::mutex> guard (lock_);
    changed_.wait (guard, [&] { return !events_.empty () && events_.back ().find (event) == 0; });
    return events_;
  }

private:
  static void
  Take (const TpsTraceRecord *record, gpointer user_data)
  {
    auto *self = static_cast<StuckSink *> (user_data);
    g_autoptr (GString) line = g_string_new (nullptr);
    tps_trace_append_text (record, line);
    std::unique_lock<std::mutex> guard (self->lock_);
    self->changed_.wait (guard, [&] { return self->released_; });
    self->events_.push_back (line->str);
    self->changed_.notify_all ();
  }

  std::mutex lock_;
  std::condition_variable changed_;
  bool released_ = false;
  std::vector<std::string> events_;
};

TEST (Trace, AStuckSinkDelaysNoCallerAndDropsAreCounted)
{
  StuckSink sink;
  TpsTraceStats before, after;
  std::string text (1000, 'x');
  const int n_events = 1000;
  tps_trace_get_stats (&before);
  for (int i = 0; i < n_events; i++)
    {
      TpsTraceEvent event = TPS_TRACE_EVENT ("stuck", TPS_TRACE_INFO); // no rate limit yet
      tps_trace (&event, tps_field_text ("text", text.c_str ()));
    }
  tps_trace_get_stats (&after);
  guint64 n_dropped = after.n_dropped - before.n_dropped;
  EXPECT_GT (n_dropped, 0u);
  EXPECT_LT (n_dropped, (guint64) n_events - 100);
  EXPECT_FALSE (tps_trace_flush (0));
  sink.Release ();
  std::vector<std::string> events = sink.WaitFor ("trace_dropped");
  EXPECT_EQ (events.size (), n_events - n_dropped + 1);
  EXPECT_EQ (events.back (), "trace_dropped count=" + std::to_string (n_dropped));
}

TEST (TraceText, WritesWholeLinesThroughANonBlockingPipe)
{
  int fds[2];
  ASSERT_EQ (pipe2 (fds, O_NONBLOCK), 0);
  ASSERT_GE (fcntl (fds[1], F_SETPIPE_SZ, 4096), 4096);
  std::thread writer ([&] {
    TpsTraceField field = tps_field_text ("v", "x");
    TpsTraceRecord record = { 1700000000123456, TPS_TRACE_WARNING, "e", 2, &field, 1 };
    for (int i = 0; i < 1000; i++)
      {
        g_autoptr (GString) line = g_string_new (nullptr);

        tps_trace_append_line (&record, line);
        g_string_append_c (line, '\n');
        tps_trace_write_line (fds[1], line->str, line->len);
      }
    close (fds[1]);
  });
  std::string text;
  char chunk[512];
  ASSERT_EQ (fcntl (fds[0], F_SETFL, 0), 0);
  for (ssize_t n; (n = read (fds[0], chunk, sizeof chunk)) > 0;)
    text.append (chunk, (size_t) n);
  writer.join ();
  close (fds[0]);
  const std::string line = "2023-11-14T22:13:20.123Z WARNING e v=x suppressed=2\n";
  EXPECT_EQ (text.size (), 1000 * line.size ());
  EXPECT_EQ (text.substr (text.size () - line.size ()), line);
}

GLogWriterOutput
KeepFields (GLogLevelFlags level, const GLogField *fields, gsize n_fields, gpointer user_data)
{
  auto *text = static_cast<std::string *> (user_data);
  *text += level == G_LOG_LEVEL_MESSAGE ? "message" : "other";
  for (gsize i = 0; i < n_fields; i++)
    *text += std::string ("|") + fields[i].key + "=" + static_cast<const char *> (fields[i].value);
  return G_LOG_WRITER_HANDLED;
}

// Without any configuration, the log writer of the host receives the records. A record of level
// error must not become a fatal warning.
TEST (TraceDefault, IsTheStructuredLogOfTheHost)
{
  TpsTraceEvent lost = TPS_TRACE_EVENT ("device_lost", TPS_TRACE_ERROR);
  TpsTraceEvent info = TPS_TRACE_EVENT ("quiet", TPS_TRACE_INFO);
  std::string text;
  g_log_set_writer_func (KeepFields, &text, nullptr);
  tps_trace (&info, tps_field_int ("i", 1));
  tps_trace (&lost, tps_field_text ("device", "cuda 0"), tps_field_int ("code", 7));
  ASSERT_TRUE (tps_trace_flush (G_MAXINT64));
  EXPECT_EQ (text, "message|MESSAGE=device_lost device=\"cuda 0\" code=7|PRIORITY=3|"
                   "GLIB_DOMAIN=thriftps|EVENT=device_lost|THRIFTPS_DEVICE=cuda 0|THRIFTPS_CODE=7");
}

} // namespace
