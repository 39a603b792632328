// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "plugin/app/service_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "runtime/base/error.h"
#include "tests/plugin/app/notify_socket.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

// A stopped manager must not stop the server.
TEST (Notifier, DoesNotWaitForAManagerThatDoesNotRead)
{
  NotifySocket manager (NotifySocket::InFolder ());
  g_autoptr (TpsNotifier) notifier = tps_notifier_new (manager.address ().c_str (), nullptr);
  int n_sent = 0;
  while (tps_notifier_send (notifier, "WATCHDOG=1"))
    n_sent++;
  EXPECT_GT (n_sent, 0);
  for (int i = 0; i < n_sent; i++)
    manager.Receive ();
  EXPECT_TRUE (tps_notifier_send (notifier, "READY=1"));
  EXPECT_EQ (manager.Receive (), "READY=1");
}

TEST (Notifier, FindsAManagerThatComesBack)
{
  std::string address = NotifySocket::InFolder ();
  g_autoptr (TpsNotifier) notifier = tps_notifier_new (address.c_str (), nullptr);
  EXPECT_FALSE (tps_notifier_send (notifier, "READY=1"));
  NotifySocket manager (address);
  EXPECT_TRUE (tps_notifier_send (notifier, "READY=1"));
  EXPECT_EQ (manager.Receive (), "READY=1");
}

TEST (Notifier, RefusesOtherAddresses)
{
  for (const std::string &address :
       { std::string ("run/notify"), std::string ("@"), std::string ("/"),
         std::string ("vsock:2:1"), "/" + std::string (200, 'x') })
    {
      g_autoptr (GError) error = nullptr;
      EXPECT_EQ (tps_notifier_new (address.c_str (), &error), nullptr) << address;
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
      EXPECT_THAT (error->message, HasSubstr ("NOTIFY_SOCKET=" + address));
    }
}

} // namespace
} // namespace thriftps_test
