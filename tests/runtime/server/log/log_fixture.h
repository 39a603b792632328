/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Helpers for tests of the log: appends whose results are recorded, and a reader of the whole
 * log. */

#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/server/log/log_writer.h"
#include "tests/runtime/server/log/commands.h"

namespace thriftps {

/* Records the ends of appends. It must outlive the appends. */
class Ends
{
public:
  static void
  done (gpointer user_data, gint64 lsn, const GError *error)
  {
    auto *self = static_cast<Ends *> (user_data);
    std::lock_guard<std::mutex> lock (self->mutex_);

    self->lsns.push_back (error == nullptr ? lsn : -lsn);
    if (error != nullptr)
      self->message = error->message;
    self->changed_.notify_all ();
  }

  void
  wait_for (size_t n)
  {
    std::unique_lock<std::mutex> lock (mutex_);

    changed_.wait (lock, [&] { return lsns.size () >= n; });
  }

  std::vector<gint64> lsns; /* negative if the append failed */
  std::string message;      /* of the last error */

private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

inline void
take_all_steps (TpsLog *log, gint64 now_ns = 1)
{
  gint64 wake_ns;

  while (tps_log_writer_step (tps_log_get_writer (log), now_ns, &wake_ns))
    ;
}

/* Returns the LSNs that the cursor reads. The LSN of a hole is negative. */
inline std::vector<gint64>
read_lsns (TpsLogCursor *cursor)
{
  std::vector<gint64> lsns;
  g_autoptr (GError) error = nullptr;
  TpsLogRecord record;

  while (tps_log_cursor_next (cursor, &record, &error) && record.lsn != 0)
    lsns.push_back (record.command != nullptr ? record.lsn : -record.lsn);
  EXPECT_EQ (error, nullptr) << error->message;
  return lsns;
}

inline std::vector<gint64>
read_lsns (TpsLog *log, gint64 lsn)
{
  g_autoptr (TpsLogCursor) cursor = tps_log_cursor_new (log, lsn, nullptr);

  return cursor != nullptr ? read_lsns (cursor) : std::vector<gint64> ();
}

} // namespace thriftps
