/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The shared memory of a process, according to /proc. */

#pragma once

#include <dirent.h>
#include <sched.h>
#include <sys/types.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>

namespace tps_test {

inline int
count_segments (pid_t pid)
{
  std::ifstream maps ("/proc/" + std::to_string (pid) + "/maps");
  std::string line;
  int n_segments = 0;

  while (std::getline (maps, line))
    n_segments += line.find ("thriftps-segment") != std::string::npos;
  return n_segments;
}

inline int
count_descriptors (pid_t pid)
{
  DIR *folder = opendir (("/proc/" + std::to_string (pid) + "/fd").c_str ());
  int n_descriptors = 0;

  while (folder != nullptr && readdir (folder) != nullptr)
    n_descriptors++;
  if (folder != nullptr)
    closedir (folder);
  return n_descriptors;
}

/* Waits for the condition. Returns false if it does not become true within a minute. */
inline bool
becomes (const std::function<bool ()> &is_so)
{
  auto end = std::chrono::steady_clock::now () + std::chrono::seconds (60);

  while (!is_so ())
    {
      if (std::chrono::steady_clock::now () > end)
        return false;
      sched_yield ();
    }
  return true;
}

}
