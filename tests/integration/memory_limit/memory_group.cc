// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "tests/integration/memory_limit/memory_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace thriftps_test {
namespace {

bool
HasWord (const std::string &path, const std::string &wanted)
{
  std::ifstream file (path);
  std::string word;
  while (file >> word)
    if (word == wanted)
      return true;
  return false;
}

bool
Exists (const std::string &path)
{
  return access (path.c_str (), F_OK) == 0;
}

// Returns false and sets errno if the kernel refuses the text.
bool
Write (const std::string &path, const std::string &text)
{
  int fd = open (path.c_str (), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    return false;
  bool is_written = write (fd, text.data (), text.size ()) == static_cast<ssize_t> (text.size ());
  int code = errno;
  close (fd);
  errno = code;
  return is_written;
}

std::string
NewName ()
{
  static std::atomic<int> n { 0 };
  return "/thriftps_test_" + std::to_string (getpid ()) + "_" + std::to_string (n++);
}

} // namespace

MemoryGroup::MemoryGroup (size_t limit_bytes, const std::string &root)
{
  Choose (root);
  if (why_not_.empty ())
    Make (limit_bytes);
}

MemoryGroup::~MemoryGroup ()
{
  if (path_.empty ())
    return;
  for (int i = 0; i < 1000 && rmdir (path_.c_str ()) != 0 && errno == EBUSY; i++)
    poll (nullptr, 0, 10); // the kernel releases a killed process after a delay
}

void
MemoryGroup::Refuse (const std::string &operation, const std::string &path)
{
  why_not_ = "no memory control group: " + operation + " " + path + ": " + strerror (errno);
}

void
MemoryGroup::Choose (const std::string &root)
{
  if (Exists (root + "/memory/memory.limit_in_bytes"))
    {
      version_ = 1;
      parent_ = root + "/memory";
      return;
    }
  if (!HasWord (root + "/cgroup.controllers", "memory"))
    {
      why_not_ = "no memory control group: neither version 1 (memory/memory.limit_in_bytes) nor "
                 "version 2 (\"memory\" in cgroup.controllers) is in "
                 + root;
      return;
    }
  version_ = 2;
  parent_ = root;
  const std::string control = root + "/cgroup.subtree_control";
  if (!HasWord (control, "memory") && !Write (control, "+memory"))
    Refuse ("writing", control);
}

void
MemoryGroup::Make (size_t limit_bytes)
{
  const std::string path = parent_ + NewName ();
  const std::string limit = path + (version_ == 1 ? "/memory.limit_in_bytes" : "/memory.max");
  const std::string swap = path + "/memory.swap.max";
  if (mkdir (path.c_str (), 0755) != 0)
    {
      Refuse ("making", path);
      return;
    }
  path_ = path;
  if (!Write (limit, std::to_string (limit_bytes)))
    Refuse ("writing", limit);
  else if (version_ == 2 && Exists (swap) && !Write (swap, "0"))
    Refuse ("writing", swap);
}

size_t
MemoryGroup::Peak () const
{
  size_t n_bytes = 0;
  std::ifstream (path_ + (version_ == 1 ? "/memory.max_usage_in_bytes" : "/memory.peak"))
      >> n_bytes;
  return n_bytes;
}

} // namespace thriftps_test
