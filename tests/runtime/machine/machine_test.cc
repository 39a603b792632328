// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/machine/machine.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/runtime/base/one_core.h"

namespace thriftps_test {
namespace {

namespace fs = std::filesystem;

// Files of /sys and /proc that describe an imaginary machine. They are removed with the object.
class MachineTree
{
public:
  MachineTree ()
  {
    char name[] = "/tmp/machine-XXXXXX";

    path_ = mkdtemp (name);
  }
  ~MachineTree ()
  {
    fs::remove_all (path_);
  }
  MachineTree (const MachineTree &) = delete;
  MachineTree &operator= (const MachineTree &) = delete;

  void
  Write (const std::string &file, const std::string &text)
  {
    fs::create_directories (fs::path (path_ + file).parent_path ());
    std::ofstream (path_ + file) << text;
  }

  // Reads the machine as a process that may use `n_allowed` processors.
  TpsMachine
  Read (guint n_allowed)
  {
    TpsMachineSource source = { path_.c_str (), n_allowed, n_allowed };
    TpsMachine machine;

    tps_machine_read (&source, &machine);
    return machine;
  }

  const std::string &
  path () const
  {
    return path_;
  }

private:
  std::string path_;
};

// ---- lines ----------------------------------------------------------------------------------

TEST (MachineLines, AreFetchedInPairsByIntel)
{
  const struct
  {
    const char *cpuinfo;
    bool fetches_pairs;
  } cases[] = {
    { "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n", true },
    { "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n", false },
    { "vendor_id\t: Other\nmodel name\t: not GenuineIntel\n", false },
    { "", false },
  };

  EXPECT_FALSE (MachineTree ().Read (1).fetches_pairs); // has no file
  for (const auto &each : cases)
    {
      MachineTree tree;
      tree.Write ("/proc/cpuinfo", each.cpuinfo);
      EXPECT_EQ (tree.Read (1).fetches_pairs, each.fetches_pairs) << each.cpuinfo;
    }
}

// ---- cores ----------------------------------------------------------------------------------

struct QuotaCase
{
  const char *text;
  guint n_cores; // out of 8 processors
};

TEST (MachineCores, AreThoseOfTheQuotaRoundedUp)
{
  for (const QuotaCase &each : { QuotaCase { "max 100000", 8 },
                                 { "200000 100000", 2 },
                                 { "150000 100000", 2 },
                                 { "100001 100000", 2 },
                                 { "50000 100000", 1 },
                                 { "1 100000", 1 },
                                 { "1600000 100000", 8 },
                                 { "200000", 8 },
                                 { "200000 0", 8 },
                                 { "0 100000", 8 },
                                 { "-1 100000", 8 },
                                 { "garbage", 8 },
                                 { "", 8 } })
    {
      MachineTree tree;
      tree.Write ("/proc/self/cgroup", "0::/jobs/mine\n");
      tree.Write ("/sys/fs/cgroup/jobs/mine/cpu.max", std::string (each.text) + "\n");
      EXPECT_EQ (tree.Read (8).n_cores, each.n_cores) << each.text;
    }
}

TEST (MachineCores, AreLimitedByGroupsAbove)
{
  MachineTree tree;

  tree.Write ("/proc/self/cgroup", "0::/jobs/mine\n");
  tree.Write ("/sys/fs/cgroup/jobs/mine/cpu.max", "600000 100000\n");
  EXPECT_EQ (tree.Read (8).n_cores, 6u);
  tree.Write ("/sys/fs/cgroup/jobs/cpu.max", "300000 100000\n");
  EXPECT_EQ (tree.Read (8).n_cores, 3u);
  tree.Write ("/sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ (tree.Read (8).n_cores, 3u);
  EXPECT_EQ (tree.Read (8).n_quota, 3u);
  EXPECT_EQ (tree.Read (2).n_cores, 2u);
}

TEST (MachineCores, AreLimitedByVersion1)
{
  MachineTree tree;

  tree.Write ("/proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/jobs\n1:name=systemd:/\n");
  tree.Write ("/sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "-1\n");
  tree.Write ("/sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ (tree.Read (8).n_quota, 0u);
  tree.Write ("/sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "250000\n");
  EXPECT_EQ (tree.Read (8).n_cores, 3u);
  tree.Write ("/sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "0\n");
  EXPECT_EQ (tree.Read (8).n_cores, 8u);
}

TEST (MachineCores, AreOneForAThreadOnOneCore)
{
  OneCore one_core;

  EXPECT_EQ (tps_cores_count (), 1u);
}

// ---- memory ---------------------------------------------------------------------------------

// In a container, the path of a group is relative to the host's hierarchy, but the mount shows the
// container's.
TEST (GroupLimit, IsTheLowestOfTheGroupAndThoseAbove)
{
  using Files = std::vector<std::pair<std::string, std::string>>;
  const std::string groups = "/proc/self/cgroup", top = "/sys/fs/cgroup/";
  const std::string v1 = "5:cpu,cpuacct:/cpu\n4:memory:/a/b\n0::/elsewhere\n";
  const std::pair<Files, gsize> cases[] = {
    { {}, G_MAXSIZE },
    { { { groups, "0::/a\n" } }, G_MAXSIZE },
    { { { groups, "0::/a\n" }, { top + "a/memory.max", "max\n" } }, G_MAXSIZE },
    { { { groups, "nonsense\n::\n7:\n0::/a\n" }, { top + "a/memory.max", "lots\n" } }, G_MAXSIZE },
    { { { groups, "0::/a/b/c\n" },
        { top + "a/b/c/memory.max", "max\n" },
        { top + "a/b/memory.max", "5000\n" },
        { top + "a/memory.max", "7000\n" } },
      5000 },
    { { { groups, "0::/a/b\n" },
        { top + "a/b/memory.max", "4000\n" },
        { top + "a/memory.max", "7000\n" } },
      4000 },
    { { { groups, v1 },
        { top + "memory/a/b/memory.limit_in_bytes", "9223372036854771712\n" },
        { top + "memory/cpu/memory.limit_in_bytes", "1\n" } },
      9223372036854771712u },
    { { { groups, v1 }, { top + "memory/a/memory.limit_in_bytes", "8000\n" } }, 8000 },
    { { { groups, "0::/docker/123\n" }, { top + "memory.max", "6000\n" } }, 6000 },
  };

  for (const auto &[files, limit] : cases)
    {
      MachineTree tree;
      for (const auto &[file, text] : files)
        tree.Write (file, text);
      EXPECT_EQ (tps_host_memory_get_group_limit (tree.path ().c_str ()), limit)
          << (files.empty () ? "" : files.back ().first);
    }
  gsize machine = static_cast<gsize> (sysconf (_SC_PHYS_PAGES)) * sysconf (_SC_PAGESIZE);
  EXPECT_EQ (tps_host_memory_get_total (), MIN (machine, tps_host_memory_get_group_limit ("")));
}

// ---- any files ------------------------------------------------------------------------------

std::string
RandomText (std::mt19937_64 &dice)
{
  static const std::string words[] = { "0",  "1",   "2",      "3", "-", ",",
                                       "\n", "\0x", "100000", "9", " ", "GenuineIntel",
                                       "max" };
  std::string text;

  for (size_t n = dice () % 5; n > 0; n--)
    text += words[dice () % std::size (words)];
  return text;
}

TEST (Machine, IsPlausibleForAnyContentsOfTheFiles)
{
  std::mt19937_64 dice (42);

  for (int round = 0; round < 60; round++)
    {
      MachineTree tree;
      tree.Write ("/proc/cpuinfo", RandomText (dice));
      tree.Write ("/proc/self/cgroup", "0::/\n" + RandomText (dice));
      tree.Write ("/sys/fs/cgroup/cpu.max", RandomText (dice));
      TpsMachine machine = tree.Read (2);
      EXPECT_GE (machine.n_cores, 1u);
      EXPECT_LE (machine.n_cores, 2u);
    }
}

} // namespace
} // namespace thriftps_test
