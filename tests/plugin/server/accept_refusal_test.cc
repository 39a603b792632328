// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// If the kernel fails while the server accepts and watches connections, at most these connections
// may be lost.

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <atomic>
#include <thread>

#include "tests/plugin/server/test_service.h"
#include "tests/runtime/base/trace_capture.h"

namespace {

std::atomic<int> accept_errno { 0 };      // accept4() fails with this errno; 0 = it works
std::atomic<int> n_refused_accepts { 0 }; // refusals since accept_errno was set
std::atomic<int> failing_operation { 0 }; // this operation of epoll_ctl() fails

} // namespace

extern "C" int
accept4 (int fd, struct sockaddr *address, socklen_t *n_bytes, int flags)
{
  if (accept_errno == 0)
    return (int) syscall (SYS_accept4, fd, address, n_bytes, flags);
  n_refused_accepts++;
  errno = accept_errno;
  return -1;
}

extern "C" int
epoll_ctl (int epoll_fd, int operation, int fd, struct epoll_event *event) noexcept
{
  if (operation != failing_operation)
    return (int) syscall (SYS_epoll_ctl, epoll_fd, operation, fd, event);
  errno = ENOMEM;
  return -1;
}

namespace thriftps_test {
namespace {

class AcceptRefusalTest : public ServerTest
{
protected:
  TpsServerOptions
  Options () override
  {
    TpsServerOptions options = {};
    options.n_io_threads = 2;
    return options;
  }

  void
  TearDown () override
  {
    accept_errno = 0;
    failing_operation = 0;
    ServerTest::TearDown ();
  }
};

TEST_F (AcceptRefusalTest, AcceptsAgainAfterAnyErrorOfAccept)
{
  for (int code : { EMFILE, ENFILE, ENOBUFS, ENOMEM, ECONNABORTED, EPROTO, EPERM, ENETDOWN,
                    EHOSTUNREACH, ETIMEDOUT })
    {
      n_refused_accepts = 0;
      accept_errno = code;
      RawClient waiting (tcp_);
      while (n_refused_accepts < 2)
        std::this_thread::yield ();
      accept_errno = 0;
      EXPECT_EQ (IntResult (waiting.Call ("Test:echo", IntField (code))), code) << strerror (code);
    }
}

TEST_F (AcceptRefusalTest, AFailureOfAcceptIsLogged)
{
  TraceCapture log;
  accept_errno = EMFILE;
  RawClient waiting (tcp_);
  EXPECT_NE (log.WaitFor ("accept_failed").find (strerror (EMFILE)), std::string::npos);
  accept_errno = 0;
  EXPECT_EQ (IntResult (waiting.Call ("Test:echo", IntField (1))), 1);
}

TEST_F (AcceptRefusalTest, AcceptsAgainThoughTheListenerCouldNotBeWatchedForAWhile)
{
  n_refused_accepts = 0;
  failing_operation = EPOLL_CTL_MOD;
  accept_errno = EMFILE;
  RawClient waiting (tcp_);
  while (n_refused_accepts < 3)
    std::this_thread::yield ();
  accept_errno = 0;
  failing_operation = 0;
  EXPECT_EQ (IntResult (waiting.Call ("Test:echo", IntField (1))), 1);
}

TEST_F (AcceptRefusalTest, AConnectionThatCannotBeWatchedIsClosed)
{
  RawClient before (tcp_);
  EXPECT_EQ (IntResult (before.Call ("Test:echo", IntField (1))), 1);
  failing_operation = EPOLL_CTL_ADD;
  RawClient refused (tcp_);
  EXPECT_TRUE (refused.IsClosedByPeer ());
  EXPECT_EQ (IntResult (before.Call ("Test:echo", IntField (2))), 2);
  failing_operation = 0;
  RawClient after (tcp_);
  EXPECT_EQ (IntResult (after.Call ("Test:echo", IntField (3))), 3);
  while (tps_server_get_n_connections (server_) > 2)
    std::this_thread::yield ();
}

TEST_F (AcceptRefusalTest, AServerThatCannotWatchDoesNotStart)
{
  g_autoptr (GError) error = nullptr;
  TpsServerOptions options = {};
  TestService service;
  TpsService entry = service.Get ();
  g_autoptr (TpsServer) server = tps_server_new (&options);

  tps_server_add_service (server, &entry);
  ASSERT_TRUE (tps_server_listen (server, "127.0.0.1:0", nullptr));
  failing_operation = EPOLL_CTL_ADD;
  EXPECT_FALSE (tps_server_start (server, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  TpsServerStatus status;
  tps_server_get_status (server, &status);
  EXPECT_FALSE (status.is_running);
}

} // namespace
} // namespace thriftps_test
