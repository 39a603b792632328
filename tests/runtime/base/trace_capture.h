// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Collects trace records of every level as text during its lifetime.

#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/trace.h"
#include "runtime/base/trace_sinks.h"

namespace thriftps_test {

class TraceCapture
{
public:
  TraceCapture ()
  {
    tps_trace_flush (G_MAXINT64); /* of earlier tests, to their sink */
    tps_trace_set_sink (Take, this);
    tps_trace_set_levels ("debug", nullptr);
  }
  ~TraceCapture ()
  {
    tps_trace_flush (G_MAXINT64);
    tps_trace_set_sink (nullptr, nullptr);
    tps_trace_set_levels ("warning", nullptr);
  }
  TraceCapture (const TraceCapture &) = delete;
  TraceCapture &operator= (const TraceCapture &) = delete;

  // Returns every record emitted before the call, as "LEVEL event key=value ...".
  std::vector<std::string>
  Lines ()
  {
    tps_trace_flush (G_MAXINT64);
    std::lock_guard<std::mutex> guard (lock_);
    return lines_;
  }

  // Returns the records of one event.
  std::vector<std::string>
  Lines (const std::string &event)
  {
    tps_trace_flush (G_MAXINT64);
    std::lock_guard<std::mutex> guard (lock_);
    return Find (event);
  }

  // Waits until `event` has been emitted `n` times; returns the last of these lines.
  std::string
  WaitFor (const std::string &event, size_t n = 1)
  {
    std::unique_lock<std::mutex> guard (lock_);
    for (;;)
      {
        std::vector<std::string> found = Find (event);
        if (found.size () >= n)
          return found[n - 1];
        changed_.wait (guard);
      }
  }

private:
  // The caller must hold the lock.
  std::vector<std::string>
  Find (const std::string &event)
  {
    std::vector<std::string> found;
    for (const std::string &line : lines_)
      if ((line + " ").find (" " + event + " ") != std::string::npos)
        found.push_back (line);
    return found;
  }
  static void
  Take (const TpsTraceRecord *record, gpointer user_data)
  {
    auto *self = static_cast<TraceCapture *> (user_data);
    g_autoptr (GString) line = g_string_new (tps_trace_level_name (record->level));
    g_string_append_c (line, ' ');
    tps_trace_append_text (record, line);
    std::lock_guard<std::mutex> guard (self->lock_);
    self->lines_.push_back (line->str);
    self->changed_.notify_all ();
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

} // namespace thriftps_test
