// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the choice of the version of control groups, in folders with files like those of a kernel.

#include "tests/integration/memory_limit/memory_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace thriftps_test {
namespace {

using testing::HasSubstr;

std::string
Get (const std::string &path)
{
  std::string text;
  std::ifstream file (path);
  std::getline (file, text);
  return text;
}

class MemoryGroupTest : public testing::Test
{
protected:
  MemoryGroupTest ()
  {
    const char *tmp = getenv ("TEST_TMPDIR");
    root_ = std::string (tmp != nullptr ? tmp : "/tmp") + "/groups-XXXXXX";
    EXPECT_NE (mkdtemp (&root_[0]), nullptr);
  }
  ~MemoryGroupTest () override
  {
    std::filesystem::remove_all (root_);
  }
  void
  Put (const std::string &path, const std::string &text)
  {
    std::filesystem::create_directories (std::filesystem::path (root_ + "/" + path).parent_path ());
    std::ofstream (root_ + "/" + path) << text;
  }

  std::string root_;
};

TEST_F (MemoryGroupTest, OfVersionOne)
{
  Put ("memory/memory.limit_in_bytes", "9223372036854771712\n");
  Put ("unified/cgroup.controllers", "\n");
  MemoryGroup group (12345, root_);
  ASSERT_EQ (group.WhyNot (), "");
  EXPECT_EQ (group.Version (), 1);
  EXPECT_THAT (group.Path (), testing::StartsWith (root_ + "/memory/"));
  EXPECT_EQ (Get (group.Path () + "/memory.limit_in_bytes"), "12345");
  EXPECT_EQ (group.Procs (), group.Path () + "/cgroup.procs");
  std::ofstream (group.Path () + "/memory.max_usage_in_bytes") << "777\n";
  EXPECT_EQ (group.Peak (), 777u);
}

TEST_F (MemoryGroupTest, OfVersionTwo)
{
  Put ("cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma\n");
  Put ("cgroup.subtree_control", "cpu memory pids\n");
  MemoryGroup group (12345, root_);
  ASSERT_EQ (group.WhyNot (), "");
  EXPECT_EQ (group.Version (), 2);
  EXPECT_EQ (std::filesystem::path (group.Path ()).parent_path (), root_);
  EXPECT_EQ (Get (group.Path () + "/memory.max"), "12345");
  EXPECT_EQ (Get (root_ + "/cgroup.subtree_control"), "cpu memory pids") << "it was there";
  EXPECT_EQ (group.Peak (), 0u) << "older kernels do not count it";
  std::ofstream (group.Path () + "/memory.peak") << "888\n";
  EXPECT_EQ (group.Peak (), 888u);
}

TEST_F (MemoryGroupTest, OfVersionTwoTakesTheControllerForItsChildren)
{
  Put ("cgroup.controllers", "cpu memory\n");
  Put ("cgroup.subtree_control", "");
  MemoryGroup group (12345, root_);
  ASSERT_EQ (group.WhyNot (), "");
  EXPECT_EQ (Get (root_ + "/cgroup.subtree_control"), "+memory");
}

// Both versions are mounted, and the memory controller belongs to version 1.
TEST_F (MemoryGroupTest, VersionOneComesFirst)
{
  Put ("memory/memory.limit_in_bytes", "1\n");
  Put ("cgroup.controllers", "memory\n");
  Put ("cgroup.subtree_control", "memory\n");
  EXPECT_EQ (MemoryGroup (12345, root_).Version (), 1);
}

TEST_F (MemoryGroupTest, TheReasonIsNamedIfThereIsNone)
{
  EXPECT_THAT (MemoryGroup (1, root_).WhyNot (), HasSubstr ("neither version 1"));
  EXPECT_THAT (MemoryGroup (1, root_ + "/none").WhyNot (), HasSubstr (root_ + "/none"));
  Put ("cgroup.controllers", "cpu memory_more\n");
  EXPECT_THAT (MemoryGroup (1, root_).WhyNot (), HasSubstr ("neither version 1"));
}

TEST_F (MemoryGroupTest, TheReasonIsNamedIfTheTreeRefuses)
{
  // A folder in place of the file cannot be written.
  Put ("cgroup.controllers", "memory\n");
  Put ("cgroup.subtree_control/x", "");
  EXPECT_THAT (MemoryGroup (1, root_).WhyNot (), HasSubstr ("cgroup.subtree_control: Is a dir"));
}

// This test uses the machine's kernel.
TEST (MemoryGroupOfTheMachine, IsMadeOrTheReasonIsNamed)
{
  MemoryGroup group (64 << 20);
  if (!group.WhyNot ().empty ())
    GTEST_SKIP () << group.WhyNot ();
  EXPECT_TRUE (std::filesystem::exists (group.Procs ()));
  EXPECT_THAT (group.Version (), testing::AnyOf (1, 2));
  std::string limit = Get (group.Path ()
                           + (group.Version () == 1 ? "/memory.limit_in_bytes" : "/memory.max"));
  EXPECT_EQ (limit, std::to_string (64 << 20));
}

} // namespace
} // namespace thriftps_test
