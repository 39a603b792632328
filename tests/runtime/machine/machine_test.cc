// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/machine/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <random>
#include <string>
#include <thread>

#include "tests/runtime/machine/machine_tree.h"

namespace thriftps_test {
namespace {

constexpr gsize kL3Limit = TPS_MACHINE_MAX_L3_PER_CORE;

// ---- caches ---------------------------------------------------------------------------------

TEST (MachineCaches, AreTheShareOfACoreOnAnEpyc)
{
  TpsMachine machine = ReadEpyc ();

  EXPECT_EQ (machine.origin, TPS_CACHES_FROM_KERNEL);
  EXPECT_EQ (machine.l1_bytes, 48 * kKiB);
  EXPECT_EQ (machine.l2_bytes, 1 * kMiB);
  EXPECT_EQ (machine.l3_bytes, kL3Limit); // two cores of eight see all of the 32 MiB
  EXPECT_EQ (machine.l3_reported, 32 * kMiB);
  EXPECT_EQ (machine.l3_cores, 2u);
  EXPECT_EQ (machine.n_processors, 2u);
  EXPECT_EQ (machine.n_cores, 2u);
}

TEST (MachineCaches, AreLimitedWhereAGuestSeesTheCacheOfItsHost)
{
  TpsMachine machine = ReadXeon ();

  EXPECT_EQ (machine.l2_bytes, 2 * kMiB);
  EXPECT_EQ (machine.l3_bytes, kL3Limit);
  EXPECT_EQ (machine.l3_reported, 480 * kMiB);
}

TEST (MachineCaches, AreSharedByTheCoresOfACluster)
{
  TpsMachine machine = ReadTiny ();

  EXPECT_EQ (machine.l1_bytes, 32 * kKiB);
  EXPECT_EQ (machine.l2_bytes, 128 * kKiB);
  EXPECT_EQ (machine.l3_bytes, 0u);
  EXPECT_EQ (machine.n_cores, 4u);
}

TEST (MachineCaches, BelongToACoreWithAllItsHyperthreads)
{
  MachineTree tree;

  tree.SetOnline ("0-15");
  for (unsigned cpu = 0; cpu < 16; cpu++)
    {
      std::string core = std::to_string (cpu % 8) + "," + std::to_string (cpu % 8 + 8);
      tree.AddProcessor (cpu, core, UsualCaches (core, "0-15", "32K", "512K", "16384K"));
    }
  TpsMachine machine = tree.Read (16);
  EXPECT_EQ (machine.l1_bytes, 32 * kKiB);
  EXPECT_EQ (machine.l2_bytes, 512 * kKiB);
  EXPECT_EQ (machine.l3_bytes, 2 * kMiB); // 16 MiB, shared by eight cores
  EXPECT_EQ (machine.l3_cores, 8u);
}

// A hybrid processor: twelve threads of six large cores, and eight small cores in two clusters.
TEST (MachineCaches, AreTheSmallestOfAHybridProcessorWhereverTheProcessMayRun)
{
  MachineTree tree;

  tree.SetOnline ("0-19");
  for (unsigned cpu = 0; cpu < 12; cpu++)
    {
      std::string core = std::to_string (cpu / 2 * 2) + "-" + std::to_string (cpu / 2 * 2 + 1);
      tree.AddProcessor (cpu, core, UsualCaches (core, "0-19", "48K", "2048K", "24576K"));
    }
  for (unsigned cpu = 12; cpu < 20; cpu++)
    {
      std::string own = std::to_string (cpu);
      std::vector<CacheFiles> caches = UsualCaches (own, "0-19", "32K", "2048K", "24576K");
      caches[2].shared_with = cpu < 16 ? "12-15" : "16-19";
      tree.AddProcessor (cpu, own, caches);
    }
  for (guint n_allowed : { 1u, 12u, 20u })
    {
      TpsMachine machine = tree.Read (n_allowed);
      EXPECT_EQ (machine.l1_bytes, 32 * kKiB);
      EXPECT_EQ (machine.l2_bytes, 512 * kKiB);
      EXPECT_GT (machine.l3_bytes, 0u);
      EXPECT_LE (machine.l3_bytes, 2 * kMiB);
      EXPECT_EQ (machine.n_cores, n_allowed);
      EXPECT_EQ (machine.n_processors, 20u);
    }
}

TEST (MachineCaches, AreFoundOnTheLastOfManyProcessors)
{
  MachineTree tree;

  tree.SetOnline ("0-999");
  tree.AddProcessor (999, "999", UsualCaches ("999", "999", "48K", "1024K", "2048K"));
  TpsMachine machine = tree.Read (1000);
  EXPECT_EQ (machine.origin, TPS_CACHES_FROM_KERNEL);
  EXPECT_EQ (machine.l3_bytes, 2 * kMiB);
}

TEST (MachineCaches, ComeFromTheLibraryWithoutFiles)
{
  MachineTree tree;

  TpsMachine machine = tree.Read (8, { 48 * kKiB, 2 * kMiB, 16 * kMiB });
  EXPECT_EQ (machine.origin, TPS_CACHES_FROM_LIBRARY);
  EXPECT_EQ (machine.l1_bytes, 48 * kKiB);
  EXPECT_EQ (machine.l2_bytes, 2 * kMiB);
  EXPECT_EQ (machine.l3_bytes, 2 * kMiB); // shared by the 8 processors
  EXPECT_EQ (machine.n_processors, 8u);

  machine = tree.Read (8, { 48 * kKiB, 2 * kMiB });
  EXPECT_EQ (machine.origin, TPS_CACHES_FROM_LIBRARY);
  EXPECT_EQ (machine.l3_bytes, 0u);
}

TEST (MachineCaches, AreAssumedIfNothingIsKnown)
{
  MachineTree tree;

  for (const std::vector<gsize> &library :
       { std::vector<gsize> {}, { 48 * kKiB }, { 0, 2 * kMiB }, { 1, 2, 3 } })
    {
      TpsMachine machine = tree.Read (3, library);
      EXPECT_EQ (machine.origin, TPS_CACHES_ASSUMED);
      EXPECT_EQ (machine.l1_bytes, 32 * kKiB);
      EXPECT_EQ (machine.l2_bytes, 1 * kMiB);
      EXPECT_EQ (machine.l3_bytes, 0u);
      EXPECT_EQ (machine.n_cores, 3u);
    }
}

TEST (MachineCaches, AreNotReadFromFilesWithoutSense)
{
  for (const char *size : { "", "K", "-1K", "0K", "huge", "48", "48G", "1e3K",
                            "999999999999999999K", "18446744073709551615", "1024KK" })
    {
      MachineTree tree;
      tree.SetOnline ("0");
      tree.AddProcessor (0, "0", UsualCaches ("0", "0", size, "1024K", "32768K"));
      EXPECT_EQ (tree.Read (1).origin, TPS_CACHES_ASSUMED) << size;
    }
  for (const char *level : { "", "x", "0", "4", "-1", "99999999999" })
    {
      MachineTree tree;
      tree.SetOnline ("0");
      tree.AddProcessor (0, "0", { { level, "Data", "48K", "0" } });
      EXPECT_EQ (tree.Read (1).origin, TPS_CACHES_ASSUMED) << level;
    }
}

TEST (MachineCaches, OfOneProcessorStandInForAnotherWithoutFiles)
{
  MachineTree tree;

  tree.SetOnline ("0-1");
  tree.AddProcessor (0, "garbage", UsualCaches ("none", "?", "48K", "1024K", "2048K"));
  TpsMachine machine = tree.Read (2);
  EXPECT_EQ (machine.origin, TPS_CACHES_FROM_KERNEL);
  EXPECT_EQ (machine.l2_bytes, 1 * kMiB); // an unreadable list counts as one core
  EXPECT_EQ (machine.l3_bytes, 2 * kMiB);
}

// ---- lines ----------------------------------------------------------------------------------

TEST (MachineLines, AreFetchedInPairsByIntel)
{
  EXPECT_TRUE (ReadXeon ().fetches_pairs);
  EXPECT_FALSE (ReadEpyc ().fetches_pairs);
  EXPECT_FALSE (ReadTiny ().fetches_pairs); // has no vendor

  MachineTree tree;
  tree.Write ("/proc/cpuinfo", "vendor_id\t: Other\nmodel name\t: not GenuineIntel\n");
  EXPECT_FALSE (tree.Read (1).fetches_pairs);
}

TEST (MachineLines, HaveTheSizeThatTheKernelReportsIfItIsOne)
{
  MachineTree tree;

  EXPECT_EQ (tree.Read (1).line_bytes, 64u);
  for (const char *text : { "32", "64", "128", "256" })
    {
      tree.SetVendor ("any", text);
      EXPECT_EQ (tree.Read (1).line_bytes, (gsize) std::stoul (text));
    }
  for (const char *text : { "", "0", "-64", "16", "96", "512", "4294967296", "line" })
    {
      tree.SetVendor ("any", text);
      EXPECT_EQ (tree.Read (1).line_bytes, 64u) << text;
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

// ---- any files ------------------------------------------------------------------------------

std::string
RandomText (std::mt19937_64 &dice)
{
  static const std::string words[] = { "0",  "1",     "2",    "3",       "-",      ",",  "K",
                                       "M",  "Data",  "0-1",  "Unified", "48K",    "\n", "\0x",
                                       "9K", "1024K", "999M", "4096K",   "100000", " ",  "max" };
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
      tree.SetOnline (dice () % 4 == 0 ? RandomText (dice) : "0-1");
      tree.Write ("/proc/self/cgroup", "0::/\n" + RandomText (dice));
      tree.Write ("/sys/fs/cgroup/cpu.max", RandomText (dice));
      for (unsigned cpu = 0; cpu < 2; cpu++)
        {
          std::vector<CacheFiles> caches = UsualCaches ("0", "0-1", "48K", "1024K", "32768K");
          for (CacheFiles &each : caches)
            for (std::string *text : { &each.level, &each.type, &each.size, &each.shared_with })
              if (dice () % 3 == 0)
                *text = RandomText (dice);
          tree.AddProcessor (cpu, RandomText (dice), caches);
        }
      TpsMachine machine = tree.Read (2, { dice () % kMiB, dice () % (4 * kMiB), dice () });
      EXPECT_GE (machine.n_cores, 1u);
      EXPECT_LE (machine.n_cores, 2u);
      EXPECT_GE (machine.n_processors, 1u);
      EXPECT_GE (machine.l1_bytes, 1u);
      EXPECT_LE (machine.l1_bytes, 1 * kMiB);
      EXPECT_GE (machine.l2_bytes, 1u);
      EXPECT_LE (machine.l2_bytes, 256 * kMiB);
      EXPECT_LE (machine.l3_bytes, kL3Limit);
    }
}

// ---- this machine ---------------------------------------------------------------------------

TEST (Machine, OfThisProcessHasCoresAndCaches)
{
  cpu_set_t allowed;
  ASSERT_EQ (sched_getaffinity (0, sizeof allowed, &allowed), 0);

  const TpsMachine *machine = tps_machine_get ();
  EXPECT_EQ (machine->n_allowed, (guint) CPU_COUNT (&allowed));
  EXPECT_GE (machine->n_cores, 1u);
  EXPECT_LE (machine->n_cores, machine->n_allowed);
  EXPECT_GE (machine->l1_bytes, 4 * kKiB);
  EXPECT_GE (machine->l2_bytes, 32 * kKiB);
}

TEST (Machine, IsTheSameForAllThreads)
{
  const TpsMachine *found[8];
  std::vector<std::thread> threads;

  for (const TpsMachine *&each : found)
    threads.emplace_back ([&each] { each = tps_machine_get (); });
  for (std::thread &thread : threads)
    thread.join ();
  for (const TpsMachine *each : found)
    EXPECT_EQ (each, tps_machine_get ());
}

} // namespace
} // namespace thriftps_test
