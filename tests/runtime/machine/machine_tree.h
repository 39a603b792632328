// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Files of /sys and /proc that describe an imaginary machine.

#pragma once

#include <string>
#include <vector>

#include "runtime/machine/machine.h"

namespace thriftps_test {

constexpr gsize kKiB = 1024;
constexpr gsize kMiB = 1024 * kKiB;

// The files of one cache of one processor.
struct CacheFiles
{
  std::string level, type, size, shared_with;
};

// A file tree that is removed with the object.
class MachineTree
{
public:
  MachineTree ();
  ~MachineTree ();
  MachineTree (const MachineTree &) = delete;
  MachineTree &operator= (const MachineTree &) = delete;

  void Write (const std::string &file, const std::string &text);

  // Sets the list of processors, such as "0-1".
  void SetOnline (const std::string &list);
  // Sets the hyperthreads of processor `cpu`, and its caches index0, index1, ...
  void AddProcessor (unsigned cpu, const std::string &siblings,
                     const std::vector<CacheFiles> &caches);

  // Writes a short /proc/cpuinfo and the size of a cache line.
  void SetVendor (const std::string &vendor, const std::string &line_bytes = "64");

  // Reads the machine as a process that may use `n_allowed` processors. `library` has the sizes
  // that the C library reports for levels 1, 2, ...
  TpsMachine Read (guint n_allowed, const std::vector<gsize> &library = {});

private:
  std::string path_;
};

// Returns L1 data and instruction caches and a unified L2 cache, shared by the processors `own`,
// and an L3 cache shared by the processors `all`.
std::vector<CacheFiles> UsualCaches (const std::string &own, const std::string &all,
                                     const std::string &l1, const std::string &l2,
                                     const std::string &l3);

// Two cores of an AMD EPYC in a virtual machine, with 32 MiB of L3.
TpsMachine ReadEpyc ();
// Two cores of an Intel Xeon in a virtual machine that shows the host's 480 MiB of L3.
TpsMachine ReadXeon ();
// Four small cores that share an L2 of 512 KiB and have no L3.
TpsMachine ReadTiny ();

} // namespace thriftps_test
