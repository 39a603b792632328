/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/gloo/sigpipe_block.h"

#include <cerrno>
#include <pthread.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace {

bool
is_blocked ()
{
  sigset_t blocked;

  pthread_sigmask (SIG_SETMASK, nullptr, &blocked);
  return sigismember (&blocked, SIGPIPE) == 1;
}

void
write_to_nobody ()
{
  int fds[2];

  ASSERT_EQ (pipe (fds), 0);
  close (fds[0]);
  EXPECT_EQ (write (fds[1], "x", 1), -1);
  EXPECT_EQ (errno, EPIPE);
  close (fds[1]);
}

/* The signal must not terminate the process, neither while it is blocked nor afterwards. */
TEST (SigpipeBlock, ASignalDuringTheBlockIsNotDeliveredLater)
{
  for (int i = 0; i < 3; i++)
    {
      tps::SigpipeBlock block;

      EXPECT_TRUE (is_blocked ());
      write_to_nobody ();
    }
  EXPECT_FALSE (is_blocked ());
}

TEST (SigpipeBlock, LeavesItBlockedWhereItWas)
{
  tps::SigpipeBlock outer;

  {
    tps::SigpipeBlock inner;
    write_to_nobody ();
  }
  EXPECT_TRUE (is_blocked ());
}

} /* namespace */
