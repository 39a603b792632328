// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The kernel may refuse to watch a descriptor if memory or fs.epoll.max_user_watches is exhausted.
// That may end only the connection, never the process.

#include <gmock/gmock.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <atomic>

#include "runtime/base/error.h"
#include "tests/plugin/net/connection_fixture.h"

namespace {

// This operation of epoll_ctl() fails; 0 = none.
std::atomic<int> failing { 0 };

} // namespace

extern "C" int
epoll_ctl (int epoll_fd, int operation, int fd, struct epoll_event *event) noexcept
{
  if (operation != failing)
    return (int) syscall (SYS_epoll_ctl, epoll_fd, operation, fd, event);
  errno = ENOMEM;
  return -1;
}

namespace {

using tps_test::ConnectionTest;
using tps_test::ToBytes;

class KernelRefusalTest : public ConnectionTest
{
protected:
  void
  TearDown () override
  {
    failing = 0;
    ConnectionTest::TearDown ();
  }

  void
  ExpectRefused ()
  {
    WaitUntil ([this] { return closed_; });
    EXPECT_EQ (error_code_, TPS_ERROR_RESOURCE_EXHAUSTED);
    EXPECT_THAT (error_, testing::HasSubstr ("cannot watch descriptor"));
    EXPECT_THAT (error_, testing::HasSubstr (g_strerror (ENOMEM)));
  }
};

TEST_F (KernelRefusalTest, AConnectionThatCannotBeWatchedCloses)
{
  failing = EPOLL_CTL_ADD;
  Start ();
  ExpectRefused ();
}

TEST_F (KernelRefusalTest, AConnectionWhoseWatchCannotChangeCloses)
{
  Start ();
  failing = EPOLL_CTL_MOD;
  tps_connection_pause (connection_);
  ExpectRefused ();
}

TEST_F (KernelRefusalTest, AWatchThatCannotChangeWhileMessagesComeClosesOnce)
{
  on_message_ = [this] (TpsMessage *) {
    failing = EPOLL_CTL_MOD;
    tps_connection_pause (connection_);
    tps_connection_resume (connection_);
  };
  Start ();
  PeerSends (ToBytes (1, 10) + ToBytes (2, 10) + ToBytes (3, 10));
  ExpectRefused ();
}

TEST_F (KernelRefusalTest, AWatchThatCannotBeRemovedEndsNothing)
{
  Start ();
  failing = EPOLL_CTL_DEL;
  tps_connection_close (connection_);
  WaitUntil ([this] { return closed_; });
  Settle ();
  EXPECT_EQ (error_, "");
}

TEST_F (KernelRefusalTest, ALoopThatCannotWatchIsNotMade)
{
  g_autoptr (GError) error = nullptr;
  failing = EPOLL_CTL_ADD;
  EXPECT_EQ (tps_loop_new ("refused", &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
}

} // namespace
