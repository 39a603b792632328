// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/server/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace {

constexpr gint64 kSecond = 1000000000;

TEST (LogRate, LetsABurstThroughAndThenSoManyASecond)
{
  TpsLogRate rate = {};
  int n_taken = 0;
  for (int i = 0; i < 10000; i++)
    n_taken += tps_log_rate_take (&rate, 1 * kSecond) ? 1 : 0;
  EXPECT_EQ (n_taken, TPS_LOG_BURST);
  EXPECT_EQ (rate.n_dropped, 10000u - TPS_LOG_BURST);
  n_taken = 0;
  for (int i = 0; i < 1000; i++)
    n_taken += tps_log_rate_take (&rate, 3 * kSecond) ? 1 : 0;
  EXPECT_EQ (n_taken, 2 * TPS_LOG_PER_SECOND);
}

TEST (LogWrite, DropsWhatAFullPipeDoesNotTake)
{
  int fds[2];
  std::string line (1000, 'x');
  size_t n_lines = 0;
  ASSERT_EQ (pipe (fds), 0);
  while (tps_log_write_some (fds[1], line.data (), line.size ()))
    n_lines++;
  EXPECT_GT (n_lines, 10u);
  std::string some (20000, '\0');
  ASSERT_GT (read (fds[0], &some[0], some.size ()), 0);
  EXPECT_TRUE (tps_log_write_some (fds[1], line.data (), line.size ()));
  close (fds[0]);
  close (fds[1]);
}

TEST (Log, WritesOneCleanLine)
{
  testing::internal::CaptureStderr ();
  tps_log_set_level (TPS_LOG_INFO);
  tps_log (TPS_LOG_INFO, "a %s\nb\033[1m%s", "x", std::string (5000, 'y').c_str ());
  tps_log (TPS_LOG_DEBUG, "not this");
  std::string text = testing::internal::GetCapturedStderr ();
  EXPECT_THAT (text, testing::HasSubstr ("info: a x?b?[1myyy"));
  EXPECT_EQ (text.find ('\n'), text.size () - 1);
  EXPECT_LE (text.size (), 1024u);
}

TEST (Log, KnowsItsLevels)
{
  TpsLogLevel level;
  EXPECT_TRUE (tps_log_parse_level ("debug", &level));
  EXPECT_EQ (level, TPS_LOG_DEBUG);
  EXPECT_FALSE (tps_log_parse_level ("loud", &level));
}

} // namespace
