// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// If accept() fails, the server must log the failure and accept the connection later.

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/syscall.h>

#include <atomic>

#include "tests/plugin/http/http_fixture.h"
#include "tests/runtime/base/trace_capture.h"

namespace {

std::atomic<int> accept_errno { 0 }; // accept4() fails with this errno; 0 = it works

} // namespace

extern "C" int
accept4 (int fd, struct sockaddr *address, socklen_t *n_bytes, int flags)
{
  if (accept_errno == 0)
    return (int) syscall (SYS_accept4, fd, address, n_bytes, flags);
  errno = accept_errno;
  return -1;
}

namespace thriftps_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST (Http, AFailureOfAcceptIsLoggedAndDelaysTheConnection)
{
  TraceCapture log;
  Servers servers;
  accept_errno = EMFILE;
  Socket waiting (servers.url ());
  waiting.Send (Request ("/", "Connection: close\r\n"));
  EXPECT_THAT (log.WaitFor ("http_accept_failed"), HasSubstr (strerror (EMFILE)));
  accept_errno = 0;
  EXPECT_THAT (waiting.Receive (), StartsWith ("HTTP/1.1 "));
}

} // namespace
} // namespace thriftps_test
