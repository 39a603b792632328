/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/slow_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace thriftps {
namespace {

const gint64 MINUTE_NS = G_GINT64_CONSTANT (60000000000);

bool
offer (TpsSlowCalls *slow, gint64 total_ns, gint64 now_ns)
{
  TpsSlowCall call = {};

  if (!tps_slow_calls_wants (slow, total_ns, now_ns))
    return false;
  tps_call_text_set (call.method, std::to_string (total_ns).c_str ());
  call.total_ns = total_ns;
  call.began_ns = now_ns - total_ns;
  tps_slow_calls_add (slow, &call, now_ns);
  return true;
}

std::vector<gint64>
list (TpsSlowCalls *slow, gint64 now_ns, guint n_max = 100)
{
  std::vector<TpsSlowCall> calls (n_max);
  std::vector<gint64> totals;
  guint n = tps_slow_calls_list (slow, now_ns, calls.data (), n_max);

  for (guint i = 0; i < n; i++)
    {
      EXPECT_EQ (calls[i].method, std::to_string (calls[i].total_ns));
      totals.push_back (calls[i].total_ns);
    }
  return totals;
}

TEST (SlowCalls, theSlowestOfAMinuteAreKept)
{
  g_autoptr (TpsSlowCalls) slow = tps_slow_calls_new (3);

  for (gint64 total : { 5, 1, 9, 3, 7, 2, 8 })
    offer (slow, total, MINUTE_NS);
  EXPECT_EQ (list (slow, MINUTE_NS), (std::vector<gint64> { 9, 8, 7 }));
  EXPECT_EQ (list (slow, MINUTE_NS, 2), (std::vector<gint64> { 9, 8 }));
  EXPECT_FALSE (offer (slow, 7, MINUTE_NS)); /* not longer than the fastest kept call */
  EXPECT_TRUE (offer (slow, 10, MINUTE_NS));
}

TEST (SlowCalls, aNewMinuteBeginsEmptyAndOldOnesAreForgotten)
{
  g_autoptr (TpsSlowCalls) slow = tps_slow_calls_new (2);

  offer (slow, 100, 0);
  offer (slow, 200, 0);
  EXPECT_FALSE (offer (slow, 50, MINUTE_NS - 1));
  EXPECT_TRUE (offer (slow, 50, MINUTE_NS));
  EXPECT_EQ (list (slow, MINUTE_NS), (std::vector<gint64> { 200, 100, 50 }));
  EXPECT_EQ (list (slow, TPS_SLOW_CALLS_MINUTES * MINUTE_NS), (std::vector<gint64> { 50 }));
  EXPECT_TRUE (offer (slow, 1, (TPS_SLOW_CALLS_MINUTES + 1) * MINUTE_NS));
  EXPECT_EQ (list (slow, (TPS_SLOW_CALLS_MINUTES + 1) * MINUTE_NS), (std::vector<gint64> { 1 }));
}

/* A call that ended in the previous minute may be added after the first call of the next minute. */
TEST (SlowCalls, aCallThatComesLateBelongsToItsMinute)
{
  g_autoptr (TpsSlowCalls) slow = tps_slow_calls_new (2);

  offer (slow, 1, 2 * MINUTE_NS);
  offer (slow, 5, 2 * MINUTE_NS - 1);
  offer (slow, 2, 2 * MINUTE_NS);
  EXPECT_EQ (list (slow, 2 * MINUTE_NS), (std::vector<gint64> { 5, 2, 1 }));
  EXPECT_FALSE (offer (slow, 1, 2 * MINUTE_NS));
}

TEST (SlowCalls, manyThreads)
{
  g_autoptr (TpsSlowCalls) slow = tps_slow_calls_new (4);
  std::vector<std::thread> threads;

  for (gint64 t = 0; t < 4; t++)
    threads.emplace_back ([slow, t] {
      for (gint64 i = 1; i <= 10000; i++)
        offer (slow, 4 * i + t, i * MINUTE_NS / 10000);
    });
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (list (slow, MINUTE_NS).front (), 40003);
}

TEST (SlowCalls, textIsCutAtACharacter)
{
  gchar field[TPS_CALL_TEXT];
  std::string text (TPS_CALL_TEXT - 2, 'a');

  tps_call_text_set (field, nullptr);
  EXPECT_STREQ (field, "");
  tps_call_text_set (field, (text + "b").c_str ());
  EXPECT_EQ (field, text + "b");
  tps_call_text_set (field, (text + "\xe2\x82\xac").c_str ());
  EXPECT_EQ (field, text);
}

} // namespace
} // namespace thriftps
