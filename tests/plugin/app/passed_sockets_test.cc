// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/app/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/base/error.h"

namespace {

using testing::HasSubstr;

TEST (PassedSockets, AreNoneWithoutTheVariablesOrForAnotherProcess)
{
  for (auto [pid, fds] : { std::pair<const char *, const char *> { nullptr, nullptr },
                           { "42", nullptr },
                           { nullptr, "1" },
                           { "43", "1" },
                           { "42", "0" } })
    {
      g_auto (TpsPassedSockets) sockets = { 7, nullptr };
      ASSERT_TRUE (tps_passed_sockets_parse (pid, fds, nullptr, 42, &sockets, nullptr));
      EXPECT_EQ (sockets.n, 0u);
    }
}

TEST (PassedSockets, RefuseBadNumbersAndNamesThatDoNotFit)
{
  struct
  {
    const char *pid, *fds, *names, *message;
  } cases[] = {
    { "x", "1", nullptr, "LISTEN_PID=x: expected the id of a process" },
    { "42", "-1", nullptr, "LISTEN_FDS=-1: expected 0 to 1024" },
    { "42", "99999999999999", nullptr, "LISTEN_FDS=" },
    { "42", "2", "one", "LISTEN_FDNAMES=one: expected a name for each of LISTEN_FDS" },
  };
  for (const auto &one : cases)
    {
      g_auto (TpsPassedSockets) sockets = {};
      g_autoptr (GError) error = nullptr;
      EXPECT_FALSE (tps_passed_sockets_parse (one.pid, one.fds, one.names, 42, &sockets, &error));
      ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
      EXPECT_THAT (error->message, HasSubstr (one.message));
    }
}

} // namespace
