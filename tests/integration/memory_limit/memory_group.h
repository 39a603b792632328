// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A memory control group of version 1 or 2, depending on the machine.
//
//   version 1   a folder in ROOT/memory, with memory.limit_in_bytes
//   version 2   a folder in ROOT, with memory.max; ROOT/cgroup.controllers must have "memory", and
//               ROOT/cgroup.subtree_control must have it or accept it
//
// ROOT is the mount point of control groups. If both versions are mounted (version 2 in
// ROOT/unified), the memory controller belongs to version 1.

#pragma once

#include <cstddef>
#include <string>

namespace thriftps_test {

class MemoryGroup
{
public:
  // Creates a group with this limit and without swap. All processes of the group must have ended
  // before its destruction. The destructor waits until the kernel has released them.
  explicit MemoryGroup (size_t limit_bytes, const std::string &root = "/sys/fs/cgroup");
  ~MemoryGroup ();
  MemoryGroup (const MemoryGroup &) = delete;
  MemoryGroup &operator= (const MemoryGroup &) = delete;

  // Returns the reason why there is no group, or "" if there is one.
  const std::string &
  WhyNot () const
  {
    return why_not_;
  }
  // Returns the path of a file. A process enters the group by writing its id to this file.
  std::string
  Procs () const
  {
    return path_ + "/cgroup.procs";
  }
  // Returns the peak memory of the group in bytes; 0 = the kernel does not count it.
  size_t Peak () const;

private:
  void Choose (const std::string &root);
  void Make (size_t limit_bytes);
  void Refuse (const std::string &operation, const std::string &path);

  int version_ = 0;
  std::string path_; // "" = not created
  std::string parent_;
  std::string why_not_;
};

} // namespace thriftps_test
