/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/machine/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace fs = std::filesystem;

/* A file tree with its own /proc and /sys. */
class Root
{
public:
  Root ()
  {
    char name[] = "/tmp/host-memory-XXXXXX";

    path = mkdtemp (name);
  }
  ~Root ()
  {
    fs::remove_all (path);
  }

  void
  write (const std::string &file, const std::string &text)
  {
    fs::create_directories (fs::path (path + file).parent_path ());
    std::ofstream (path + file) << text;
  }

  gsize
  limit ()
  {
    return tps_host_memory_get_group_limit (path.c_str ());
  }

  std::string path;
};

} // namespace

TEST (GroupLimit, WithoutOneThereIsNoLimit)
{
  Root root;

  EXPECT_EQ (root.limit (), G_MAXSIZE);
  root.write ("/proc/self/cgroup", "0::/user.slice\n");
  EXPECT_EQ (root.limit (), G_MAXSIZE);
  root.write ("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  EXPECT_EQ (root.limit (), G_MAXSIZE);
}

TEST (GroupLimit, Version2CountsTheGroupAndThoseAbove)
{
  Root root;

  root.write ("/proc/self/cgroup", "0::/a/b/c\n");
  root.write ("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
  root.write ("/sys/fs/cgroup/a/b/memory.max", "5000\n");
  root.write ("/sys/fs/cgroup/a/memory.max", "7000\n");
  EXPECT_EQ (root.limit (), 5000u);
  root.write ("/sys/fs/cgroup/a/b/c/memory.max", "4000\n");
  EXPECT_EQ (root.limit (), 4000u);
}

TEST (GroupLimit, Version1HasTheMemoryControllersPath)
{
  Root root;

  root.write ("/proc/self/cgroup", "5:cpu,cpuacct:/cpu\n4:memory:/a/b\n0::/elsewhere\n");
  root.write ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  root.write ("/sys/fs/cgroup/memory/cpu/memory.limit_in_bytes", "1\n");
  EXPECT_EQ (root.limit (), 9223372036854771712u);
  root.write ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8000\n");
  EXPECT_EQ (root.limit (), 8000u);
}

/* In a container, the path is relative to the host's hierarchy, but the mount shows the
 * container's. */
TEST (GroupLimit, APathThatIsNotThereLeavesTheMount)
{
  Root root;

  root.write ("/proc/self/cgroup", "0::/docker/123\n");
  root.write ("/sys/fs/cgroup/memory.max", "6000\n");
  EXPECT_EQ (root.limit (), 6000u);
}

TEST (GroupLimit, NonsenseIsNoLimit)
{
  Root root;

  root.write ("/proc/self/cgroup", "nonsense\n::\n7:\n0::/a\n");
  root.write ("/sys/fs/cgroup/a/memory.max", "lots\n");
  EXPECT_EQ (root.limit (), G_MAXSIZE);
}

TEST (HostMemory, IsAtMostTheMemoryOfTheMachine)
{
  gsize machine = static_cast<gsize> (sysconf (_SC_PHYS_PAGES)) * sysconf (_SC_PAGESIZE);

  EXPECT_EQ (tps_host_memory_get_total (), MIN (machine, tps_host_memory_get_group_limit ("")));
  EXPECT_GT (tps_host_memory_get_total (), 0u);
}
