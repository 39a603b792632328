// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/descriptor_table.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

// Returns the number of descriptors for which the kernel has room without enlarging the table.
unsigned
TableSize ()
{
  std::ifstream status ("/proc/self/status");
  std::string word;
  unsigned size = 0;
  while (status >> word)
    if (word == "FDSize:")
      status >> size;
  return size;
}

size_t
CountDescriptors ()
{
  std::filesystem::directory_iterator all ("/proc/self/fd");
  return static_cast<size_t> (std::distance (begin (all), end (all)));
}

TEST (DescriptorTable, HasRoomForAsManyAsTheProcessMayOpen)
{
  struct rlimit limit;
  size_t n_open = CountDescriptors ();
  ASSERT_EQ (getrlimit (RLIMIT_NOFILE, &limit), 0);
  limit = { 800, 800 };
  ASSERT_EQ (setrlimit (RLIMIT_NOFILE, &limit), 0);
  ASSERT_LT (TableSize (), 512u);
  tps_descriptor_table_enlarge (300);
  EXPECT_GE (TableSize (), 300u);
  EXPECT_LT (TableSize (), 800u);
  tps_descriptor_table_enlarge (G_MAXSIZE);
  EXPECT_GE (TableSize (), 800u);
  EXPECT_EQ (CountDescriptors (), n_open);
}

// Peers leave a part of a low limit to HTTP, and a larger part to files.
TEST (DescriptorTable, PeersLeaveAReserve)
{
  struct rlimit limit = { 80, 800 };
  ASSERT_EQ (setrlimit (RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE (tps_descriptor_table_may_keep (49, TPS_DESCRIPTOR_OF_PEER));
  EXPECT_FALSE (tps_descriptor_table_may_keep (50, TPS_DESCRIPTOR_OF_PEER));
  EXPECT_TRUE (tps_descriptor_table_may_keep (59, TPS_DESCRIPTOR_OF_HTTP));
  EXPECT_FALSE (tps_descriptor_table_may_keep (60, TPS_DESCRIPTOR_OF_HTTP));
  tps_descriptor_table_raise_limit ();
  ASSERT_EQ (getrlimit (RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ (limit.rlim_cur, 800u);
  EXPECT_TRUE (tps_descriptor_table_may_keep (607, TPS_DESCRIPTOR_OF_PEER));
  EXPECT_FALSE (tps_descriptor_table_may_keep (608, TPS_DESCRIPTOR_OF_PEER));
  EXPECT_FALSE (tps_descriptor_table_may_keep (672, TPS_DESCRIPTOR_OF_HTTP));
}

} // namespace
