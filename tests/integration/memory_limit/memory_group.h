// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A memory control group of the version, 1 or 2, that the machine has.
//
//   version 1   a folder in ROOT/memory, with memory.limit_in_bytes
//   version 2   a folder in ROOT, with memory.max; ROOT/cgroup.controllers must have "memory", and
//               ROOT/cgroup.subtree_control must have it or take it
//
// ROOT is where control groups are mounted. If both versions are there (version 2 in ROOT/unified),
// the memory controller belongs to version 1.

#pragma once

#include <cstddef>
#include <string>

namespace thriftps_test {

class MemoryGroup
{
public:
  // Makes a group with this limit, without swap. A process of the group must not be alive when the
  // group is destroyed; the destructor waits until the kernel has released it.
  explicit MemoryGroup (size_t limit_bytes, const std::string &root = "/sys/fs/cgroup");
  ~MemoryGroup ();
  MemoryGroup (const MemoryGroup &) = delete;
  MemoryGroup &operator= (const MemoryGroup &) = delete;

  // The reason why there is no group; empty: there is a group.
  const std::string &
  WhyNot () const
  {
    return why_not_;
  }
  // 1 or 2.
  int
  Version () const
  {
    return version_;
  }
  const std::string &
  Path () const
  {
    return path_;
  }
  // The file that a process writes its id to, to enter the group.
  std::string
  Procs () const
  {
    return path_ + "/cgroup.procs";
  }
  // The peak memory of the group in bytes; 0: the kernel does not count it.
  size_t Peak () const;

private:
  void Choose (const std::string &root);
  void Make (size_t limit_bytes);
  void Refuse (const std::string &operation, const std::string &path);

  int version_ = 0;
  std::string path_; // empty: not made
  std::string parent_;
  std::string why_not_;
};

} // namespace thriftps_test
