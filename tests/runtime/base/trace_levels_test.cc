// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "tests/runtime/base/trace_capture.h"

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using thriftps_test::TraceCapture;

TpsTraceLevel
Find (const char *text, const char *file)
{
  g_autoptr (GError) error = nullptr;
  g_autoptr (TpsTraceLevels) levels = tps_trace_levels_parse (text, &error);
  EXPECT_NE (levels, nullptr) << error->message;
  return tps_trace_levels_find (levels, file);
}

std::string
Refusal (const std::string &text)
{
  g_autoptr (GError) error = nullptr;
  g_autoptr (TpsTraceLevels) levels = tps_trace_levels_parse (text.c_str (), &error);
  EXPECT_EQ (levels, nullptr) << text;
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT)) << text;
  return error->message;
}

TEST (TraceLevels, AnAreaIsAFolderWithAllInIt)
{
  const char *levels = "warning,net=debug,server=info";
  EXPECT_EQ (Find (levels, "plugin/net/loop.c"), TPS_TRACE_DEBUG);
  EXPECT_EQ (Find (levels, "plugin/net/tls/tls.c"), TPS_TRACE_DEBUG);
  EXPECT_EQ (Find (levels, "plugin/server/session.c"), TPS_TRACE_INFO);
  EXPECT_EQ (Find (levels, "runtime/server/log/log.c"), TPS_TRACE_INFO);
  EXPECT_EQ (Find (levels, "plugin/frame/scan.c"), TPS_TRACE_WARNING);
  EXPECT_EQ (Find (levels, "plugin/network/net.c"), TPS_TRACE_WARNING);
  EXPECT_EQ (Find (levels, "net.c"), TPS_TRACE_WARNING);
  EXPECT_EQ (Find ("error,plugin=debug", "plugin/plugin.c"), TPS_TRACE_DEBUG);
}

TEST (TraceLevels, TheInnermostFolderWins)
{
  const char *levels = "server=debug,info,log=error";
  EXPECT_EQ (Find (levels, "runtime/server/log/log.c"), TPS_TRACE_ERROR);
  EXPECT_EQ (Find (levels, "runtime/server/tables/push.c"), TPS_TRACE_DEBUG);
  EXPECT_EQ (Find (levels, "plugin/net/loop.c"), TPS_TRACE_INFO);
}

TEST (TraceLevels, RefusesMalformedTexts)
{
  EXPECT_THAT (Refusal (""), HasSubstr ("it is empty"));
  EXPECT_THAT (Refusal ("loud"), HasSubstr ("log level \"loud\": unknown level; expected LEVEL"));
  EXPECT_THAT (Refusal ("info,net"), HasSubstr ("\"net\": unknown level"));
  EXPECT_THAT (Refusal ("net="), HasSubstr ("unknown level"));
  EXPECT_THAT (Refusal ("net=info,net=debug"), HasSubstr ("given twice"));
  EXPECT_THAT (Refusal ("info,debug"), HasSubstr ("given twice"));
  EXPECT_THAT (Refusal ("=info"), HasSubstr ("not the name of a folder"));
  EXPECT_THAT (Refusal ("plugin/net=info"), HasSubstr ("not the name of a folder"));
  EXPECT_THAT (Refusal (std::string (33, 'a') + "=info"), HasSubstr ("not the name of a folder"));
  EXPECT_THAT (Refusal (std::string (4096, ',')), HasSubstr ("it is too long"));
  std::string many = "info";
  for (int i = 0; i <= TPS_TRACE_MAX_AREAS; i++)
    many += ",a" + std::to_string (i) + "=info";
  EXPECT_THAT (Refusal (many), HasSubstr ("more than 32 areas"));
}

// These events look like events that files of two folders declare.
TpsTraceEvent net_event = { "net", TPS_TRACE_DEBUG, "plugin/net/x.c", 0, 0, 0 };
TpsTraceEvent log_event = { "log", TPS_TRACE_WARNING, "runtime/server/log/x.c", 0, 0, 0 };

TEST (TraceLevels, DecideAboutEachEventAndMayChangeAtAnyTime)
{
  TraceCapture capture;
  int n_evaluated = 0;
  ASSERT_TRUE (tps_trace_set_levels ("info,log=error,net=debug", nullptr));
  EXPECT_TRUE (tps_trace_is_wanted (&net_event));
  EXPECT_FALSE (tps_trace_is_wanted (&log_event));
  tps_trace (&net_event, tps_field_int ("n", 1));
  tps_trace (&log_event, tps_field_int ("n", ++n_evaluated));
  EXPECT_EQ (n_evaluated, 0);
  g_autofree gchar *text = tps_trace_dup_levels ();
  EXPECT_STREQ (text, "info,log=error,net=debug");

  g_autoptr (GError) error = nullptr;
  EXPECT_FALSE (tps_trace_set_levels ("loud", &error));
  EXPECT_TRUE (tps_trace_is_wanted (&net_event));

  ASSERT_TRUE (tps_trace_set_levels ("info", nullptr));
  EXPECT_FALSE (tps_trace_is_wanted (&net_event));
  EXPECT_TRUE (tps_trace_is_wanted (&log_event));
  tps_trace (&net_event, tps_field_int ("n", 2));
  tps_trace (&log_event, tps_field_int ("n", 2));
  EXPECT_THAT (capture.Lines (), ElementsAre ("debug net n=1", "warning log n=2"));
}

// Threads emit while the levels change. Each emission must be safe, and the last levels must apply.
TEST (TraceLevels, ChangeWhileThreadsEmit)
{
  TraceCapture capture;
  std::atomic<bool> done { false };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++)
    threads.emplace_back ([&] {
      while (!done)
        {
          tps_trace (&net_event, tps_field_int ("n", 1));
          tps_trace (&log_event, tps_field_int ("n", 1));
        }
    });
  for (int i = 0; i < 500; i++)
    ASSERT_TRUE (tps_trace_set_levels (i % 2 ? "warning,net=debug" : "error,log=warning", nullptr));
  done = true;
  for (std::thread &thread : threads)
    thread.join ();
  ASSERT_TRUE (tps_trace_set_levels ("error", nullptr));
  EXPECT_FALSE (tps_trace_is_wanted (&net_event));
  EXPECT_FALSE (tps_trace_is_wanted (&log_event));
}

} // namespace
