// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/runtime/machine/machine_tree.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace thriftps_test {
namespace {

namespace fs = std::filesystem;

const std::string kProcessors = "/sys/devices/system/cpu";

std::vector<gsize> library_sizes;

gsize
AskLibrary (guint level)
{
  return level <= library_sizes.size () ? library_sizes[level - 1] : 0;
}

} // namespace

MachineTree::MachineTree ()
{
  char name[] = "/tmp/machine-XXXXXX";

  path_ = mkdtemp (name);
}

MachineTree::~MachineTree ()
{
  fs::remove_all (path_);
}

void
MachineTree::Write (const std::string &file, const std::string &text)
{
  fs::create_directories (fs::path (path_ + file).parent_path ());
  std::ofstream (path_ + file) << text;
}

void
MachineTree::SetOnline (const std::string &list)
{
  Write (kProcessors + "/online", list + "\n");
}

void
MachineTree::AddProcessor (unsigned cpu, const std::string &siblings,
                           const std::vector<CacheFiles> &caches)
{
  std::string folder = kProcessors + "/cpu" + std::to_string (cpu);

  Write (folder + "/topology/thread_siblings_list", siblings + "\n");
  for (size_t i = 0; i < caches.size (); i++)
    {
      std::string cache = folder + "/cache/index" + std::to_string (i);
      Write (cache + "/level", caches[i].level + "\n");
      Write (cache + "/type", caches[i].type + "\n");
      Write (cache + "/size", caches[i].size + "\n");
      Write (cache + "/shared_cpu_list", caches[i].shared_with + "\n");
    }
}

void
MachineTree::SetVendor (const std::string &vendor, const std::string &line_bytes)
{
  Write ("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: " + vendor + "\ncpu family\t: 6\n");
  Write (kProcessors + "/cpu0/cache/index0/coherency_line_size", line_bytes + "\n");
}

TpsMachine
MachineTree::Read (guint n_allowed, const std::vector<gsize> &library)
{
  TpsMachineSource source = { path_.c_str (), n_allowed, AskLibrary };
  TpsMachine machine;

  library_sizes = library;
  tps_machine_read (&source, &machine);
  return machine;
}

std::vector<CacheFiles>
UsualCaches (const std::string &own, const std::string &all, const std::string &l1,
             const std::string &l2, const std::string &l3)
{
  return { { "1", "Data", l1, own },
           { "1", "Instruction", "32K", own },
           { "2", "Unified", l2, own },
           { "3", "Unified", l3, all } };
}

static TpsMachine
ReadTwoCores (const std::string &vendor, const std::string &l2, const std::string &l3)
{
  MachineTree tree;

  tree.SetOnline ("0-1");
  tree.SetVendor (vendor);
  tree.AddProcessor (0, "0", UsualCaches ("0", "0-1", "48K", l2, l3));
  tree.AddProcessor (1, "1", UsualCaches ("1", "0-1", "48K", l2, l3));
  return tree.Read (2);
}

TpsMachine
ReadEpyc ()
{
  return ReadTwoCores ("AuthenticAMD", "1024K", "32768K");
}

TpsMachine
ReadXeon ()
{
  return ReadTwoCores ("GenuineIntel", "2048K", "491520K");
}

TpsMachine
ReadTiny ()
{
  MachineTree tree;

  tree.SetOnline ("0-3");
  for (unsigned cpu = 0; cpu < 4; cpu++)
    {
      std::string own = std::to_string (cpu);
      tree.AddProcessor (cpu, own,
                         { { "1", "Data", "32K", own },
                           { "1", "Instruction", "48K", own },
                           { "2", "Unified", "512K", "0-3" } });
    }
  return tree.Read (4);
}

} // namespace thriftps_test
