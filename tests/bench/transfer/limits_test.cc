// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/transfer/limits/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/transfer/system/row.h"

namespace {

TEST (RawSharedMemory, BothEndsSeeBothHalves)
{
  gint fds[2];
  TpsTransferSharedMemory here = {}, there = {};

  ASSERT_EQ (socketpair (AF_UNIX, SOCK_STREAM, 0, fds), 0);
  ASSERT_TRUE (tps_transfer_shared_memory_offer (&here, 8192, fds[0]));
  ASSERT_TRUE (tps_transfer_shared_memory_accept (&there, 8192, fds[1]));
  EXPECT_NE (here.requests, there.requests);
  tps_transfer_pattern_fill (here.requests, 8192);
  EXPECT_TRUE (tps_transfer_pattern_matches (there.requests, 8192));
  EXPECT_FALSE (tps_transfer_pattern_matches (there.answers, 8192));
  tps_transfer_pattern_fill (there.answers, 8192);
  EXPECT_TRUE (tps_transfer_pattern_matches (here.answers, 8192));
  tps_transfer_shared_memory_clear (&here);
  tps_transfer_shared_memory_clear (&there);
  EXPECT_EQ (here.requests, nullptr);
  close (fds[0]);
  close (fds[1]);
}

TEST (RawSharedMemory, AcceptFailsWithoutADescriptor)
{
  gint fds[2];
  TpsTransferSharedMemory there = {};

  ASSERT_EQ (socketpair (AF_UNIX, SOCK_STREAM, 0, fds), 0);
  ASSERT_EQ (write (fds[0], "x", 1), 1); // a byte without a descriptor
  EXPECT_FALSE (tps_transfer_shared_memory_accept (&there, 8192, fds[1]));
  close (fds[0]);
  EXPECT_FALSE (tps_transfer_shared_memory_accept (&there, 8192, fds[1]));
  close (fds[1]);
}

} // namespace
